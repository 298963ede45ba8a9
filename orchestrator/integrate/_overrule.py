"""Work that the lead lands although its worker was not complete: what was against it stays known."""

from orchestrator.execute.runtime import Runtime
from orchestrator.runs.worker_state import WorkerState
from orchestrator.state.events import Decider
from tickets.problems import Problem

ACCEPTED, REJECTED = "accepted by the lead", "rejected by the lead"
"""The reason of a verdict of the lead's who gave none."""
_NEVER_LANDS = ("out_of_scope", "touched_state_file", "read_only_wrote")
"""Violations whose paths are changes of the worker's that stay out."""


def although(said: str, worker: WorkerState) -> str:
    """Return the lead's reason, with what it overrules."""
    return said if worker.outcome == "complete" else f"{said}, although {_against(worker)}"


def said_of(worker: WorkerState) -> str:
    """Return why the lead decided so; empty where no reason was given."""
    said = worker.reason
    if worker.outcome != "complete":
        said = said.removesuffix(f", although {_against(worker)}")
    return "" if said in (ACCEPTED, REJECTED) else said


def decider_of(worker: WorkerState) -> Decider:
    """Return who settled a verdict: what the lead said also holds where a gate or a conflict put it off."""
    by = worker.settled_by
    if by == "lead" or worker.lead_said == (worker.verdict, worker.reason):
        return "lead"
    return "gate" if by == "gate" else "conflict" if by == "conflict" else "rule"


def finding_of(worker: WorkerState, harm: str) -> str:
    """Describe what speaks against a worker: as it was found when it ended, and what the gate did with it."""
    is_clean = worker.outcome == "complete" and not worker.evidence.violations
    return "; ".join(one for one in ("" if is_clean else _against(worker), harm) if one)


def outside_of(worker: WorkerState) -> tuple[str, ...]:
    """Return the paths of a worker's changes that never land, whatever is decided."""
    return tuple(one.path for one in worker.evidence.violations if one.kind in _NEVER_LANDS)


def overruled_problems(runtime: Runtime) -> list[Problem]:
    """Say what landed of workers that were not complete, why they were not, and how it is taken back."""
    found = []
    for name, worker in runtime.state.workers.items():
        if name in runtime.state.landings and worker.evidence.files and worker.outcome != "complete":
            commit = runtime.state.landings[name]
            do = f"have a ticket mend it, or: git revert {commit[:10]}" if commit else "have a ticket mend it"
            found.append(Problem(name, f"landed, although {_against(worker)}", do, "warning"))
    return found


def _against(worker: WorkerState) -> str:
    """Say why a worker was not complete: as it was found, whatever has been said of it since."""
    return worker.found or f"its outcome is {worker.outcome}"
