"""A family of state files for tests: a home with one file for each phase, and a copy of all of them."""

import sys
from types import ModuleType

from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.state.document import editable
from orchestrator.state.events import Decided, PhaseMoved, RunDeployed, TodoAdded
from tickets.markdown import insert
from tickets.problems import Problem

FAMILY = "chief_of_staff"
"""A family in whose place it stands."""
COPY = "ai_memory/all.md"


def turn_on(monkeypatch):
    """Build the family: it is on where `orchestrate.toml` says so."""
    notes, copy = ModuleType("notes"), ModuleType("copy")
    notes.OWNS, notes.needs, notes.changes = ("ai_memory/*/notes.md",), _needs, _changes
    copy.OWNS, copy.needs, copy.changes = (COPY,), _copy_needs, _copied
    for name, module in {"notes": notes, "copy": copy}.items():
        module.problems = lambda text: [Problem("notes", "is empty", "write some")] if not text else []
        module.complete = lambda text, _: text
        monkeypatch.setitem(sys.modules, f"orchestrator.state.{FAMILY}.{name}", module)
    copy.complete = lambda text, facts: text or f"# All notes of {facts.project}\n".encode()
    files = {f"{FAMILY}.notes": notes.OWNS, f"{FAMILY}.copy": copy.OWNS}
    monkeypatch.setattr(state, "_FILES", {**state._FILES, **files})
    monkeypatch.setattr(state, "_COPIES", (*state._COPIES, f"{FAMILY}.copy"))


def home_of(event):
    """Return the file that an event changes; empty for none."""
    if isinstance(event, RunDeployed):
        return f"ai_memory/{event.phase}/notes.md"
    return "ai_memory/lead/notes.md" if isinstance(event, TodoAdded) else ""


def _needs(tree, event):
    del tree
    return (home_of(event),) if home_of(event) else ()


def _changes(tree, event):
    path = home_of(event)
    if tree.get(path) is None:
        return {path: b"# Notes\n\n- one\n"}
    document = editable(path, tree)
    return {path: insert(document, len(document.data), "- one more\n").data}


def _copy_needs(_, event):
    if isinstance(event, Decided | PhaseMoved):
        return (COPY, "STATUS.md")
    return (COPY, home_of(event)) if home_of(event) else ()


def _copied(tree, event):
    path = home_of(event) or "STATUS.md"
    if tree.get(COPY) is None:
        raise StateError(Problem(COPY, "the file is missing", "`orchestrate init` writes it"))
    count = (tree.get(path) or b"").count(b"- one")
    return {COPY: tree[COPY] + f"{path}: {count}\n".encode()}
