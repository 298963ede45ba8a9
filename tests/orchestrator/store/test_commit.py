"""The commit of state is made with any setup of the user's; where it cannot be, it waits and is reported."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from support.crash import done_in_child
from support.repository import TEMPLATES, shell
from support.runtimes import PATIENCE

from orchestrator.cli.main import main
from orchestrator.store import repo as repo_module

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
WAITS = "the state files are saved, their commit waits"


def add(lab, text, *, code=0):
    """Put an item on the list; return the command's output."""
    called = lab.call("todo", "add", text, "--json")
    assert called.code == code, called
    assert text in (lab.root / "STATUS.md").read_text()
    return called.document


def pending(lab, document, words):
    """Hold that a command said why its commit waits, and what to do."""
    (problem,) = document["problems"]
    assert words in problem["what"] + problem["place"]
    assert WAITS in problem["what"]
    assert problem["do"]
    assert document["commit"] is None
    assert document["next_action"] == "orchestrate resume"
    assert "intent.json: a change was decided and not completed" in "".join(
        lab.call("status", "--json").says()
    )


def merge(lab):
    lab.git("merge", "--no-commit", "side", check=False)


def rebase(lab):
    lab.git("rebase", "side", check=False)


def cherry_pick(lab):
    lab.git("cherry-pick", "side", check=False)


def revert(lab):
    lab.git("revert", "--no-commit", "HEAD", check=False)


@pytest.mark.parametrize(
    ("begin", "words"),
    [(merge, "a merge"), (rebase, "a rebase"), (cherry_pick, "a cherry-pick"), (revert, "a revert")],
)
def test_a_commit_waits_until_what_the_user_is_in_the_middle_of_is_over(lab, begin, words):
    lab.git("switch", "-qc", "side")
    lab.commit({"src/app.py": "side\n"})
    lab.git("switch", "-q", "main")
    lab.commit({"src/app.py": "main\n"})
    base = lab.git("rev-parse", "HEAD").strip()
    begin(lab)
    pending(lab, add(lab, "First", code=1), f"{words} is in progress")
    pending(lab, add(lab, "Second", code=1), f"{words} is in progress")
    assert lab.git("rev-list", "--count", "--all", f"^{base}", "^side").strip() == "0"
    lab.git(begin.__name__.replace("_", "-"), "--abort", check=False)
    if begin is rebase:
        # The abort puts back what the rebase found; what we saved meanwhile is not committed.
        assert lab.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert add(lab, "Third")["commit"] is not None
    text = lab.git("show", "HEAD:STATUS.md")
    assert [one in text for one in ("First", "Second", "Third")] == [True] * 3
    messages = lab.git("log", "--format=%B", f"{base}..HEAD").splitlines()
    assert [messages.count(f"TODO added: {one}") for one in ("First", "Second", "Third")] == [1] * 3
    assert lab.git("status", "--porcelain") == ""


@pytest.mark.hardening
def test_an_index_lock_that_nobody_holds_is_named_and_waited_for_once(lab):
    """T27: no git lives that made the lock."""
    lock = lab.root / ".git" / "index.lock"
    lock.touch()

    def slow():
        repo_module.LOCK_WAIT = 1.0
        return main(["todo", "add", "Second", "--json"])

    outcome = done_in_child(slow, env=lab.env(), cwd=lab.root)
    assert outcome.code == 1, outcome
    assert str(lock) in outcome.out
    assert WAITS in outcome.out
    outcome = done_in_child(slow, env=lab.env(), cwd=lab.root)
    assert outcome.code == 1, outcome
    assert lock.exists()
    lock.unlink()
    assert add(lab, "Third")["commit"] is not None
    assert lab.git("status", "--porcelain") == ""


@pytest.mark.hardening
@pytest.mark.soak
def test_the_index_lock_of_a_living_git_is_waited_for_and_never_taken_away(lab):
    """T27: the git that made the lock takes it away itself."""
    lock = lab.root / ".git" / "index.lock"
    lock.touch()
    seconds = 5 if IS_SOAK else 0.7
    began = time.monotonic()
    holder = subprocess.Popen(["sh", "-c", f"sleep {seconds}; test -e '{lock}' && rm '{lock}'"])
    assert add(lab, "First")["commit"] is not None
    assert time.monotonic() - began >= seconds
    assert holder.wait() == 0
    assert lab.git("status", "--porcelain") == ""


@pytest.fixture
def hostile(lab):
    """Refuse every commit by hook, sign by a program that never answers, and configure no name."""
    hooks = lab.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> '{lab.root.parent}/hooked'\nexit 1\n")
        (hooks / name).chmod(0o755)
    signer = lab.root.parent / "signer"
    signer.write_text(f"#!/bin/sh\necho >> '{lab.root.parent}/signed'\nsleep 600\n")
    signer.chmod(0o755)
    settings = {"commit.gpgsign": "true", "gpg.program": str(signer), "user.useConfigOnly": "true"}
    for key, value in settings.items():
        lab.git("config", key, value)
    for key in ("user.name", "user.email"):
        lab.git("config", "--unset", key)
    yield lab
    assert not (lab.root.parent / "hooked").exists()
    assert not (lab.root.parent / "signed").exists()


def test_a_lead_command_commits_whatever_hooks_signature_and_identity_there_are(hostile):
    began = time.monotonic()
    document = add(hostile, "First")
    assert time.monotonic() - began < 300  # the signer would take ten minutes
    assert document["commit"] == hostile.git("rev-parse", "HEAD").strip()
    assert (
        hostile.git("log", "-1", "--format=%an <%ae> %G?").strip() == "orchestrate <orchestrate@localhost> N"
    )
    assert hostile.git("show", "--format=", "--name-only", "HEAD").split() == ["STATUS.md"]


def test_a_run_commits_its_state_whatever_hooks_signature_and_identity_there_are(hostile):
    script = "mkdir -p out; echo 1 > out/1"
    folder = hostile.root / TEMPLATES
    folder.mkdir(parents=True)
    (folder / "command-1.md").write_text(shell(script, mode="write", owns=["out/**"]))
    (hostile.root / "stray").write_text("nobody's\n")
    called = hostile.call("run", "phase-1", "--json")
    made = called.document["commit"]
    assert called.document["status"] == "integrated", called
    assert hostile.git("show", "--format=", "--name-only", made["landing"]).split() == ["out/1"]
    state = hostile.git("show", "--format=", "--raw", made["state"])
    assert [line.split("\t")[1] for line in state.splitlines()] == ["STATUS.md"]
    assert "160000" not in state
    assert hostile.git("status", "--porcelain", "STATUS.md", "DECISIONS.md", "stray") == "?? stray\n"


def see_dead(pid):
    """Wait until a process is gone, or was killed and is not reaped yet."""
    until = time.monotonic() + PATIENCE
    while (stat := Path("/proc", pid, "stat")).exists() and " Z " not in stat.read_text():
        assert time.monotonic() < until, pid
        time.sleep(0.01)


def test_a_filter_of_the_users_that_hangs_is_ended_and_the_commit_waits(lab):
    lab.commit({".gitattributes": "*.md filter=slow\n"})
    lab.git("config", "filter.slow.clean", "echo $$ > ../filter; exec sleep 600")

    def limited():
        repo_module.LIMIT = 1.0
        return main(["todo", "add", "First", "--json"])

    outcome = done_in_child(limited, env=lab.env(), cwd=lab.root)
    assert outcome.code == 1, outcome
    assert WAITS in outcome.out
    see_dead((lab.root.parent / "filter").read_text().strip())
    lab.git("config", "--unset", "filter.slow.clean")
    assert add(lab, "Second")["commit"] is not None
    assert "First" in lab.git("show", "HEAD:STATUS.md")
    assert lab.git("status", "--porcelain") == ""


def test_a_commit_of_state_beside_every_branch_says_so(lab):
    assert lab.call("todo", "add", "On a branch", "--json").document["problems"] == []
    lab.git("checkout", "--quiet", "--detach")
    called = lab.call("todo", "add", "On none", "--json")
    assert called.code == 0
    (said,) = called.says()
    commit = called.document["commit"][:10]
    assert said.startswith(
        f"HEAD: is detached: commit {commit} is on no branch, and lost with the next checkout"
    )
