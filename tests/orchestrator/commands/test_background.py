"""`--detach` of steps that test first: the call returns, its tests go on, the same call waits for them."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.runtimes import PATIENCE, kill, pids, read, wait_until

STEP = ("deliverable", "done", "format", "--detach", "--json")
RELAYED = """
import json, os, sys
from pathlib import Path
from orchestrator.cli import background
from workers.git.run import find_repository
is_locked = background.is_locked
def seen(path):
    found = is_locked(path)
    if found:
        Path(os.environ["HOME"], f"waits-{os.getpid()}").touch()
    return found
background.is_locked = seen
said = background.relayed(find_repository(Path.cwd()), sys.argv[2:], float(sys.argv[1]))
if not isinstance(said, int):
    print(json.dumps(said.document | {"lines": background.lines_of(said), "code": said.exit_code}))
"""
"""A call that waits as long as its first argument says, in a process of its own as each call is."""


def relayed(lab, words, limit):
    return subprocess.run(
        [sys.executable, "-c", RELAYED, str(limit), *words],
        cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=True, timeout=PATIENCE,
    ).stdout  # fmt: skip


@pytest.fixture
def slow(planned, tmp_path):
    """Return a project whose tests note that they have begun, and end when they are told to."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    script = f"echo $$ >> {begun}; while ! test -e {end}; do sleep 0.05; done; echo 4 passed in 0.1s"
    planned.commit({"orchestrate.toml": f"[checks]\ntest = '{script}'\n", ".gitignore": ".taskers/\n"})
    yield planned, begun, end
    end.touch()
    # Nothing that a test started is left: the last of it holds the lock.
    lock = next(iter((planned.root / ".git/orchestrate/background").glob("*.lock")), None)
    if lock is not None:
        relayed(planned, STEP, PATIENCE)


def test_a_step_with_quick_tests_answers_as_without_the_option(planned):
    planned.commit({"orchestrate.toml": "[checks]\ntest = 'echo 4 passed in 0.1s'\n"})
    called = planned.call(*STEP)
    assert called.code == 0, called
    assert called.document["deliverable"]["done"] is True
    assert "check test: passed" in called.err
    assert "Tests: 4/4 passing (100%)" in planned.git("log", "-1", "--format=%B")
    refused = planned.call("deliverable", "done", "nothing", "--detach", "--json")
    assert (refused.code, refused.document["ok"]) == (2, False)


def test_a_step_whose_tests_last_returns_and_the_same_call_waits_for_them(slow):
    planned, begun, end = slow
    said = json.loads(relayed(planned, STEP, 0))
    wait_until(begun.exists)
    assert said["next_action"] == "orchestrate deliverable done format --detach"
    assert (said["code"], said["running"]) == (0, True)
    assert said["lines"][0] == "its tests are still running; the same call waits for them"
    assert json.loads(relayed(planned, STEP, 0.1))["running"] is True
    end.touch()
    assert json.loads(relayed(planned, STEP, PATIENCE))["deliverable"]["done"] is True
    assert len(begun.read_text().split()) == 1, "the tests ran twice"
    assert "- [x] Formatter (COMPLETE)" in (planned.root / "STATUS.md").read_text()


def test_a_call_that_was_killed_in_the_background_is_made_anew(slow):
    planned, begun, end = slow
    relayed(planned, STEP, 0)
    wait_until(lambda: begun.exists() and begun.read_text().endswith("\n"))
    first = int(begun.read_text())
    # The session of the call; its check stops with it.
    lock = next((planned.root / ".git/orchestrate/background").glob("*.lock"))
    holders = [pid for pid in pids() if lock in opened_by(pid)]
    assert holders
    for pid in holders:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: first not in pids())
    end.touch()
    assert json.loads(relayed(planned, STEP, PATIENCE))["deliverable"]["done"] is True
    assert len(begun.read_text().split()) == 2


def test_two_that_wait_for_one_call_get_one_answer(slow):
    planned, begun, end = slow
    relayed(planned, STEP, 0)
    wait_until(begun.exists)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(relayed, planned, STEP, PATIENCE) for _ in range(2)]
        wait_until(lambda: len(list(planned.home.glob("waits-*"))) == 3)  # the first call is one of them
        end.touch()
        first, second = (json.loads(one.result()) for one in both)
    assert first == second
    assert first["deliverable"]["done"] is True
    assert len(begun.read_text().split()) == 1, "the tests ran twice"


def test_a_call_that_is_killed_while_it_is_waited_for_is_no_success_and_no_bug(slow):
    planned, begun, _ = slow
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(planned.call, *STEP)
        wait_until(begun.exists)
        folder = planned.root / ".git/orchestrate/background"
        lock = next(folder.glob("*.lock"))
        (shell,) = [pid for pid in pids() if lock in opened_by(pid) and b"$end.new" in read(pid, "cmdline")]
        kill(shell)
        for pid in [
            pid for pid in pids() if lock in opened_by(pid) and b"--detach" not in read(pid, "cmdline")
        ]:
            kill(pid)
        told = calling.result()
    assert (told.code, told.document["waiting_for"]) == (1, "outside")
    assert "was killed, or the disk is full" in told.says()[0]


def test_a_call_whose_end_cannot_be_written_down_is_no_success_and_no_bug(planned):
    planned.commit({"orchestrate.toml": "[checks]\ntest = 'echo 4 passed in 0.1s'\n"})
    assert planned.call(*STEP).code == 0
    (lock,) = (planned.root / ".git/orchestrate/background").glob("*.lock")
    lock.with_suffix(".end.new").mkdir()  # as a full disk, which takes no byte of it
    told = planned.call(*STEP)
    assert (told.code, told.document["waiting_for"]) == (1, "outside")
    assert "was killed, or the disk is full" in told.says()[0]
    lock.with_suffix(".end.new").rmdir()
    assert planned.call(*STEP).code == 0


def test_an_answer_that_nobody_asked_for_in_an_hour_is_forgotten(planned):
    called = ("deliverable", "list", "--json")
    assert "Formatter" in relayed(planned, called, PATIENCE)
    folder = planned.root / ".git/orchestrate/background"
    assert list(folder.glob("*.end")) == []  # told once
    relayed(planned, called, 0)
    wait_until(lambda: list(folder.glob("*.end")))
    planned.commit({"STATUS.md": (planned.root / "STATUS.md").read_text().replace("Formatter", "Printer")})
    (end,) = folder.glob("*.end")
    os.utime(end, (time.time() - 4000,) * 2)
    assert "Printer" in relayed(planned, called, PATIENCE)


def opened_by(pid):
    """Return the files that a process has open."""
    try:
        return [one.readlink() for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []  # it has ended
