"""Read-only workers of one base share a tree where none can write in it, or where the user allows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.repository import shell

from workers.fence.probe import fence_in_force

fenced = pytest.mark.skipif(
    fence_in_force().level != "namespaces", reason="without namespaces nothing keeps readers from writing"
)


def trees(lab, called):
    """Return the tree that each worker reports as its folder."""
    run = lab.root / ".taskers" / "runs" / called.document["run"]
    names = [worker["worker"] for worker in called.document["workers"]]
    return [Path((run / f"{name}.stdout").read_text().split()[0]).name for name in names]


def pwd(count, script="true", **front):
    return {f"command_{number}": shell(f"pwd; {script}", **front) for number in range(1, count + 1)}


@fenced
def test_readers_share_a_tree_and_leave_none(lab):
    lab.templates(**pwd(3), command_4=shell("pwd; echo x > out", mode="write", owns=["out"]))
    called = lab.call("run", "phase-1", "--json")
    *readers, writer = trees(lab, called)
    assert len(set(readers)) == 1 and readers[0].startswith("shared-")  # noqa: PT018 - one fact
    assert writer == "Command-Worker-4"
    assert {worker["verdict"] for worker in called.document["workers"]} == {"accepted"}
    assert not list((lab.root / ".taskers" / "worktrees").glob("*/*"))
    assert lab.git("worktree", "list").count("\n") == 1


@fenced
def test_a_reader_cannot_write_in_the_tree_that_others_read(lab):
    lab.templates(**pwd(2, "echo evil > src/app.py; echo x > new; chmod 777 src; cat src/app.py"))
    called = lab.call("run", "phase-1", "--json")
    for worker in called.document["workers"]:
        assert "hello" in (lab.root / worker["output"]).read_text()
        assert worker["violations"] == []
    assert called.document["problems"] == []


@fenced
def test_a_dependent_reads_the_tree_of_its_own_base(lab):
    lab.templates(
        command_1=shell("pwd; echo x > out", mode="write", owns=["out"]),
        command_2=shell("pwd; cat out", depends_on=["command-1"]),
        command_3=shell("pwd; test ! -e out"),
    )
    called = lab.call("run", "phase-1", "--json")
    assert {worker["outcome"] for worker in called.document["workers"]} == {"complete"}
    assert len(set(trees(lab, called))) == 3


@fenced
def test_a_shared_tree_is_set_up_once(lab):
    lab.commit({"orchestrate.toml": '[worktree]\nsetup = ["echo made >> made.txt"]\n'})
    lab.templates(**pwd(3, "cat made.txt"))
    called = lab.call("run", "phase-1", "--json")
    for worker in called.document["workers"]:
        assert (lab.root / worker["output"]).read_text().split()[1:] == ["made"]
    assert called.document["problems"] == []


JUDGED_LATE = """
import sys
import anyio
from orchestrator.cli.main import main
from orchestrator.execute import ticket as path_of_tickets

judge = path_of_tickets._judge

async def judge_late(runtime, ticket, *more, **named):
    if ticket.worker.endswith("-1"):
        with anyio.move_on_after(10):
            while not runtime.state.workers["Command-Worker-4"].started:
                await anyio.sleep(0.01)
    return await judge(runtime, ticket, *more, **named)

path_of_tickets._judge = judge_late
sys.exit(main())
"""


def test_the_slot_of_one_of_many_short_commands_is_free_before_it_is_judged(lab, tmp_path):
    waits = f"for _ in $(seq 600); do test -e {tmp_path}/last && break; sleep 0.05; done"
    lab.commit({"orchestrate.toml": 'fence = "off"\n[worktree]\nshared = "always"\n'})
    lab.write("AGENTS.md", (lab.root / "AGENTS.md").read_text().replace("15", "3", 1))
    lab.templates(
        command_1=shell(f"until test -e {tmp_path}/third; do sleep 0.01; done"),
        command_2=shell(waits),
        command_3=shell(f"echo > {tmp_path}/third; {waits}"),
        command_4=shell(f"echo > {tmp_path}/last"),
    )
    command = [sys.executable, "-c", JUDGED_LATE, "run", "phase-1", "--json"]
    done = subprocess.run(command, cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    journal = lab.root / ".taskers" / "runs" / document["run"] / "events.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    turns = [(one["event"], one["worker"][-1]) for one in events if one["event"] in ("started", "ended")]
    assert turns.index(("started", "4")) < turns.index(("ended", "1"))
    assert [worker["verdict"] for worker in document["workers"]] == ["accepted"] * 4


def test_a_user_may_want_a_tree_for_each(lab):
    lab.commit({"orchestrate.toml": '[worktree]\nshared = "never"\n'})
    lab.templates(**pwd(2))
    assert trees(lab, lab.call("run", "phase-1", "--json")) == ["Command-Worker-1", "Command-Worker-2"]


def test_without_a_fence_each_has_its_own_and_is_held_for_what_it_wrote(lab):
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    lab.templates(command_1=shell("pwd; echo x > new"), command_2=shell("pwd"))
    called = lab.call("run", "phase-1", "--json")
    assert trees(lab, called) == ["Command-Worker-1", "Command-Worker-2"]
    first, second = called.document["workers"]
    assert first["violations"] == [{"kind": "read_only_wrote", "path": "new"}]
    assert second["violations"] == []


def test_what_was_written_in_a_tree_that_is_shared_by_the_users_wish_is_told_with_all_readers(lab):
    lab.commit({"orchestrate.toml": 'fence = "off"\n[worktree]\nshared = "always"\n'})
    lab.templates(command_1=shell("pwd; echo x > new"), command_2=shell("pwd", depends_on=["command-1"]))
    called = lab.call("run", "phase-1", "--json")
    assert len(set(trees(lab, called))) == 1
    (said,) = called.says()
    assert "unattributed: new changed while Command-Worker-1, Command-Worker-2 ran" in said
    assert called.code == 1
    journal = lab.root / ".taskers" / "runs" / called.document["run"] / "events.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [event["paths"] for event in events if event["event"] == "unattributed"] == [["new"]]
