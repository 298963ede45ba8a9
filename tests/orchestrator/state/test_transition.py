"""What events make of the files of the families that are on, and what is read for it."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from support.families import COPY, FAMILY, turn_on

from orchestrator.errors import StateError
from orchestrator.state import ALWAYS, is_owned, owned_paths
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.status import status
from orchestrator.state.events import (
    Completion,
    CriterionMet,
    Decided,
    Decision,
    DeliverableChanged,
    GateAnswered,
    PhaseMoved,
    RosterEntry,
    RunClosed,
    RunDeployed,
    RunIntegrated,
    TodoAdded,
    TodoDone,
    TodoMoved,
)
from orchestrator.state.facts import Facts
from orchestrator.state.transition import transition
from orchestrator.store.read import FilesRead
from tickets.scopes.scope import Scope

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
RUN = "20260216_142834"
FACTS = Facts("Demo", "Ada", AT)
TREE = {
    "STATUS.md": status.initial(FACTS).encode(),
    "DECISIONS.md": decisions.initial(FACTS).encode(),
    COPY: b"# All\n",
}
ON = (*ALWAYS, FAMILY)
DEPLOYED = RunDeployed(RUN, "phase-1", AT, "Ada", (RosterEntry("Codex-Worker-1", "T", ()),))
DONE = Completion("Codex-Worker-1", "T", "complete", "accepted", "ok", ())
EVENTS = {
    DEPLOYED: {"STATUS.md"},
    RunIntegrated(RUN, "phase-1", AT, "Ada", (DONE,), None): {"STATUS.md"},
    RunIntegrated(RUN, "phase-1", AT, "Ada", (DONE._replace(decider="lead"),), None): {
        "STATUS.md", "DECISIONS.md"
    },
    RunClosed(RUN, AT, "Ada", "cancelled"): {"STATUS.md"},
    TodoAdded(("new",), "P1", AT, "Ada"): {"STATUS.md"},
    TodoDone("Read the reports under `.taskers/runs/`", "P0", AT, "Ada"): {"STATUS.md", "docs/backlog.md"},
    TodoMoved("Read the reports under `.taskers/runs/`", "P0", None, AT, "Ada"): {
        "STATUS.md", "docs/backlog.md"
    },
    Decided((Decision("Title", "why", "that"),), AT, "Ada"): {"DECISIONS.md"},
    GateAnswered("plan", "Ada", "approved", "", "the plan", AT, "Ada"): {"DECISIONS.md"},
    DeliverableChanged("Phase 1: Review", "Survey", "IN PROGRESS", "", "", "", AT, "Ada"): {"STATUS.md"},
    CriterionMet("Phase 1: Review", "x", True, AT, "Ada"): {"STATUS.md"},
    PhaseMoved("Phase 1: Review", None, "", "", AT, "Ada"): {"STATUS.md", "DECISIONS.md", "docs/backlog.md"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def family(monkeypatch):
    turn_on(monkeypatch)


def read_by(event, on=ALWAYS):
    """Return which files are read for an event; some of these have no place for it."""
    now = FilesRead(TREE.get)
    with suppress(StateError):
        transition(now, [event], on)
    return set(now)


@pytest.mark.parametrize(("event", "paths"), EVENTS.items(), ids=lambda one: type(one).__name__)
def test_only_the_files_that_an_event_concerns_are_read(event, paths):
    assert read_by(event) == paths


def test_a_family_that_is_off_is_neither_read_nor_written():
    assert read_by(DEPLOYED) == {"STATUS.md"}
    assert read_by(DEPLOYED, ON) == {"STATUS.md", "ai_memory/phase-1/notes.md", COPY}


def test_a_copy_sees_what_an_event_has_made_of_its_home():
    made = transition(TREE, [DEPLOYED, TodoAdded(("x",), "P1", AT, "Ada"), DEPLOYED], ON).texts
    assert made["ai_memory/phase-1/notes.md"] == b"# Notes\n\n- one\n- one more\n"
    assert made[COPY] == (
        b"# All\nai_memory/phase-1/notes.md: 1\nai_memory/lead/notes.md: 1\nai_memory/phase-1/notes.md: 2\n"
    )


DAMAGED = {
    "a NUL byte": b"# Notes\n\0",
    "both sides of a conflict": b"# N\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n",
    "not UTF-8": b"# Notes \xff\n",
    "empty": b"",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_a_family_refuses_the_command_of_a_lead_that_needs_it(damage):
    tree = {**TREE, "ai_memory/lead/notes.md": DAMAGED[damage]}
    with pytest.raises(StateError) as refused:
        transition(tree, [TodoAdded(("x",), "P1", AT, "Ada")], ON)
    assert "ai_memory/lead/notes.md" in str(refused.value)
    assert set(transition(tree, [DEPLOYED], ON).texts) == {"STATUS.md", "ai_memory/phase-1/notes.md", COPY}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_run_leaves_a_damaged_file_of_a_family_as_it_is_and_says_so(damage):
    tree = {**TREE, "ai_memory/phase-1/notes.md": DAMAGED[damage]}
    other = DEPLOYED._replace(phase="phase-2")
    found = transition(tree, [other, DEPLOYED], ON, leaves=True)
    assert set(found.texts) == {"STATUS.md", "ai_memory/phase-2/notes.md", COPY}
    assert {index for index, _ in found.left} == {1}
    assert all(problem.severity == "warning" for _, problem in found.left)
    assert "ai_memory/phase-1/notes.md" in str(found.left[0][1])


def test_a_run_needs_its_canonical_files_all_the_same():
    with pytest.raises(StateError):
        transition({**TREE, "STATUS.md": b""}, [DEPLOYED], ON, leaves=True)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("ai_memory/phase-1/notes.md", True), ("ai_memory/a/b/notes.md", False), (COPY, True),
        ("ai_memory/notes.md", False), ("STATUS.md", True), ("docs/STATUS.md", False),
        ("ai_memory/phase-1/notes.md.bak", False),
    ],
)  # fmt: skip
def test_a_pattern_of_a_document_is_read_as_that_of_a_ticket(path, is_one):
    assert is_owned(path, ON) is is_one
    assert Scope.of(owned_paths(ON)).covers(path) is is_one
    assert is_owned(path, ALWAYS) is (path == "STATUS.md")
