"""Committed words name no folder of this machine."""

import json
from pathlib import Path

import pytest
from support.repository import AT, shell

from orchestrator.state.events import BlockerRaised, TaskMoved, TodoAdded, TodoDone
from orchestrator.store.places import in_event, without_new_secrets, without_places
from tickets.redact import Redactor

ROOT = Path("/home/ada/shop")


@pytest.fixture(autouse=True)
def places(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("TMPDIR", "/scratch/tmp")


@pytest.mark.parametrize(
    ("said", "committed"),
    [
        ("no /home/ada/shop/.taskers/worktrees/20260216_142834/Codex-Worker-1/src/a.py:3", "no src/a.py:3"),
        ("see /home/ada/shop/docs/x.md", "see docs/x.md"),
        ("in /home/ada/shop", "in ."),
        ("in /home/ada/shop.", "in .."),
        ("/home/ada/shop-two/x and '/home/ada/.codex/auth.json'", "~/shop-two/x and '~/.codex/auth.json'"),
        ("/home/ada is full", "~ is full"),
        ("/home/adam/x", "/home/adam/x"),
        ("wrote /tmp/pytest-1/out.txt, /scratch/tmp/x", "wrote …/out.txt, …/x"),
        ("https://a.example/home/ada/shop, a/home/ada", "https://a.example/home/ada/shop, a/home/ada"),
        ("at file:///home/ada/shop/.taskers/worktrees/2/W-1/src/a.mjs:3:7", "at src/a.mjs:3:7"),
        ("file:///home/ada/x, file:///tmp/a/b.js, file:///usr/x", "~/x, …/b.js, file:///usr/x"),
        ("/usr/bin/python3 -m x", "/usr/bin/python3 -m x"),
    ],
)  # fmt: skip
def test_a_path_of_the_machine_becomes_a_relative_one(said, committed):
    assert without_places(said, ROOT) == committed
    assert without_places(committed, ROOT) == committed


def test_new_words_are_changed_and_the_name_of_what_is_there_is_not():
    added = TodoAdded(("look at /home/ada/shop/x",), "P0", None, "Ada")
    assert in_event(added, ROOT, Redactor()).items == ("look at x",)
    done = TodoDone("look at /home/ada/shop/x", "P0", None, "Ada")
    assert in_event(done, ROOT, Redactor()) == done


def test_new_words_lose_their_secrets_and_the_name_of_what_is_there_does_not():
    redactor = Redactor((("A_KEY", "hunter22"),))
    added = TodoAdded(("use hunter22",), "P0", None, "hunter22")
    assert in_event(added, ROOT, redactor) == TodoAdded(
        ("use [redacted:A_KEY]",), "P0", None, "[redacted:A_KEY]"
    )
    done = TodoDone("use hunter22", "P0", None, "Ada")
    assert in_event(done, ROOT, redactor) == done


def test_a_file_keeps_the_secrets_that_it_has_and_gets_no_new_one():
    redactor = Redactor((("A_KEY", "hunter22"),))
    old = b"one hunter22\ntwo\n"
    new = b"one hunter22\nthree hunter22\ntwo\nfour\n"
    assert without_new_secrets(new, [old, None], redactor) == new.replace(
        b"three hunter22", b"three [redacted:A_KEY]"
    )


def test_nothing_that_a_run_commits_names_the_machine(lab):
    report = 'ORCHESTRATE-RESULT {"status": "blocked", "summary": "no %s/src"}'
    lab.templates(
        command_1=shell(f"printf '{report}\\n' \"$PWD\"", mode="write", owns=["src/b/**"]),
        command_2=shell("echo x > notes.txt; echo y > src/a", mode="write", owns=["src/a"]),
    )
    run = lab.call("run", "phase-1", "--json").document
    assert str(lab.root) in next(one["reason"] for one in run["workers"] if one["ticket"] == "command-1")
    lab.call("integrate", run["run"], "--accept", "command-2", "--reason", f"see {lab.root}/src", "--json")
    lab.call("todo", "add", f"clear {lab.root}/src/x", "--json")
    lab.call("decide", f"Keep {lab.root}/src", "--context", f"{Path.home()}/x", "--decision", "d", "--json")
    lab.call("handoff", "--json")
    whole = lab.git("log", "-p", "--format=%B", "HEAD")
    assert "clear src/x" in whole
    assert "Keep src" in whole
    added = [line for line in whole.splitlines() if not line.startswith(("-", " "))]
    assert [line for line in added if str(lab.root) in line and "worker-ticket-templates" not in line] == []
    assert json.dumps(str(Path.home())) not in whole


@pytest.mark.parametrize("name", ["title", "task", "attempted", "needs", "body"])
def test_the_words_of_a_blocker_hold_no_path_of_this_machine(name):
    event = BlockerRaised("phase-2", "Why?", "r.W:1", AT, "skip", "02-01")._replace(
        **{name: f"see {ROOT}/src/a.py"}
    )
    assert getattr(in_event(event, ROOT, Redactor()), name) == "see src/a.py"


def test_a_task_is_found_again_by_the_words_that_are_kept():
    moved = [TaskMoved("phase-2", "02-01", f"mend {ROOT}/a.py", to, "r.W:1", AT) for to in ("doing", "done")]
    assert {in_event(one, ROOT, Redactor()).task for one in moved} == {"mend a.py"}
