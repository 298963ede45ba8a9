"""A run that ends while the user is on another branch: all of it is recorded on the branch of the run."""

import json

import pytest
from support.gates import writer
from support.repository import shell
from support.runtimes import wait_until

from workers.files.locks import is_locked

ELSEWHERE = "refs/heads/feature: the run started on refs/heads/main; switch back to that branch"


def away(lives, *meanwhile, **templates):
    """Have a run end after the user has switched to a new branch; return it and the answer of `integrate`."""
    lives.lab.templates(**(templates or {"command_1": shell(lives.waits), "command_2": writer(2)}))
    run, _ = lives.detached()
    lives.lab.git("switch", "--quiet", "--create", "feature")
    for command in meanwhile:
        assert lives.call(*command, "--json").code == 0
    lives.let_go(1)
    wait_until(lambda: not is_locked(run / "run.lock"))
    return run.name, lives.call("integrate", run.name, "--json")


def completions(text):
    """Return the workers that STATUS.md tells to be complete, sorted."""
    return sorted(line.split(":")[0][2:] for line in text.splitlines() if "(COMPLETE, accepted" in line)


@pytest.mark.parametrize("meanwhile", [(), (("todo", "add", "Something"),)], ids=["as-it-is", "changed"])
def test_all_verdicts_are_recorded_in_one_commit_once_the_user_is_back(lives, meanwhile):
    run, told = away(lives, *meanwhile)
    assert (told.code, told.document["status"], told.says()) == (1, "finished", [ELSEWHERE])
    for command in ("status", "resume"):
        said = lives.call(command, "--json").document
        assert said["what"] == f"{ELSEWHERE}; then `orchestrate integrate {run}`"
        assert not [one for one in said["problems"] if "intent" in one["place"]]
    assert completions((lives.root / "STATUS.md").read_text()) == []
    lives.lab.git("switch", "--quiet", "main")
    told = lives.call("integrate", run, "--json")
    assert (told.code, told.document["status"], told.document["problems"]) == (0, "integrated", [])
    both = ["Command-Worker-1", "Command-Worker-2"]
    assert completions((lives.root / "STATUS.md").read_text()) == both
    message = lives.lab.git("show", "--no-patch", "--format=%B", told.document["commit"]["state"])
    assert [line[2:].partition(":")[0] for line in message.splitlines() if line.startswith("- ")] == both
    assert lives.lab.git("status", "--porcelain") == ""
    assert completions(lives.lab.git("show", "feature:STATUS.md")) == []


def test_the_verdicts_of_workers_that_changed_nothing_wait_for_the_branch_too(lives):
    run, told = away(lives, command_1=shell(f"{lives.waits}; exit 3"))
    assert (told.code, told.document["status"], told.says()) == (1, "finished", [ELSEWHERE])
    said = lives.call("status", "--json").document
    assert said["what"] == f"{ELSEWHERE}; then `orchestrate integrate {run}`"
    lives.lab.git("switch", "--quiet", "main")
    assert lives.call("integrate", run, "--json").document["status"] == "integrated"
    assert "switch back" not in lives.call("status").out


def test_a_decided_change_of_another_branch_is_not_mixed_with_the_changes_of_this_one(lab):
    """As after a merge, in which a run's results could not be committed, and that was aborted."""
    lab.templates(command_1=shell("true"))
    assert lab.call("todo", "add", "First").code == 0
    commit = {"paths": ["STATUS.md"], "message": "Integrated", "branch": "refs/heads/main", "saved": {}}
    intent = lab.root / ".git/orchestrate/intent.json"
    intent.write_text(json.dumps({"moves": [], "commit": commit}))
    with (lab.root / "STATUS.md").open("a") as file:
        file.write("\nsaved\n")
    lab.git("switch", "--quiet", "--create", "feature")
    before = lab.everything()
    told = lab.call("todo", "add", "Second", "--json")
    assert told.code == 1
    assert "the run started on refs/heads/main; the change is decided" in told.says()[0]
    assert lab.call("run", "phase-1", "--json").code == 1
    assert not list(lab.root.glob(".taskers/runs/*"))
    for command in ("status", "resume"):
        what = lab.call(command, "--json").document["what"]
        assert what == "a decided change waits for refs/heads/main: switch back, then `orchestrate resume`"
    assert (lab.root / "STATUS.md").read_bytes() == before["STATUS.md"][1]
    lab.git("switch", "--quiet", "main")
    assert lab.call("resume", "--json").code == 0
    assert lab.git("log", "-1", "--format=%s", "main") == "Integrated\n"
    assert (lab.git("status", "--porcelain"), intent.exists()) == ("", False)
