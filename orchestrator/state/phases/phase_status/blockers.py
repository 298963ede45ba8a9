"""The blockers of a phase and the tasks that they hold up: raised, answered, closed."""

from collections.abc import Iterable, Sequence

from orchestrator.state.document import inert, needed
from orchestrator.state.events import BlockerAnswered, BlockerRaised, TaskMoved
from orchestrator.state.facts import second
from orchestrator.state.phases.phase_status.read import FIELDS, UNKNOWN, PhaseBlocker, blocker_parts, read_of
from tickets.markdown import (
    Document,
    Part,
    add_items,
    add_section,
    insert,
    one_line,
    plain,
    section,
    sections,
    set_checkbox,
    set_field,
    set_item,
)

LONGEST = 500
"""Characters of a field, and of a task."""


def raised(document: Document, event: BlockerRaised, order: Sequence[str]) -> Document:
    """Add a blocker, and hold up the task that it names."""
    name = f"B{1 + max((int(part.title[1:]) for part in blocker_parts(document)), default=0)}"
    said = {
        "Title": event.title, "State": "open", "Plan": event.plan, "Task": event.task, "Mode": event.mode,
        "Raised": second(event.at), "Message": event.by, "Attempted": event.attempted, "Needs": event.needs,
    }  # fmt: skip
    lines = [f"### {name}", "", *(f"**{key}:** {written(said.get(key, ''))}" for key in FIELDS)]
    quoted = [f"> {one_line(line)}".rstrip() for line in event.body.strip().splitlines()]
    lines += ["", *quoted] if quoted else []
    document = add_section(document, needed(document, "Blockers"), "\n".join(lines))
    if event.plan and event.task:
        moved = TaskMoved(event.phase, event.plan, event.task, "blocked", event.by, event.at)
        document = with_task(document, moved, order)
    return document


def answered(document: Document, event: BlockerAnswered) -> Document:
    """Write the first answer to a blocker; another one changes nothing."""
    found = next((one for one in read_of(document).blockers if one.message == event.blocker), None)
    if found is None or found.answered_by is not None:
        return document
    said = {"Answer": event.answer, "Answered": second(event.at), "Answered By": event.by}
    if found.state == "open":
        said["State"] = "answered"
    for key, text in said.items():
        document = set_field(document, section(document, "Blockers", found.name), key, written(text))
    return document


def closed(document: Document, blockers: Iterable[PhaseBlocker]) -> Document:
    """Close some blockers."""
    for one in blockers:
        document = set_field(document, section(document, "Blockers", one.name), "State", "closed")
    return document


def with_task(document: Document, event: TaskMoved, order: Sequence[str]) -> Document:
    """Show how a task stands; a plan gets its heading with its first task, at its place in `order`."""
    status = read_of(document)
    text = written(event.task)
    names = [one.name for one in status.blockers
             if (one.plan, one.task, one.is_closed) == (event.plan, plain(text), False)]  # fmt: skip
    held = f": {names[-1]}" if names and event.to == "blocked" else ""
    line, is_done = f"{text} ({event.to}{held})", event.to == "done"
    known = next((one for one in status.tasks.get(event.plan, ()) if one.text == plain(text)), None)
    if known is not None:
        document = set_item(document, known.item, line)
        again = next(one for one in read_of(document).tasks[event.plan] if one.text == known.text)
        return set_checkbox(document, again.item, done=is_done)
    new = f"- [{'x' if is_done else ' '}] {line}"
    parts = sections(document, needed(document, "Tasks"))
    part = next((one for one in parts if one.title == event.plan), None)
    if part is not None:
        return add_items(document, part, [new])
    text = f"### {event.plan}\n\n{new}"
    before = _following(parts, event.plan, order)
    if before is None:
        return add_section(document, needed(document, "Tasks"), text)
    return insert(document, before.start, f"{text}\n\n")


def _following(parts: Sequence[Part], plan: str, order: Sequence[str]) -> Part | None:
    """Return the section that a plan's is to stand before; None for the end."""
    later = set(order[order.index(plan) + 1 :]) if plan in order else set()
    return next((part for part in parts if part.title in later), None)


def written(text: str) -> str:
    """Return foreign text as one line of the file, cut where it is long; `-` for none."""
    flat = " ".join(text.split())
    return inert(flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…") or UNKNOWN
