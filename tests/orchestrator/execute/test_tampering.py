"""A worker that reaches the user's repository without a fence: reported, attributed, never landed."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.fences import EVIL, JOURNAL
from support.repository import SCRIPT, shell


def test_a_lone_worker_that_changes_the_users_configuration_is_held_for_it(unfenced):
    unfenced.templates(command_1=shell(EVIL))
    called = unfenced.call("run", "phase-1", "--json")
    (worker,) = called.document["workers"]
    assert worker["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert worker["verdict"] == "pending"
    assert called.code == 1


def test_what_one_of_several_workers_did_is_told_with_all_who_can_have_done_it(unfenced):
    # Each waits for the other, so that both are running when one of them does it.
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.templates(
        command_1=shell(f'{meet.format("one", "two")}; {EVIL}; touch "$ORCHESTRATE_PROJECT/.taskers/done"'),
        command_2=shell(meet.format("two", "done")),
    )
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "unattributed: .git/config changed while Command-Worker-1, Command-Worker-2 ran" in said
    assert all(worker["violations"] == [] for worker in called.document["workers"])
    assert called.code == 1


def test_a_commit_made_meanwhile_is_a_warning_and_blames_nobody(unfenced):
    unfenced.templates(command_1=shell('git -C "$ORCHESTRATE_PROJECT" commit -q --allow-empty -m mine'))
    called = unfenced.call("run", "phase-1", "--json")
    (problem,) = called.document["problems"]
    assert problem["severity"] == "warning"
    assert "refs/heads/main" in problem["what"]
    assert called.document["workers"][0]["verdict"] == "accepted"
    assert called.code == 0


def test_what_is_written_into_the_users_checkout_is_told_and_never_lands(unfenced):
    unfenced.templates(command_1=shell('echo evil >> "$ORCHESTRATE_PROJECT/src/app.py"'))
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "unattributed: src/app.py changed while Command-Worker-1 ran" in said
    assert unfenced.git("log", "--format=%H", "--", "src/app.py").count("\n") == 1


def test_the_leads_own_commands_meanwhile_are_not_told(unfenced):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    unfenced.templates(command_1=shell(f'touch {here}one"; until [ -e {here}two" ]; do sleep 0.01; done'))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(unfenced.call, "run", "phase-1", "--json")
        while not ((unfenced.root / ".taskers" / "one").exists() or running.done()):
            time.sleep(0.01)
        added = unfenced.call("todo", "add", "More")
        (unfenced.root / ".taskers" / "two").touch()
        called = running.result()
    assert added.code == 0, added
    assert called.document["workers"][0]["outcome"] == "complete"
    assert called.document["problems"] == []
    assert "More" in (unfenced.root / "STATUS.md").read_text()


def test_what_acceptance_commands_do_to_the_repository_is_told_too(unfenced):
    unfenced.templates(command_1=shell("echo x > new.py", mode="write", owns=["new.py"], acceptance=[EVIL]))
    (worker,) = unfenced.call("run", "phase-1", "--json").document["workers"]
    assert worker["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert not (unfenced.root / "new.py").exists()


def test_a_prune_after_their_ends_does_not_take_what_workers_had_started_from(unfenced):
    unfenced.templates(
        command_1=shell("echo one > one", mode="write", owns=["one"]),
        command_2=shell("echo two > two; cat one", mode="write", owns=["two"], depends_on=["command-1"]),
        command_3=shell('git -C "$ORCHESTRATE_PROJECT" gc -q --prune=now', depends_on=["command-2"]),
    )
    called = unfenced.call("run", "phase-1", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["accepted"] * 3, called
    assert (unfenced.root / "two").read_text() == "two\n"
    assert "objects/pack changed while Command-Worker-3 ran" in called.document["problems"][0]["what"]
    assert unfenced.git("for-each-ref", "refs/orchestrate") == ""


FORGED = """
import json, os, pathlib
run = pathlib.Path(os.environ["ORCHESTRATE_PROJECT"], ".taskers/runs", os.environ["ORCHESTRATE_RUN"])
found = json.loads((run / "run.json").read_text())
found["tickets"][0]["owns"] = ["**"]
(run / "run.json").write_text(json.dumps(found))
"""


def test_a_run_whose_scopes_were_widened_lands_nothing_by_them(unfenced):
    unfenced.commit({"forge.py": FORGED})
    script = "python3 forge.py; echo x > src/app.py; echo x > new"
    unfenced.templates(command_1=shell(script, mode="write", owns=["new"]))
    called = unfenced.call("deploy", "phase-1", "--json")
    (worker,) = called.document["workers"]
    kinds = {(one["kind"], one["path"].rpartition("/")[2]) for one in worker["violations"]}
    assert kinds == {("out_of_scope", "app.py"), ("out_of_scope", "run.json")}
    again = unfenced.call("integrate", "last", "--accept", worker["worker"], "--json")
    assert "run.json: is not what it was when the run began" in again.says()[0]
    assert (unfenced.root / "src" / "app.py").read_text() == "print('hello')\n"


def test_who_alone_writes_into_the_journal_is_held_for_it(unfenced):
    unfenced.templates(command_1=shell(f"echo forged >> {JOURNAL}"))
    (worker,) = unfenced.call("run", "phase-1", "--json").document["workers"]
    assert [(one["kind"], one["path"].rpartition("/")[2]) for one in worker["violations"]] == [
        ("out_of_scope", "events.jsonl")
    ]
    assert worker["verdict"] == "pending"


def test_a_line_in_the_journal_that_one_of_several_wrote_is_told_with_all_of_them(unfenced):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.templates(
        command_1=shell(f'{meet.format("one", "two")}; echo forged >> {JOURNAL}; touch {here}done"'),
        command_2=shell(meet.format("two", "done")),
    )
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "events.jsonl changed while Command-Worker-1, Command-Worker-2 ran; do not trust" in said
    assert called.code == 1


def test_honest_workers_side_by_side_leave_nothing_to_tell(unfenced):
    settings = '[worktree]\nsetup = ["echo set up"]\n[integration]\ngate = ["true"]\n'
    unfenced.commit({"orchestrate.toml": f'fence = "off"\n{settings}'})
    log = '"$ORCHESTRATE_PROJECT/.taskers/messages/$ORCHESTRATE_RUN.$ORCHESTRATE_WORKER.jsonl"'
    said = f"for n in 1 2 3; do echo $n; echo '{{}}' >> {log}; sleep 0.02; done"
    unfenced.templates(**{
        f"command_{n}": shell(
            f"{said}; echo x > f{n}; test {n} != 3 || kill -9 $$", mode="write", owns=[f"f{n}"],
            acceptance=[f"cat f{n}"], depends_on=["command-1"] if n == 4 else [],
        ) for n in range(1, 5)
    })  # fmt: skip
    deployed = unfenced.call("deploy", "phase-1", "--json")
    assert [one["attempts"] for one in deployed.document["workers"]] == [1, 1, 2, 1]
    integrated = unfenced.call("integrate", "last", "--json")
    for called in (deployed, integrated):
        assert not [one for one in called.says() if "unattributed" in one]
        assert all(one["violations"] == [] for one in called.document["workers"])
    verdicts = [one["verdict"] for one in integrated.document["workers"]]
    assert verdicts == ["accepted", "accepted", "rejected", "accepted"]


PLANT = """
import os, pathlib
run = pathlib.Path(os.environ["ORCHESTRATE_PROJECT"], ".taskers/runs", os.environ["ORCHESTRATE_RUN"])
for end in ("patch", "txt", "json"):
    (run / f"Command-Worker-2.{end}").write_text("forged")
"""


@pytest.mark.parametrize("waits", [True, False])
def test_an_answer_that_somebody_puts_in_the_place_of_anothers_is_told_and_does_not_land(unfenced, waits):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.commit({"plant.py": PLANT})
    first, second = ("", "") if waits else (meet.format("one", "two"), meet.format("two", "done"))
    unfenced.templates(
        command_1=shell(f'{first or ":"}; python3 plant.py; touch {here}done"'),
        command_2=shell(
            f"{second or ':'}; echo mine > one", mode="write", owns=["one"],
            depends_on=["command-1"] if waits else [],
        ),
    )  # fmt: skip
    called = unfenced.call("run", "phase-1", "--json")
    workers = called.document["workers"]
    for end in ("patch", "txt", "json"):
        told = [one for one in (*called.says(), str(workers[0]["violations"])) if f"Worker-2.{end}" in one]
        assert len(told) == 1, called
    assert not workers[1]["violations"]
    assert bool(workers[0]["violations"]) == waits
    assert called.code == 1


def test_workers_that_cannot_be_started_are_not_named_for_what_a_later_one_does_alone(unfenced):
    scratch = '"$ORCHESTRATE_PROJECT/.taskers/scratch/$ORCHESTRATE_RUN/'
    record = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/'
    until = " && ".join(f'[ -e {record}Command-Worker-{n}.json" ]' for n in (2, 3))
    unfenced.templates(
        command_1=shell(f'touch {scratch}Command-Worker-2"; touch {scratch}Command-Worker-3"'),
        **{f"command_{n}": shell("true", depends_on=["command-1"]) for n in (2, 3)},
        command_4=shell(f"until {until}; do sleep 0.01; done", depends_on=["command-1"]),
        command_5=shell(EVIL, depends_on=["command-4"]),
    )
    called = unfenced.call("run", "phase-1", "--json")
    workers = called.document["workers"]
    assert [one["outcome"] for one in workers] == ["complete", "failed", "failed", "complete", "complete"]
    assert workers[4]["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert not [one for one in called.says() if "unattributed" in one]


def test_who_outlives_a_killed_runtime_is_not_blamed_alone_for_what_another_did_before(unfenced):
    here = unfenced.root / ".taskers"
    unfenced.templates(
        command_1=shell(f"until [ -e {here}/both ]; do sleep 0.01; done; {EVIL}"),
        command_2=shell(f"touch {here}/both; until [ -e {here}/done ]; do sleep 0.01; done"),
    )
    command = [SCRIPT, "run", "phase-1", "--json"]
    process = subprocess.Popen(
        command, cwd=unfenced.root, env=unfenced.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        while not any('"ended"' in path.read_text() for path in here.glob("runs/*/events.jsonl")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
        (here / "done").touch()
    (run,) = (path.parent.name for path in here.glob("runs/*/events.jsonl"))
    called = unfenced.call("resume", run, "--json")
    assert [(one["outcome"], one["violations"]) for one in called.document["workers"]] == [
        ("complete", [])
    ] * 2
    (said,) = (one for one in called.says() if "unattributed" in one)
    assert ".git/config changed while Command-Worker-1, Command-Worker-2 ran" in said
