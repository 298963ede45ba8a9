"""docs/backlog.md: TODO items that were removed from STATUS.md, done or put off; the newest at the top."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from orchestrator.errors import StateError
from orchestrator.state.canonical.status import todo
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.document import editable, inert, opened, section_like, state_errors
from orchestrator.state.events import DeliverableChanged, Event, PhaseMoved, TodoDone, TodoMoved
from orchestrator.state.facts import Facts, day
from tickets.markdown import append_section, front_problems, insert, items
from tickets.problems import Problem

PATH = "docs/backlog.md"
OWNS: tuple[str, ...] = (PATH,)
_SECTION = "Off the TODO list"
_HEAD = f"# Backlog\n\n## {_SECTION}\n\n"


def needs(_: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the backlog, and the list that it receives from, where the event may take items off that."""
    is_over = (isinstance(event, DeliverableChanged) and event.status == "COMPLETE") or (
        isinstance(event, PhaseMoved) and event.ended is not None
    )
    return (PATH, STATUS) if is_over or isinstance(event, TodoDone | TodoMoved) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the backlog with the items that the event takes off the TODO list.

    `tree` holds STATUS.md as it was before the event. Raises StateError where a file cannot be read.
    """
    if not needs(tree, event):
        return {}
    document = editable(STATUS, tree)
    if isinstance(event, TodoDone | TodoMoved):
        with state_errors():
            gone = todo.leaving(document, event)
    else:
        gone = todo.off_list(document, todo.prunable(document, 0))
    if not gone:
        return {}
    with state_errors():
        return {PATH: with_lines(tree, lines_of(gone, event.at))}


def lines_of(gone: Sequence[todo.Gone], at: datetime) -> list[str]:
    """Return items as they stand in the backlog, each with all that belongs to it."""
    return [
        f"- [{'x' if one.done else ' '}] {inert(one.text)} ({one.grade}, {day(at)})"
        + (f"\n{one.below}" if one.below else "")
        for one in gone
    ]


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the file: only that it cannot be read."""
    try:
        return list(front_problems(opened(PATH, text)))
    except StateError as error:
        return list(error.problems)


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: its first line comes with the first item."""
    return text


def with_lines(tree: Mapping[str, bytes | None], lines: Sequence[str]) -> bytes:
    """Return the backlog with lines added at its top. Raises StateError where it cannot be read."""
    text = tree.get(PATH)
    if text is None or not text.strip():
        return (_HEAD + "\n".join(lines) + "\n").encode()
    document = editable(PATH, tree)
    part = section_like(document, _SECTION)
    if part is None:
        return append_section(document, f"## {_SECTION}\n\n" + "\n".join(lines)).data
    own = items(document, part)
    if own:
        start = document.lines[document.line_at(own[0].start) - 1].start
        return insert(document, start, "\n".join(lines)).data
    return insert(document, part.body, "\n" + "\n".join(lines)).data
