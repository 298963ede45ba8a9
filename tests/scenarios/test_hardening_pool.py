"""Slots, restarts and foreign kills: no slot is lost, nothing is done twice."""

import json
import os
import signal
from datetime import datetime

import pytest
from support.faults import step, ticket
from support.repository import template

from workers.files.run_dir import runs_of

pytestmark = pytest.mark.hardening
SECOND = "Claude-Worker-2*.started.json"


def test_workers_that_cannot_start_give_their_slots_back(rehearsal):
    """T23: thirty without a program, fifteen without a folder to work in, then fifteen good ones."""
    missing = {f"command-{number}": command(["no-such-program"]) for number in range(1, 31)}
    barred = {
        f"command-{number}": ticket("true", agent="command", depends_on=["codex-1"])
        for number in range(31, 46)
    }
    good = {f"command-{number}": ticket("sleep 0.2", agent="command") for number in range(46, 61)}
    gate = 'while [ ! -e "$ORCHESTRATE_PROJECT/.git/go" ]; do sleep 0.02; done'
    rehearsal.prepare(
        {"codex-1": ticket(step("shell", command=gate), agent="codex"), **missing, **barred, **good}
    )
    runtime = rehearsal.begin("run", "phase-1")
    rehearsal.wait_until(rehearsal.run_folder)
    scratch = rehearsal.root / ".taskers" / "scratch" / rehearsal.run_folder().name
    scratch.mkdir(parents=True, exist_ok=True)
    for number in range(31, 46):
        (scratch / f"Command-Worker-{number}").touch()
    (rehearsal.root / ".git" / "go").touch()
    document = rehearsal.end(runtime, 1)
    told = {one["ticket"]: one for one in document["workers"]}
    for name in missing:
        assert (told[name]["outcome"], told[name]["attempts"]) == ("failed", 1)
        assert told[name]["reason"] == "no such program: no-such-program"
    for name in barred:
        assert told[name]["outcome"] == "failed"
        place = f".taskers/scratch/{document['run']}/{told[name]['worker']}"
        assert told[name]["reason"] == f"{place}: file exists"
    assert {told[name]["outcome"] for name in (*good, "codex-1")} == {"complete"}
    assert 2 <= most_at_once(rehearsal) <= 15


def command(argv):
    """Write a template of a worker that is a program."""
    return template(argv, retries=0, timeout="20s")


def most_at_once(rehearsal):
    """Return the most workers that lived at one time, from the records of their shims."""
    steps = []
    for path in rehearsal.run_folder().rglob("*.exit.json"):
        record = json.loads(path.read_text())
        if record["pid"] is not None:
            steps += [(record["started"], 1), (record["ended"], -1)]
    living = most = 0
    for _, change in sorted(steps):
        living += change
        most = max(most, living)
    return most


def test_a_restart_runs_what_is_left_and_nothing_twice(rehearsal):
    """T24: A is done, B was running and is gone with its shim, C has not begun; then a second restart."""
    gate = 'while [ ! -e "$ORCHESTRATE_PROJECT/.git/go" ]; do sleep 0.02; done'
    rehearsal.prepare({
        "claude-1": ticket(step("hash")),
        "claude-2": ticket(step("shell", command=gate), depends_on=["claude-1"]),
        "claude-3": ticket(depends_on=["claude-2"]),
    })  # fmt: skip
    runtime = rehearsal.begin("run", "phase-1")
    rehearsal.wait_until(lambda: len(rehearsal.journal("started")) == 2)
    folder = rehearsal.run_folder()
    rehearsal.wait_until(lambda: any(path.stat().st_size for path in folder.rglob(SECOND)))
    runtime.kill()
    runtime.communicate()
    (started,) = folder.rglob(SECOND)
    os.kill(json.loads(started.read_text())["shim_pid"], signal.SIGKILL)
    (rehearsal.root / ".git" / "go").touch()
    document = rehearsal.run("resume", folder.name)
    assert [one["outcome"] for one in document["workers"]] == ["complete"] * 3
    spawned = [one["worker"] for one in rehearsal.journal("started")]
    assert spawned == ["Claude-Worker-1", "Claude-Worker-2", "Claude-Worker-2", "Claude-Worker-3"]
    again = rehearsal.run("resume", folder.name)
    assert again["commit"] == document["commit"]
    assert [one["worker"] for one in rehearsal.journal("started")] == spawned
    assert len(list(runs_of(rehearsal.root))) == 1


def test_a_worker_killed_by_somebody_else_failed_and_is_tried_again_after_a_pause(rehearsal):
    """T25: one of five dies of signal 9 in the middle of a record."""
    rehearsal.prepare({
        "claude-1": ticket(step("say"), step("die", signal=9), retries=1),
        **{f"claude-{number}": ticket() for number in range(2, 6)},
    })  # fmt: skip
    document = rehearsal.run()
    one, *others = document["workers"]
    assert (one["outcome"], one["exit_code"], one["attempts"]) == ("failed", None, 2)
    assert one["reason"].startswith("killed by signal 9")
    assert one["reason"].endswith("not by us")
    assert rehearsal.stdout(one).splitlines()[-1].startswith(b'{"type":"assistant"')
    assert not rehearsal.stdout(one).endswith(b"}\n")
    assert [other["outcome"] for other in others] == ["complete"] * 4
    (retry,) = rehearsal.journal("retry")
    second = rehearsal.journal("started")[-1]
    pause = datetime.fromisoformat(second["at"]) - datetime.fromisoformat(retry["at"])
    assert pause.total_seconds() >= 1
