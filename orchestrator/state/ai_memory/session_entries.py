"""What a session's changelog says of an event: one table from events to entries. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from orchestrator.state.events import (
    Completion,
    ContextArchived,
    ContextSwitched,
    CriterionAdded,
    CriterionMet,
    Decided,
    DeliverableAdded,
    DeliverableChanged,
    Event,
    GateAnswered,
    HandedOver,
    MilestoneReached,
    PhaseAdded,
    PhaseMoved,
    PhaseNoted,
    PlanAdded,
    RunClosed,
    RunDeployed,
    RunIntegrated,
    SessionLine,
    SessionNoted,
    TodoAdded,
    TodoDone,
    TodoMoved,
)
from tickets.value import Value
from tickets.wording import count_of

PLAN_UPDATED = "Plan updated"
NOTE = "Note"
MOST_CHANGED = 10
"""Changed paths that an entry names before it counts the rest."""
_CUT_OFF = ("timed_out", "rate_limited", "over_budget", "cancelled", "interrupted")
"""Outcomes of workers that could not end by themselves."""


class NewEntry(Value):
    """An entry to write; the form of its lines is the document's."""

    title: str
    lines: tuple[SessionLine, ...] = ()
    run: str = ""
    """The run that it is about: its own commits belong to it."""
    with_base: bool = False
    """Whether the commit that it happened on is told."""
    joins: bool = False
    """Whether it joins a young entry, and begins no session."""
    headline: str = ""


def entry_of(event: Event) -> NewEntry | None:
    """Return the entry of an event; None where a session says nothing of it."""
    found = _ENTRIES.get(type(event))
    return found(event) if found else None


def headline_of(entry: NewEntry, before: str) -> str:
    """Return the runtime's line of the summary after an entry; what a run came to is not written over."""
    if entry.headline:
        return entry.headline
    if entry.run or entry.joins or before.startswith("Run ") or entry.title == NOTE:
        return before
    said = next((line.text for line in entry.lines if line.mark == NOTE), "")
    return f"{entry.title}: {said}" if said else f"{entry.title}."


def _note(*texts: str) -> tuple[SessionLine, ...]:
    return tuple(SessionLine("Note", text) for text in texts if text)


def _deployed(event: RunDeployed) -> NewEntry:
    workers = ", ".join(one.worker for one in event.workers) or "none"
    title = f"Run {event.run} of {event.phase} deployed"
    return NewEntry(title, _note(f"workers: {workers}"), event.run, with_base=True)


def _integrated(event: RunIntegrated) -> NewEntry:
    title = f"Run {event.run} of {event.phase} integrated"
    lines = (*_changed(event.workers), *_errors(event.workers))
    return NewEntry(title, lines, event.run, headline=f"Run {event.run}: {_counts(event.workers)}.")


def _closed(event: RunClosed) -> NewEntry | None:
    if event.status != "cancelled":
        return None  # `resume` goes on with it
    of = f" of {event.phase}" if event.phase else ""
    return NewEntry(f"Run {event.run}{of} cancelled", run=event.run)


def _changed(workers: Iterable[Completion]) -> list[SessionLine]:
    lines = [
        SessionLine("Changed", f"{one.ticket or one.worker}: {one.title}", path)
        for one in workers
        for path in one.files
    ]
    rest = len(lines) - MOST_CHANGED
    return [*lines[:MOST_CHANGED], *([SessionLine("Changed", count_of(rest, "more file"))] * (rest > 0))]


def _errors(workers: Iterable[Completion]) -> Iterator[SessionLine]:
    for one in workers:
        if one.verdict is None or one.is_done:
            continue
        why = one.reason or one.finding or one.said
        said = f"{one.worker} {one.outcome}" + (f": {why}" if why else "")
        kept = ""
        if one.left_out:
            count = len(one.left_out)
            kept = f", {count_of(count, 'file')} {'is' if count == 1 else 'are'} kept"
        yield SessionLine("Error", said, resolution=f"{one.verdict}{kept}")


def _counts(workers: Iterable[Completion]) -> str:
    counts = Counter(map(_standing, workers))
    words = ("accepted", "accepted in part", "pending", "cut off", "rejected", "skipped")
    return ", ".join(f"{counts[word]} {word}" for word in words if counts[word]) or "nothing was run"


def _standing(one: Completion) -> str:
    if one.verdict is None:
        return "skipped"
    if one.verdict == "rejected":
        return "cut off" if one.outcome in _CUT_OFF else "rejected"
    return "accepted in part" if one.verdict == "partial" else one.verdict


def _plan(*texts: str) -> NewEntry:
    return NewEntry(PLAN_UPDATED, _note(*texts), joins=True)


def _gate(event: GateAnswered) -> NewEntry:
    said = f"by {event.by}" + (f", on condition: {event.condition}" if event.condition else "")
    return NewEntry(f"{event.gate} {event.answer}", _note(said))


def _moved(event: PhaseMoved) -> NewEntry:
    ended = f"{event.ended} ended" if event.ended and event.begun else ""
    left = f"left open: {', '.join(event.left_open)}" if event.left_open else ""
    title = f"Phase {event.begun} begun" if event.begun else f"Phase {event.ended} ended"
    return NewEntry(title, _note(ended, left, event.reason))


def _deliverable(event: DeliverableChanged) -> NewEntry:
    return NewEntry(f"Deliverable {event.name}: {event.status}", _note(event.reason, event.tests))


def _noted(event: PhaseNoted) -> NewEntry | None:
    if not event.lead:
        return None  # a worker's message
    of = f" of {event.phase}" if event.phase else ""
    if event.decision:
        return NewEntry("Decided", _note(f"{event.decision.title}{of}"))
    said = f"removed: {event.removed}" if event.removed else event.text
    return NewEntry(f"Context{of} noted", _note(said))


def _switched(event: ContextSwitched) -> NewEntry:
    return NewEntry(f"Switched to {event.to or 'no task'}", _note(event.reason))


def _archived(event: ContextArchived) -> NewEntry:
    return NewEntry(f"{event.switch.old} archived", _note(event.summary))


_ENTRIES: Mapping[type, Callable[[Any], NewEntry | None]] = {
    RunDeployed: _deployed,
    RunIntegrated: _integrated,
    RunClosed: _closed,
    Decided: lambda event: NewEntry("Decided", _note(*(one.title for one in event.decisions))),
    DeliverableChanged: _deliverable,
    MilestoneReached: lambda event: NewEntry(f"Milestone {event.milestone} reached", _note(event.tests)),
    PhaseMoved: _moved,
    GateAnswered: _gate,
    TodoAdded: lambda event: _plan(*(f"todo added: {text}" for text in event.items)),
    TodoDone: lambda event: _plan(f"todo done: {event.text}"),
    TodoMoved: lambda event: _plan(f"todo moved to {event.to or 'the backlog'}: {event.text}"),
    CriterionAdded: lambda event: _plan(f"criterion added: {event.text}"),
    CriterionMet: lambda event: _plan(f"criterion {'met' if event.met else 'open again'}: {event.text}"),
    PhaseNoted: _noted,
    ContextSwitched: _switched,
    ContextArchived: _archived,
    PhaseAdded: lambda event: NewEntry(PLAN_UPDATED, _note(f"phase added: {event.name}")),
    DeliverableAdded: lambda event: NewEntry(PLAN_UPDATED, _note(f"deliverable added: {event.name}")),
    PlanAdded: lambda event: NewEntry(
        PLAN_UPDATED, _note(f"plan added: {event.plan.id}: {event.plan.title}")
    ),
    HandedOver: lambda event: NewEntry("Handed over", _note(event.path)),
    SessionNoted: lambda event: NewEntry(event.title or NOTE, _note(event.text)),
}
"""By the type of an event, its entry."""
