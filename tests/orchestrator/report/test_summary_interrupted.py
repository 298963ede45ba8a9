"""What is said of a STATUS.md that a run has changed and not committed: it is not stale."""

import signal
import subprocess
import time

import pytest
from support.repository import SCRIPT, shell
from support.runtimes import PATIENCE

CODES = {"INT": 130, "TERM": 143, "KILL": -9}


@pytest.fixture
def begin(lab):
    """Yield a way to begin a run of two tickets, whose first worker works until it is stopped."""
    begun = []

    def call():
        lab.templates(
            command_1=shell("echo begun; sleep 60", timeout="60s"),
            command_2=shell("true", depends_on=["command-1"]),
        )
        runtime = subprocess.Popen(
            [SCRIPT, "run", "phase-1"], cwd=lab.root, env=lab.env(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        begun.append(runtime)
        deadline = time.monotonic() + PATIENCE
        while not (said := [one for one in lab.root.glob(".taskers/runs/*/*.stdout") if one.stat().st_size]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return runtime, said[0].parent.name

    yield call
    assert lab.call("cancel", "last").code == 0  # one that has outlived its runtime, too
    assert all(runtime.wait(20) is not None for runtime in begun)


def told(lab, run, word):
    """Check that nothing is stale for a run in the state `word`, and that its roster is reported."""
    document = lab.call("resume", "--json").document
    assert [one["status"] for one in document["runs"]] == [word]
    assert document["stale"] == []
    assert (document["git"]["uncommitted"], document["git"]["roster_of"]) == (1, [run])
    screen = lab.call("resume").out
    assert "stale" not in screen
    assert f"STATUS.md shows the workers of run {run}; its commit comes with the run's" in screen
    problems = lab.call("validate", "--json").document["problems"]
    assert not [one for one in problems if "not committed" in one["what"]]


@pytest.mark.parametrize("name", CODES)
def test_a_run_that_was_interrupted_leaves_nothing_stale(lab, begin, name):
    runtime, run = begin()
    runtime.send_signal(getattr(signal, f"SIG{name}"))
    assert runtime.wait(20) == CODES[name]
    told(lab, run, "interrupted")


def test_a_run_that_goes_on_leaves_nothing_stale_and_neither_does_one_that_was_cancelled(lab, begin):
    runtime, run = begin()
    told(lab, run, "running")
    assert lab.call("cancel", run).code == 0
    assert runtime.wait(20) != 0
    document = lab.call("resume", "--json").document
    assert (document["stale"], document["git"]["roster_of"]) == ([], [])
    assert "stale" not in lab.call("resume").out


EDITS = (
    ("**Phase:** Phase 1", "**Phase:** Phase 9"),
    ("**Active Workers:**\n", "**Active Workers:**\n- Codex-Worker-7: Tidy up (Scope: src/**)\n"),
    ("- [ ] ", "- [x] "),
)
"""Manual edits of STATUS.md beside the roster of a run."""


def test_what_was_changed_beside_the_roster_is_not_committed(lab, begin):
    runtime, _ = begin()
    runtime.terminate()
    runtime.wait(20)
    text = (lab.root / "STATUS.md").read_text()
    for old, new in EDITS:
        assert old in text
        lab.write("STATUS.md", text.replace(old, new, 1))
        document = lab.call("resume", "--json").document
        stale = [(one["kind"], one["what"]) for one in document["stale"]]
        assert ("state", "not committed: STATUS.md") in stale, new
        assert document["git"]["roster_of"] == []
    problems = lab.call("validate", "STATUS.md", "--json").document["problems"]
    assert [one for one in problems if "not committed" in one["what"]]
