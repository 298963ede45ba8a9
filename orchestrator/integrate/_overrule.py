"""Incomplete work that the lead accepts: what speaks against it is kept with the decision."""

from orchestrator.runs.worker_state import WorkerState
from orchestrator.state.events import Decider

ACCEPTED, REJECTED = "accepted by the lead", "rejected by the lead"
"""The reason of a verdict for which the lead gave none."""
_NEVER_LANDS = ("out_of_scope", "touched_state_file", "read_only_wrote")
"""Violations whose paths are changes that never land."""


def although(said: str, worker: WorkerState) -> str:
    """Return the lead's reason, with what it overrules."""
    return said if worker.outcome == "complete" else f"{said}, although {against(worker)}"


def said_of(worker: WorkerState) -> str:
    """Return the reason that the lead gave; empty if there was none."""
    said = worker.reason
    if worker.outcome != "complete":
        said = said.removesuffix(f", although {against(worker)}")
    return "" if said in (ACCEPTED, REJECTED) else said


def decider_of(worker: WorkerState) -> Decider:
    """Return who settled a verdict: the lead's decision also counts if a gate or a conflict delayed it."""
    by = worker.settled_by
    if by == "lead" or worker.lead_said == (worker.verdict, worker.reason):
        return "lead"
    return "gate" if by == "gate" else "conflict" if by == "conflict" else "rule"


def finding_of(worker: WorkerState, harm: str) -> str:
    """Describe what speaks against a worker: as it was found when it ended, and what the gate did with it."""
    is_clean = worker.outcome == "complete" and not worker.evidence.violations
    found = [worker.found if is_clean else against(worker), worker.doubted, harm]
    if worker.verdict == "rejected":
        found.append(worker.held_up)
    return "; ".join(dict.fromkeys(one for one in found if one))


def outside_of(worker: WorkerState) -> tuple[str, ...]:
    """Return the paths of a worker's changes that never land, whatever is decided."""
    return tuple(one.path for one in worker.evidence.violations if one.kind in _NEVER_LANDS)


def against(worker: WorkerState) -> str:
    """Describe why a worker was incomplete: as it was found when it ended, whatever was decided since."""
    return worker.found or f"its outcome is {worker.outcome}"
