"""Work that the lead lands although its worker was not complete: what was against it stays known."""

from orchestrator.execute.runtime import Deployment
from orchestrator.runs.worker_state import WorkerState
from tickets.problems import Problem

_LEAVES_NOTHING_OUT = "too_many_files"
"""The one violation that keeps none of a worker's files from landing."""


def although(said: str, worker: WorkerState) -> str:
    """Return the lead's reason, with what it overrules."""
    return said if worker.outcome == "complete" else f"{said}, although {_against(worker)}"


def has_landed_whole(worker: WorkerState) -> bool:
    """Return whether nothing was left out of what a worker changed, given that it has landed."""
    return all(one.kind == _LEAVES_NOTHING_OUT for one in worker.evidence.violations)


def overruled_problems(d: Deployment) -> list[Problem]:
    """Say what landed of workers that were not complete, why they were not, and how it is taken back."""
    found = []
    for name, worker in d.state.workers.items():
        if name in d.state.landings and worker.evidence.files and worker.outcome != "complete":
            commit = d.state.landings[name]
            do = f"have a ticket mend it, or: git revert {commit[:10]}" if commit else "have a ticket mend it"
            found.append(Problem(name, f"landed, although {_against(worker)}", do, "warning"))
    return found


def _against(worker: WorkerState) -> str:
    """Say why a worker was not complete: as it was found, whatever has been said of it since."""
    return worker.found or f"its outcome is {worker.outcome}"
