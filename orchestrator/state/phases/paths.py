"""The place of a phase's files: `phases/PHASE/`, where PHASE is the short name of the phase."""

import re
from collections.abc import Mapping

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import Phase, phase_matches, phase_of, read, slug
from tickets.problems import Problem

FOLDER = "phases"
STATE = "STATE.md"
_NUMBERED = r"phase-\d+(?:\.\d+)*"


def plan_path(name: str) -> str:
    """Return the path of a phase's PLAN.md, by its short name."""
    return f"{FOLDER}/{name}/PLAN.md"


def status_path(name: str) -> str:
    """Return the path of a phase's STATUS.md."""
    return f"{FOLDER}/{name}/STATUS.md"


def chat_path(name: str, run: str) -> str:
    """Return the path of a run's chat log."""
    return f"{FOLDER}/{name}/chat/{run}.jsonl"


def name_of(tree: Mapping[str, bytes | None], phase: str) -> str:
    """Return the short name of the phase that a template means; STATUS.md is asked only where it must be.

    Raises StateError.
    """
    word = slug(phase)
    text = None if re.fullmatch(_NUMBERED, word) else tree.get(STATUS)
    name = slug((phase_matches(read(text), phase) if text else None) or phase)
    if not name:
        raise StateError(Problem(FOLDER, f"`{phase}` cannot name a folder", "call it `phase-2`, for example"))
    return name


def planned(tree: Mapping[str, bytes | None], name: str) -> Phase | None:
    """Return a phase of STATUS.md by its short name; None where it is not in the plan. Raises StateError."""
    text = tree.get(STATUS)
    return phase_of(read(text).phases, name) if text else None
