"""The entries that events add to DECISIONS.md, in the form of the log."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from orchestrator.state.canonical.status.read import ActiveWorker, Completed
from orchestrator.state.document import inert
from orchestrator.state.events import (
    Completion,
    Decided,
    Decision,
    EditsAcknowledged,
    GateAnswered,
    MilestoneReached,
    PhaseAdded,
    PhaseMoved,
    RunIntegrated,
)
from orchestrator.state.facts import day
from tickets.markdown import one_line, plain
from tickets.wording import some_of

LogEvent = Decided | EditsAcknowledged | GateAnswered | MilestoneReached | PhaseAdded | PhaseMoved
ACKNOWLEDGED = "Acknowledged edits of earlier decisions"
NAMED = 3
"""How many workers, or paths, a line names before it counts the rest."""
_SIDES = ("positive", "negative", "neutral")


def entries_of(event: LogEvent) -> list[tuple[str, str]]:
    """Return (title, content) of each entry, the one that is to stand lowest first."""
    if isinstance(event, Decided):
        return [(inert(one.title), _content(one)) for one in reversed(event.decisions)]
    if isinstance(event, GateAnswered):
        made = _gate(event)
    elif isinstance(event, MilestoneReached):
        made = _milestone(event)
    elif isinstance(event, PhaseMoved):
        made = _phase(event)
    elif isinstance(event, PhaseAdded):
        if not event.gate:
            return []  # a plan without approval is a draft
        made = _added(event)
    else:
        made = _acknowledged(event)
    status = "Rejected" if isinstance(event, GateAnswered) and event.answer == "rejected" else "Accepted"
    # Its own form: only the words in it are others'.
    return [(one_line(made.title), _content(made, status))]


def heading_of(at: datetime, title: str) -> str:
    """Return the text of an entry's heading."""
    return f"{day(at)}: {title}"


def _content(one: Decision, status: str = "Accepted") -> str:
    numbered = [f"{number}. {inert(text)}" for number, text in enumerate(one.alternatives, 1)]
    sides = [_side(text) for text in one.consequences]
    supersedes = "; ".join(inert(text) for text in one.supersedes) or "none"
    return f"""**Context:** {inert(one.context)}

**Decision:** {inert(one.decision)}

{_list("Alternatives Considered", numbered)}

{_list("Consequences", sides)}

**Status:** {status}
**Supersedes:** {supersedes}"""


def _list(label: str, lines: Sequence[str]) -> str:
    return "\n".join([f"**{label}:**", *lines]) if lines else f"**{label}:** none stated"


def _side(text: str) -> str:
    side, colon, rest = text.strip().partition(":")
    if colon and side.strip().casefold() in _SIDES:
        return f"- {side.strip().capitalize()}: {inert(rest)}"
    return f"- Neutral: {inert(text)}"


def _gate(event: GateAnswered) -> Decision:
    name = inert(event.by)
    on = ", on a condition" if event.condition else ""
    said = "Approved" if event.answer == "approved" else "Rejected"
    word = f"{said} by {event.by}" + (f", on the condition: {event.condition}" if event.condition else ".")
    after = "Neutral: what needs this approval may go on"
    if event.answer == "rejected":
        after = "Negative: what needs this approval stays refused until a new answer stands here"
    inside = f"Negative: entered from inside an agent's environment ({event.inside}), perhaps without them"
    return Decision(
        f"Gate {event.gate}: {event.answer} by {name}{on}",
        f"Needs the user's approval: {event.about}",
        word,
        consequences=(after, inside) if event.inside else (after,),
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
    # Each of them is named below, and the phase above.
    open_work = [one.removesuffix(f" ({event.ended})") for one in event.left_open]
    if open_work:
        ended = f"{event.ended} ends with work left open ({len(open_work)})."
    gate = f"approved at the gate {event.gate}" if event.gate else "needs no approval"
    why = f" It ends all the same: {event.reason}" if event.reason else ""
    left = (f"Negative: left open: {'; '.join(open_work)}",) if open_work else ()
    is_done = (
        "Neutral: it was the last phase of the plan" if event.left_open else "Positive: the plan is done"
    )
    follows = f"Positive: work goes on with {event.begun}" if event.begun else is_done
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


def decided(
    event: RunIntegrated, active: Iterable[ActiveWorker], completions: Iterable[Completed]
) -> list[Completion]:
    """Return the workers of an integration whose verdict somebody decided, unless STATUS.md shows it.

    `active` and `completions` are what it said before. What the rules accept or reject needs no entry.
    """
    told = {one.worker: (one.outcome, one.verdict) for one in completions if one.run == event.run}
    waiting = {one.worker: one.pending for one in active if one.run == event.run}
    return [
        one
        for one in event.workers
        # An older version listed rejected workers too.
        if _is_decided(one, was_rejected=one.was_rejected or told.get(one.worker, ("", ""))[1] == "rejected")
        and told.get(one.worker) != (one.outcome.upper(), one.verdict)
        and not (one.verdict == "pending" and _is_same_wait(waiting.get(one.worker, ""), one.reason))
    ]


def integration(event: RunIntegrated, workers: Sequence[Completion]) -> tuple[str, str]:
    """Return (title, content) of the entry about decided workers, in eight lines at most."""
    what = "Settled" if event.is_settled else "Integrated"
    others_landed = any(one.files for one in event.workers)
    files = [path for one in workers for path in one.files]
    left_out = [path for one in workers for path in one.left_out]
    commit = f" (commit {event.landing[:10]})" if event.landing else ""
    sides = [f"Positive: landed {_named(files)}{commit}"] if files else []
    sides += [f"Negative: not landed: {_named(left_out)}"] if left_out else []
    context = _named([f"{one.worker} ({one.title}): {_finding(one)}" for one in workers], "; ")
    made = Decision(
        f"{what} run {event.run} ({event.phase})",
        context,
        " ".join(_verdicts(event.lead, workers)),
        tuple(_alternatives(workers, others_landed=others_landed)),
        tuple(sides) or ("Neutral: no file was changed",),
    )
    return one_line(made.title), _content(made)


def _is_decided(one: Completion, *, was_rejected: bool) -> bool:
    if one.decider == "lead":
        return one.verdict == "rejected" or bool(one.finding) or was_rejected
    return (one.decider, one.verdict) in (("gate", "rejected"), ("conflict", "pending"))


def _finding(one: Completion) -> str:
    if one.finding or one.decider != "lead":
        return one.finding or one.reason
    return "complete, without a finding" if one.verdict == "rejected" else "rejected before"


def _is_same_wait(told: str, reason: str) -> bool:
    """Return whether a worker still waits for the same: the path that it collides with may change."""
    return bool(told) and told.partition(":")[0] == plain(inert(reason)).partition(":")[0]


def _verdicts(lead: str, workers: Sequence[Completion]) -> Iterator[str]:
    lead_said = [one for one in workers if one.decider == "lead"]
    clauses = [
        f"{word} {_named([one.worker for one in some])}{much}"
        for word, much, some in (
            ("accepted", "", [one for one in lead_said if one.verdict != "rejected" and not one.left_out]),
            (
                "accepted",
                " in part",
                [one for one in lead_said if one.verdict != "rejected" and one.left_out],
            ),
            ("rejected", "", [one for one in lead_said if one.verdict == "rejected"]),
        )
        if some
    ]
    if clauses:
        yield f"{lead or 'The lead'} {' and '.join(clauses)}: {_why(lead_said)}."
    for why in dict.fromkeys(filter(None, map(_obstacle, workers))):
        yield f"Left out {_named([one.worker for one in workers if _obstacle(one) == why])}: {why}."


def _obstacle(one: Completion) -> str:
    """Describe what left a worker out; empty where the lead has decided."""
    if one.decider == "gate":
        return "the gate fails with that work"
    if one.decider == "conflict":
        is_clash = one.reason.startswith("conflict: ")
        return "conflict with the branch" if is_clash else "its changes cannot be read"
    return ""


def _alternatives(workers: Sequence[Completion], *, others_landed: bool) -> Iterator[str]:
    lead_said = [one for one in workers if one.decider == "lead"]
    accepted = [one.worker for one in lead_said if one.verdict != "rejected"]
    rejected = [one.worker for one in lead_said if one.verdict == "rejected"]
    pairs = (("Reject", accepted), ("Accept", rejected))
    if others := [f"{word} {_named(names)}" for word, names in pairs if names]:
        yield f"{'; '.join(others)} - Rejected because {_why(lead_said, 'the lead decided otherwise')}"
    broken = [one.worker for one in workers if one.decider == "gate"]
    waiting = [one.worker for one in workers if one.decider == "conflict"]
    if (broken or waiting) and others_landed:
        yield "Land nothing - Rejected because the others pass without it"
    elif broken:
        yield f"Accept {_named(broken)} - Rejected because the gate fails with that work"
    elif waiting:
        yield f"Land {_named(waiting)} all the same - Rejected because what the branch has would be lost"


def _why(workers: Iterable[Completion], otherwise: str = "no reason given") -> str:
    said = dict.fromkeys(one.said.strip().rstrip(".") or otherwise for one in workers)
    return "; ".join(said)


def _named(names: Sequence[str], between: str = ", ") -> str:
    return some_of(list(dict.fromkeys(names)), NAMED, between=between)
