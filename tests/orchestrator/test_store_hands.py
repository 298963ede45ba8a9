"""A hand saves a state file while the store is changing it: no text is lost, and no event counts twice."""

import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.events import Completion, PhaseMoved, RosterEntry, RunDeployed, RunIntegrated
from orchestrator.store import Store
from workers.git import find_repository

HERE = Path(__file__)
LAB = runpy.run_path(str(HERE.with_name("cli_lab.py")))
CRASH = runpy.run_path(str(HERE.with_name("crash_lab.py")))
_pattern, lab = LAB["_pattern"], LAB["lab"]
Fault, done_in_child = CRASH["Fault"], CRASH["done_in_child"]
IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
STATUS, DECISIONS, BACKLOG = "STATUS.md", "DECISIONS.md", "docs/backlog.md"


@pytest.fixture
def store(lab):
    """Give a store whose next event changes three files."""
    CRASH["on_the_eve"](lab)
    lab.commit({BACKLOG: "# Backlog\n\n## Off the TODO list\n\n- [x] Older (P1, 2026-01-01)\n"})
    found = find_repository(lab.root)
    assert found is not None
    return Store(found)


def change(store):
    """Make a change of three files; the exit code says whether anything was wrong."""
    event = PhaseMoved("Phase 1: Review", "Phase 2: Core", "phase-2", None, AT, "Ada")
    done = store.record([event], message="Phase complete: Review", commit=True)
    for problem in done.problems:
        print(problem)
    return int(bool(done.problems))


def append(path, line):
    """Save as some editors do: into the file that is there."""
    with path.open("ab") as file:
        file.write(line)


def rename(path, line):
    """Save as others do: a new file in its place."""
    aside = path.with_name(f"{path.name}~")
    aside.write_bytes(path.read_bytes() + line)
    aside.replace(path)


def held(lab, why):
    """Hold that the change is there once, whole, with nothing left over."""
    status, decisions, backlog = ((lab.root / one).read_text() for one in (STATUS, DECISIONS, BACKLOG))
    assert "**Phase:** Phase 2 - Core" in status, why
    assert "Done with" not in status, why
    assert backlog.count("Done with") == 1, (why, backlog)
    assert backlog.count("Older") == 1, why
    assert decisions.count("Phase 1: Review") == lab.named, (why, decisions)
    assert lab.git("log", "--format=%s", "-1").strip() == "Phase complete: Review", why
    assert not list(lab.root.rglob("*.tmp")), why
    assert not list((lab.root / ".git" / "orchestrate").glob("*.json")), why


@pytest.fixture
def steps(lab, store):
    """List the operations of the change, and put all back."""
    base = lab.git("rev-parse", "HEAD").strip()
    outcome = done_in_child(lambda: change(store), env=lab.env())
    assert outcome.code == 0, outcome
    lab.named = (lab.root / DECISIONS).read_text().count("Phase 1: Review")
    assert lab.named
    lab.again = lambda: (lab.git("reset", "-q", "--hard", base), lab.git("clean", "-fdq"))
    held(lab, "undisturbed")
    lab.again()
    return outcome.steps


@pytest.mark.parametrize("save", [append, rename])
def test_a_line_that_is_saved_at_any_operation_stays_and_so_does_the_change(lab, store, steps, save):
    last = next(at for at, step in enumerate(steps, 1) if step.startswith("git"))
    for at in range(1, last + 1):
        for name in (STATUS, DECISIONS, BACKLOG):
            if steps[at - 1].startswith(f"replace .{Path(name).name}"):
                continue  # between the last look and the rename nobody can see a hand
            line = f"\n<!-- typed by hand at {at} -->\n".encode()

            def hand(now, _, at=at, name=name, line=line):
                if now == at:
                    save(lab.root / name, line)

            outcome = done_in_child(lambda: change(store), env=lab.env(), meddle=hand)
            why = (at, steps[at - 1], name, outcome)
            assert outcome.code == 0, why
            assert line in (lab.root / name).read_bytes(), why
            held(lab, why)
            lab.again()


def test_three_hands_in_one_transaction_cost_no_line_of_the_backlog(lab, store, steps):
    del steps
    saved = []

    def hand(_, step):
        if step.startswith("replace .STATUS.md") and not saved:
            saved.append(append(lab.root / BACKLOG, b"- [ ] by hand, first\n"))
        elif step.startswith("fsync") and len(saved) == 1 and "Core" in (lab.root / STATUS).read_text():
            if "Done with" not in (lab.root / STATUS).read_text():
                saved.append(append(lab.root / STATUS, b"\n<!-- second -->\n"))
                saved.append(append(lab.root / DECISIONS, b"\n<!-- third -->\n"))

    outcome = done_in_child(lambda: change(store), env=lab.env(), meddle=hand)
    assert outcome.code == 0, outcome
    held(lab, outcome)
    for name, line in ((BACKLOG, "first"), (STATUS, "second"), (DECISIONS, "third")):
        assert line in (lab.root / name).read_text()
