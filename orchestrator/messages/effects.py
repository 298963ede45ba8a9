"""What a message to the coordinator brings about in a phase's files: an event, or why there is none."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from orchestrator.state.events import (
    BlockerAnswered,
    BlockerClosed,
    BlockerRaised,
    Decision,
    PhaseEvent,
    PhaseNoted,
    PhaseReported,
    PlanMoved,
    TaskMoved,
    TaskState,
)
from orchestrator.state.phases.phase_status.moves import PhaseMessage, Reported, refusal_of
from orchestrator.state.phases.phase_status.read import PhaseStatus
from orchestrator.state.phases.plan_file import PhasePlan
from tickets.types import Reporting
from tickets.value import Value
from workers.messages.record import Record, lead_of

OF_PHASE: Mapping[str, PhaseMessage] = {
    "plan_started": "plan_started", "plan_complete": "plan_complete", "phase_complete": "phase_complete",
    "state_change": "state_change", "task_progress": "task_progress",
}  # fmt: skip
"""By type of message, what it reports of a phase; an `error` may be a `plan_failed`."""
NO_PHASE_WORKER = "this run has no phase worker: its template needs `phase_worker: true`"


class OwnedPhase(Value):
    """The phase that a run works on, as its messages are judged by it."""

    phase: str
    """As templates name it."""
    name: str
    """Its folder."""
    owner: str
    """The phase worker as a participant."""
    reporting: Reporting
    status: PhaseStatus
    plans: tuple[PhasePlan, ...]


class Effect(Value):
    """What a message brings about."""

    event: PhaseEvent | None = None
    refused: str = ""
    """Why nothing: the reason that its sender is told."""
    completes: bool = False
    """Whether a plan is to be completed: by a snapshot and its check."""


def reported_by(record: Record) -> PhaseMessage | None:
    """Return what a message reports of a phase; None where it reports nothing."""
    if record.type == "error":
        return "plan_failed" if record.facts.get("state") == "failed" else None
    return OF_PHASE.get(record.type)


def effect_of(record: Record, phase: OwnedPhase | None) -> Effect:
    """Return what a message to the coordinator brings about; nothing more where the files show it already.

    A runtime that was killed had recorded it, and had not acknowledged it yet.
    """
    if phase is not None and record.id in phase.status.handled:
        return Effect()
    what = reported_by(record)
    if what is not None:
        return _effect_on_plans(record, what, phase)
    if record.type == "blocker" and phase is not None and record.sender == phase.owner:
        return Effect(_raised(record, phase.phase))
    return Effect()


def effect_of_answer(record: Record, asked: Record | None, phase: OwnedPhase | None) -> Effect:
    """Return what an answer of the lead or runtime to a blocker brings about, or a receipt of the lead."""
    if phase is None or asked is None or asked.type != "blocker" or asked.sender != phase.owner:
        return Effect()
    lead = lead_of(asked.to)
    if record.type == "answer" and record.sender in (lead, asked.to):
        return Effect(BlockerAnswered(phase.phase, asked.id, record.body, record.id, time_of(record)))
    # The runtime acknowledges each blocker itself, once it is in the files.
    if record.type == "ack" and record.facts.get("how") == "handled" and record.sender == lead:
        return Effect(BlockerClosed(phase.phase, asked.id, time_of(record)))
    return Effect()


def time_of(record: Record) -> datetime:
    """Return the time of a record."""
    return datetime.fromisoformat(record.at)


def _effect_on_plans(record: Record, what: PhaseMessage, phase: OwnedPhase | None) -> Effect:
    if phase is None:
        return Effect(refused=NO_PHASE_WORKER)
    reported, plans = Reported(record.sender, what, record.plan or ""), [one.id for one in phase.plans]
    refused = refusal_of(phase.status, reported, events=phase.reporting, plans=plans)
    if refused:
        return Effect(refused=refused)
    at, by, plan = time_of(record), record.id, record.plan or ""
    match what:
        case "plan_started":
            return Effect(PlanMoved(phase.phase, plan, "in progress", by, at, record.body))
        case "plan_failed":
            return Effect(PlanMoved(phase.phase, plan, "failed", by, at, record.body))
        case "plan_complete":
            return Effect(completes=True)
        case "phase_complete":
            return Effect(PhaseReported(phase.phase, by, at, record.body))
        case "task_progress":
            return _task(record, phase.phase)
        case _:
            return _noted(record, phase.phase)


def _task(record: Record, phase: str) -> Effect:
    task, state = str(record.facts.get("task") or ""), str(record.facts.get("state") or "")
    if state not in ("todo", "doing", "done", "blocked", "dropped") or not task.strip():
        return Effect(refused="a task needs its text, and a state: todo, doing, done, blocked, dropped")
    moved = TaskMoved(phase, record.plan or "", task, cast("TaskState", state), record.id, time_of(record))
    return Effect(moved)


def _noted(record: Record, phase: str) -> Effect:
    made, at = record.facts.get("decision"), time_of(record)
    if isinstance(made, Mapping):
        title, context, decision = (str(made.get(key) or "") for key in ("title", "context", "decision"))
        if not title.strip():
            return Effect(refused="a decision needs a title")
        return Effect(PhaseNoted(phase, at, record.id, decision=Decision(title, context, decision)))
    text = str(record.facts.get("context") or record.body)
    if not text.strip():
        return Effect(refused="a note needs a text")
    return Effect(PhaseNoted(phase, at, record.id, text=text))


def _raised(record: Record, phase: str) -> PhaseEvent:
    said = {key: str(record.facts.get(key) or "") for key in ("title", "task", "attempted", "needs")}
    return BlockerRaised(
        phase,
        said["title"] or record.body,
        record.id,
        time_of(record),
        "pause" if record.facts.get("mode") == "pause" else "skip",
        plan=record.plan or "",
        task=said["task"],
        attempted=said["attempted"],
        needs=said["needs"],
        body=record.body,
    )


def open_plans(phase: OwnedPhase) -> Sequence[str]:
    """Return the plans that are in progress."""
    return [row.plan for row in phase.status.plans if row.state == "in progress"]
