"""The states of plans: which move is allowed, and why another is refused. One pure function decides."""

from collections.abc import Collection, Sequence
from typing import Literal

from orchestrator.state.phases.phase_status.read import PhaseStatus
from tickets.types import Reporting
from tickets.value import Value

PhaseMessage = Literal[
    "plan_started", "plan_complete", "plan_failed", "phase_complete", "task_progress", "state_change"
]
"""What a phase worker may report; `plan_failed` is a message of type `error` whose plan has failed."""


class Reported(Value):
    """What a participant reports of a phase."""

    sender: str
    """The participant: `RUN.WORKER`."""
    what: PhaseMessage
    plan: str = ""


def refusal_of(
    status: PhaseStatus, reported: Reported, *, events: Reporting, plans: Sequence[str] | None = None
) -> str | None:
    """Return why a report is refused, or None where it is allowed; to refuse it is to change nothing.

    `plans` are the ids in PLAN.md, where they are known: a row whose plan has left it takes part in nothing.
    """
    known = [one.plan for one in status.plans] if plans is None else [*plans]
    if reported.sender != status.worker:
        return f"{status.phase} belongs to {status.worker or 'no worker'}"
    if reported.what == "phase_complete":
        return _open_plans(status, known)
    if reported.what == "state_change":
        return None
    if reported.plan not in known:
        there = f"there are {', '.join(known)}" if known else "there is none"
        return f"{status.phase} has no plan {reported.plan}; {there}"
    return _illegal(status, reported, events)


def failed_check(plan: str, command: str, exit_code: int | str, said: Collection[str]) -> str:
    """Return the reason why a plan is not complete: its check failed, with the last line that it printed."""
    ended = f"exit {exit_code}" if isinstance(exit_code, int) else exit_code
    last = next((line.strip() for line in reversed([*said]) if line.strip()), "")
    return f"{plan} does not pass: {command}: {ended}" + (f": {last}" if last else "")


def _illegal(status: PhaseStatus, reported: Reported, events: Reporting) -> str | None:
    """Return why a plan cannot move from the state that it is in."""
    row, plan = status.row(reported.plan), reported.plan
    state = row.state if row else "not started"
    if state == "complete":
        return f"{plan} is complete already"
    if reported.what == "task_progress":
        return None
    if reported.what == "plan_started":
        return f"{plan} is in progress already" if state == "in progress" else None
    if state == "failed":
        return f"{plan} failed; call plan_started to try it again"
    if state == "not started" and events == "transitions":
        return f"{plan} was not started; call plan_started first"
    return None


def _open_plans(status: PhaseStatus, known: Sequence[str]) -> str | None:
    states = {plan: row.state if (row := status.row(plan)) else "not started" for plan in known}
    left = [f"{plan} {state}" for plan, state in states.items() if state != "complete"]
    if left:
        return f"not complete: {', '.join(left)}"
    return f"{status.phase} is complete already" if status.state == "complete" else None
