"""What the active context copies of the other state files. Pure: texts in, items with their sources out."""

import re
from collections.abc import Sequence

from orchestrator.state import Tree
from orchestrator.state.ai_memory.context_keys import UNSTATED
from orchestrator.state.ai_memory.context_read import ARROW
from orchestrator.state.ai_memory.context_write import said
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import read as read_log
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import Status
from orchestrator.state.canonical.status.read import read as read_status
from orchestrator.state.checkpoints.form import Checkpoint
from tickets.markdown import plain
from tickets.value import Value

DONE = 6
IN_PROGRESS = 4
NEXT = 6
CRITERIA = 5
DECIDED = 5
LONGEST = 300
"""Characters of one item."""
_CONTEXT = re.compile(r"\*\*Context:?\*\*:?[ \t]*(.*)")
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_NEEDS = "; needs "


class Copies(Value):
    """The runtime's items of the keys that state files alone decide, each with its source."""

    plan: str
    done: tuple[str, ...]
    in_progress: tuple[str, ...]
    next: tuple[str, ...]
    criteria: tuple[str, ...]
    decisions: tuple[str, ...]
    blockers: tuple[str, ...]


def copies_of(tree: Tree, since: str = "") -> Copies:
    """Return the copies of STATUS.md and DECISIONS.md; `since` is the day on which the task began.

    Raises StateError where one cannot be read.
    """
    text = tree.get(STATUS)
    status = read_status(text) if text else None
    decided = _decisions(tree.get(DECISIONS), since)
    if status is None:
        return Copies(UNSTATED, (), (), (), (), decided, ())
    return Copies(
        _plan(status), _done(status, since), _in_progress(status), _next(status), _criteria(status), decided,
        tuple(
            item(f"{one.name} is blocked: {one.reason or 'no reason is given'}", STATUS)
            for phase in status.phases
            for one in phase.deliverables
            if one.status == "BLOCKED"
        ),
    )  # fmt: skip


def blocked_line(one: Checkpoint) -> str:
    """Return the item about a blocked checkpoint."""
    needs = one.last_action.partition(_NEEDS)[2] or one.last_action
    return item(f"{one.agent} is blocked: {needs}", one.path)


def item(text: str, source: str) -> str:
    """Return an item of the runtime's, in which the words of others are no source."""
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
    return f"{said(short.replace(ARROW.strip(), '<-'))}{ARROW}{source}"


def goal_of(tree: Tree) -> str:
    """Return the goal of a new task: the current deliverable, and the milestone that it leads to."""
    text = tree.get(STATUS)
    status = read_status(text) if text else None
    name = status.deliverable.name if status else ""
    if not status or not name:
        return UNSTATED
    milestone = status.milestone.partition(" (")[0]
    reaches = f", so that `{milestone}` is reached" if milestone else ""
    return said_with_spans(f"Finish `{name}` of {status.phase or 'the project'}{reaches}")


def said_with_spans(text: str) -> str:
    """Return a text of ours, with its code spans, on one line."""
    return " ".join(text.split())


def _plan(status: Status) -> str:
    phase = status.current
    if phase is None:
        return f"{STATUS} \u2014 no phase is current"
    made, all_ = phase.made
    return f"{STATUS} \u2014 {said(phase.title)}, {made}/{all_} deliverables complete"


def _done(status: Status, since: str) -> tuple[str, ...]:
    lines = [
        item(f"{one.worker}: {one.title} ({one.verdict})", f"run {one.run}")
        for one in status.completions
        if one.verdict and one.run and one.date >= since
    ]
    return tuple(dict.fromkeys(lines))[:DONE]


def _in_progress(status: Status) -> tuple[str, ...]:
    phase = status.current
    named = [
        one.name for one in (phase.deliverables if phase else ()) if one.status.startswith("IN PROGRESS")
    ]
    lines = [item(name, STATUS) for name in named]
    lines += [item(f"{one.worker}: {one.title}", f"run {one.run}") for one in status.active if one.run]
    return tuple(dict.fromkeys(lines))[:IN_PROGRESS]


def _next(status: Status) -> tuple[str, ...]:
    runs = dict.fromkeys(one.run for one in status.active if one.run)
    lines = [f"See run {run} to its end: `orchestrate resume`{ARROW}{STATUS}" for run in runs]
    lines += [_todo(text) for done, text in status.todo.get("P0", ()) if not done]
    return tuple(dict.fromkeys(lines))[:NEXT]


def _todo(text: str) -> str:
    """Return a P0 item with its code spans: it may name a command."""
    return f"{said_with_spans(text.replace(ARROW.strip(), '<-'))[:LONGEST]}{ARROW}P0"


def _criteria(status: Status) -> tuple[str, ...]:
    phase = status.current
    left = [text for met, text in (phase.criteria if phase else ()) if not met]
    return tuple(item(text, STATUS) for text in left)[:CRITERIA]


def _decisions(text: bytes | None, since: str) -> tuple[str, ...]:
    if not text:
        return ()
    found = []
    for entry, (_, below) in zip(read_log(text), spans(text), strict=True):
        if entry.date >= since:
            found.append(
                (entry.date, item(f"{entry.date} \u2192 {entry.title} \u2192 {_why(below)}", DECISIONS))
            )
    # The newest entry stands first in the log, and so it does here.
    found.sort(key=lambda one: one[0], reverse=True)
    return tuple(line for _, line in found[:DECIDED])


def _why(below: str) -> str:
    context = _CONTEXT.search(below)
    said_ = context[1] if context and context[1].strip() else "no reason is given"
    return plain(_SENTENCE.split(said_.strip(), maxsplit=1)[0])


def started(texts: Sequence[str]) -> str:
    """Return the day of the first text that is one; empty where none is."""
    return next((text[:10] for text in texts if re.match(r"\d{4}-\d{2}-\d{2}", text)), "")
