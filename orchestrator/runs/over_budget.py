"""Workers for whom no money was left, and what helps. Light."""

from collections.abc import Collection, Mapping

from orchestrator.runs.rerun import again_with_fallen
from orchestrator.runs.worker_state import WorkerState
from tickets.problems import Problem

_HELP = {
    "the run's": "a new run has a budget of its own; where the ticket's is larger, raise it below `[budget]`",
    "the day's": "go on tomorrow (UTC), or raise the day's limit below `[budget]`",
    "the ticket's": "raise its own budget in the template",
}
"""What helps, by how the reason begins that names the limit."""
_STOPPED = "raise what it may cost, in the template or below `[budget]`"
_Workers = Mapping[str, WorkerState]


def unpaid(workers: _Workers) -> list[str]:
    """Name the workers that ended for want of money, in order."""
    return [name for name, worker in workers.items() if worker.outcome == "over_budget"]


def unpaid_problems(phase: str, workers: _Workers, waits_for: Mapping[str, Collection[str]]) -> list[Problem]:
    """Say of them what helps, by the limit that struck, and the command that runs them again."""
    found: dict[str, list[str]] = {}
    for name in unpaid(workers):
        reason = workers[name].reason
        helps = next((do for begin, do in _HELP.items() if reason.startswith(begin)), _STOPPED)
        found.setdefault(helps, []).append(name)
    command = again_with_fallen(phase, unpaid(workers), workers, waits_for) if found else ""
    return [
        Problem(
            names[0] if len(names) == 1 else f"{len(names)} workers",
            f"over budget: {workers[names[0]].reason}",
            f"{helps}, then: {command}",
            "warning",
        )
        for helps, names in found.items()
    ]
