"""Tickets whose work is still to be done when a run has ended, and how to run them again. Light."""

from collections.abc import Collection, Iterable, Mapping

from orchestrator.runs.pending import MOST_NAMED, again
from orchestrator.runs.worker_state import WorkerState
from tickets.problems import Problem

_Workers = Mapping[str, WorkerState]
_WaitsFor = Mapping[str, Collection[str]]


def undone(workers: _Workers, waits_for: _WaitsFor) -> list[str]:
    """Name those whom just another run helps: no money, cancelled, broke the gate, skipped too early."""
    return [
        name
        for name, worker in workers.items()
        if not worker.lands
        and (
            worker.outcome in ("over_budget", "cancelled")
            or was_called_off(worker)
            or broke_the_gate(worker)
            or _freed_by(name, workers, waits_for)
        )
    ]


def broke_the_gate(worker: WorkerState) -> bool:
    """Tell whether a worker is rejected since the gate fails with its work."""
    return (worker.verdict, worker.settled_by) == ("rejected", "gate")


def was_called_off(worker: WorkerState) -> bool:
    """Tell whether a ticket was cancelled before it began."""
    return worker.outcome == "skipped" and worker.reason.startswith("cancelled by ")


def again_with_fallen(phase: str, roots: Iterable[str], workers: _Workers, waits_for: _WaitsFor) -> str:
    """Give the command that runs some again, those that fell with them, and those that they depend on."""
    fallen = set(roots)
    for name, worker in workers.items():  # those that others depend on stand first
        if _fell(worker) and not fallen.isdisjoint(waits_for.get(name, ())):
            fallen.add(name)
    # A ticket is not run without those that it depends on, also where these have landed.
    needed, left = set(fallen), sorted(fallen)
    while left:
        before = set(waits_for.get(left.pop(), ())) - needed
        needed |= before
        left += sorted(before)
    names = [name for name in workers if name in needed]
    if len(names) == len(workers) or len(names) > MOST_NAMED:
        return f"orchestrate run {phase}"
    return again(phase, names, workers)


def freed_problems(phase: str, workers: _Workers, waits_for: _WaitsFor) -> list[Problem]:
    """Say who was skipped for the sake of a worker that has been accepted since, and how to run them."""
    found = []
    for name in workers:
        if freed := _freed_by(name, workers, waits_for):
            what = f"was skipped before {workers[freed].ticket}, which it depends on, was accepted"
            do = f"run it now: {again_with_fallen(phase, [name], workers, waits_for)}"
            found.append(Problem(name, what, do, "warning"))
    return found


def _fell(worker: WorkerState) -> bool:
    by_another = (worker.verdict, worker.settled_by) == ("rejected", "dependency")
    return worker.outcome == "skipped" or by_another


def _freed_by(name: str, workers: _Workers, waits_for: _WaitsFor) -> str | None:
    """Name the accepted worker whose earlier verdict had a ticket skipped."""
    if workers[name].outcome != "skipped":
        return None
    accepted = (one for one in waits_for.get(name, ()) if workers[one].lands)
    reason = workers[name].reason
    return next((one for one in accepted if reason.startswith(f"depends on {workers[one].ticket}, ")), None)
