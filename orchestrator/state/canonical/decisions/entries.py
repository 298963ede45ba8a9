"""The entries that the lead's events add to DECISIONS.md, in the form of the log."""

from collections.abc import Sequence
from datetime import datetime

from orchestrator.state.events import (
    Decided,
    Decision,
    EditsAcknowledged,
    GateAnswered,
    MilestoneReached,
    PhaseAdded,
    PhaseMoved,
)
from orchestrator.state.facts import day
from tickets.markdown import one_line

LogEvent = Decided | EditsAcknowledged | GateAnswered | MilestoneReached | PhaseAdded | PhaseMoved
ACKNOWLEDGED = "Acknowledged edits of earlier decisions"
_SIDES = ("positive", "negative", "neutral")


def entries_of(event: LogEvent) -> list[tuple[str, str]]:
    """Give (title, content) of each entry, the one that is to stand lowest first."""
    if isinstance(event, Decided):
        return [(one_line(one.title), _content(one)) for one in reversed(event.decisions)]
    if isinstance(event, GateAnswered):
        made = _gate(event)
    elif isinstance(event, MilestoneReached):
        made = _milestone(event)
    elif isinstance(event, PhaseMoved):
        made = _phase(event)
    elif isinstance(event, PhaseAdded):
        if not event.gate:
            return []  # a plan that nobody has agreed to yet is a draft
        made = _added(event)
    else:
        made = _acknowledged(event)
    status = "Rejected" if isinstance(event, GateAnswered) and event.answer == "rejected" else "Accepted"
    return [(one_line(made.title), _content(made, status))]


def heading_of(at: datetime, title: str) -> str:
    """Give the words of an entry's heading."""
    return f"{day(at)}: {title}"


def _content(one: Decision, status: str = "Accepted") -> str:
    numbered = [f"{number}. {one_line(text)}" for number, text in enumerate(one.alternatives, 1)]
    sides = [_side(text) for text in one.consequences]
    supersedes = "; ".join(one_line(text) for text in one.supersedes) or "none"
    return f"""**Context:** {one_line(one.context)}

**Decision:** {one_line(one.decision)}

{_list("Alternatives Considered", numbered)}

{_list("Consequences", sides)}

**Status:** {status}
**Supersedes:** {supersedes}"""


def _list(label: str, lines: Sequence[str]) -> str:
    return "\n".join([f"**{label}:**", *lines]) if lines else f"**{label}:** none stated"


def _side(text: str) -> str:
    side, colon, rest = text.strip().partition(":")
    if colon and side.strip().casefold() in _SIDES:
        return f"- {side.strip().capitalize()}: {one_line(rest)}"
    return f"- Neutral: {one_line(text)}"


def _gate(event: GateAnswered) -> Decision:
    name = one_line(event.by)
    on = ", on a condition" if event.condition else ""
    said = "Approved" if event.answer == "approved" else "Rejected"
    word = f"{said} by {event.by}" + (f", on the condition: {event.condition}" if event.condition else ".")
    after = "Neutral: the command that waits for this may go on"
    if event.answer == "rejected":
        after = "Negative: the command that waits for this stays refused until a new answer stands here"
    return Decision(
        f"Gate {event.gate}: {event.answer} by {name}{on}",
        f"{event.lead} asked for approval: {event.about}",
        word,
        consequences=(after,),
    )


def _milestone(event: MilestoneReached) -> Decision:
    return Decision(
        f"Milestone reached: {event.milestone}",
        f"All acceptance criteria of {event.phase} are met.",
        f"The milestone {event.milestone} is complete, recorded by {event.lead}.",
        consequences=(f"Neutral: {event.phase} can be completed",),
    )


def _phase(event: PhaseMoved) -> Decision:
    if event.ended is None:
        title, ended = f"Phase transition: {event.begun} begins", "No phase ends with this."
    elif event.begun is None:
        title, ended = f"Phase transition: {event.ended} is complete", "It was the last phase of the plan."
    else:
        title = f"Phase transition: {event.ended} is complete, {event.begun} begins"
        ended = f"The deliverables of {event.ended} are complete and its acceptance criteria are met."
    if event.left_open:
        ended = f"{event.ended} ends with work left open: {'; '.join(event.left_open)}."
    gate = f"approved at the gate {event.gate}" if event.gate else "needs no approval"
    why = f" It ends all the same: {event.reason}" if event.reason else ""
    left = (f"Negative: left open: {'; '.join(event.left_open)}",) if event.left_open else ()
    follows = f"Positive: work goes on with {event.begun}" if event.begun else "Positive: the plan is done"
    tests = f"Neutral: tests: {event.tests or 'not run'}"
    said = f"Recorded by {event.lead}; {gate}.{why}"
    return Decision(title, ended, said, consequences=(follows, *left, tests))


def _added(event: PhaseAdded) -> Decision:
    made = "; ".join(event.deliverables) or "none named yet"
    return Decision(
        f"Scope: Phase {event.number}: {event.name} is added to the plan",
        "The plan that the user had agreed to has one phase more.",
        f"Its milestone is {event.milestone}; recorded by {event.lead}, approved at the gate {event.gate}.",
        consequences=(f"Neutral: its deliverables: {made}",),
    )


def _acknowledged(event: EditsAcknowledged) -> Decision:
    listed = tuple(f"Neutral: {title} ({now})" for title, now in event.edits)
    return Decision(
        ACKNOWLEDGED,
        "Entries of this log are not changed; these were, and it is known why.",
        f"The changes stand, as {event.lead} says.",
        consequences=listed,
    )
