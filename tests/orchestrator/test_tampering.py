"""A worker that reaches the user's repository because nothing fences it: told, attributed, never landed."""

import runpy
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

CLI = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
_pattern, lab, shell = CLI["_pattern"], CLI["lab"], CLI["shell"]

EVIL = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'


@pytest.fixture
def unfenced(lab):
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    return lab


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
