"""Tampering by the gate's commands: it blocks landing until the lead decides."""

from collections.abc import Iterable
from typing import Literal

from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import GateSeen, Unattributed
from orchestrator.runs.state import RunState
from tickets.wording import some_of

HARM: Literal["harm"] = "harm"
"""`settled_by` of a verdict that waits for the lead because of it."""
SHOWN = 3
"""Paths that a line names at most; the rest is counted."""


def accepted_harm(state: RunState) -> dict[str, str]:
    """Describe by worker what changed while the gate ran, where the lead has accepted the worker."""
    return {
        name: f"while the gate ran, {some_of(sorted(worker.despite), SHOWN)} changed"
        for name, worker in state.workers.items()
        if worker.despite
    }


def note_harm(runtime: Runtime, found: Iterable[Unattributed]) -> str:
    """Note what the gate changed; return why all has to wait for the lead, empty if it is not harmful."""
    found = tuple(found)
    fresh = [path for one in found if one.harm for path in one.paths if not _is_excused(runtime, one, path)]
    why = f"the gate ran what they wrote, and meanwhile {', '.join(fresh[:SHOWN])} changed" if fresh else ""
    for one in found:
        runtime.note(one._replace(holds=why if one.harm else ""))
    runtime.note(GateSeen())
    return why


def held_by_harm(state: RunState) -> dict[str, str]:
    """Return the workers that may not land before the lead has decided, and why."""
    return {
        name: worker.harm[-1].holds
        for name, worker in state.workers.items()
        if worker.harm and worker.verdict not in ("rejected", None) and name not in state.landings
    }


def _is_excused(runtime: Runtime, found: Unattributed, path: str) -> bool:
    """Return whether the lead has accepted all candidates in spite of a change of the same path."""
    return all(path in runtime.state.workers[name].despite for name in found.candidates)
