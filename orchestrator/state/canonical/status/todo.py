"""The TODO list of STATUS.md: items by priority, added, finished, moved, and pruned when they are done."""

from typing import NamedTuple

from orchestrator.errors import StateError
from orchestrator.state.document import below, inert, needed, section_like, the_item
from orchestrator.state.events import Grade, TodoAdded, TodoDone, TodoMoved
from tickets.markdown import Document, Item, Part, add_items, items, plain, remove_items, set_checkbox
from tickets.problems import Problem

GRADES: tuple[Grade, ...] = ("P0", "P1", "P2")
KEPT = 5
"""How many done items a priority keeps; older ones go to the backlog."""


class TodoItem(NamedTuple):
    """One item; `number` counts all items from 1, in the order of the file's priorities."""

    number: int
    grade: Grade
    text: str
    done: bool
    line: int


class Gone(NamedTuple):
    """An item that leaves the list, with the lines that belong to it."""

    grade: Grade
    text: str
    done: bool
    below: str


def todo_items(document: Document) -> list[TodoItem]:
    """Return the items with a checkbox, those of P0 first."""
    found: list[TodoItem] = []
    todo = section_like(document, "TODO")
    for grade in GRADES:
        part = section_like(document, grade, todo) if todo else None
        for item in boxed(document, part) if part else ():
            found.append(
                TodoItem(len(found) + 1, grade, plain(item.text), done=bool(item.done), line=item.line)
            )
    return found


def boxed(document: Document, part: Part) -> list[Item]:
    """Return the items of a section that have a checkbox."""
    return [item for item in items(document, part) if item.done is not None]


def edited(document: Document, event: TodoAdded | TodoDone | TodoMoved) -> Document:
    """Show the event in the list. Raises StateError where the list or the item cannot be found."""
    if isinstance(event, TodoAdded):
        return _added(document, event)
    if isinstance(event, TodoDone):
        document = set_checkbox(document, _meant(document, event), done=True)
        return remove_items(document, prunable(document, KEPT, but=event.text))
    return _moved(document, event)


def ticked(document: Document, *texts: str) -> Document:
    """Tick the open P0 items that hold one of these texts: what they wait for has happened."""
    todo = section_like(document, "TODO")
    part = section_like(document, "P0", todo) if todo else None
    for item in boxed(document, part) if part else ():
        # To tick an item moves no other.
        if not item.done and any(text in plain(item.text) for text in texts):
            document = set_checkbox(document, item, done=True)
    return document


def _meant(document: Document, event: TodoDone | TodoMoved) -> Item:
    """Return the item of an event: an open one rather than one that was done before, of those the last.

    Raises StateError.
    """
    found = boxed(document, _level(document, event.grade))
    same = [item for item in found if plain(item.text) == event.text]
    chosen = [item for item in same if not item.done] or same[-1:]
    return the_item(document, chosen, event.text, f"TODO > {event.grade}")


def prunable(document: Document, kept: int, but: str = "") -> list[Item]:
    """Return the done items to remove: all but the last `kept` of each priority, never `but`."""
    gone: list[Item] = []
    todo = section_like(document, "TODO")
    for grade in GRADES:
        part = section_like(document, grade, todo) if todo else None
        inside = items(document, part) if part else ()
        done = [item for item in inside if item.done and item.depth == 0 and not _holds(inside, item)]
        done = [item for item in done if plain(item.text) != but]
        gone += done[: max(0, len(done) - max(0, kept - bool(but)))]
    return gone


def leaving(document: Document, event: TodoDone | TodoMoved) -> list[Gone]:
    """Return what an event removes from the list; `document` is the state before."""
    if isinstance(event, TodoMoved):
        return [] if event.to is not None else off_list(document, [_meant(document, event)])
    return off_list(document, prunable(document, KEPT, but=event.text))


def off_list(document: Document, gone: list[Item]) -> list[Gone]:
    """Return items of the list in the form of the backlog."""
    lines = {item.line: item for item in gone}
    return [
        Gone(one.grade, one.text, one.done, below(document, lines[one.line]))
        for one in (todo_items(document) if lines else ())
        if one.line in lines
    ]


def _level(document: Document, grade: Grade) -> Part:
    return needed(document, grade, needed(document, "TODO"))


def _holds(inside: tuple[Item, ...], item: Item) -> bool:
    return any(item.start < other.start < item.end for other in inside)


def _added(document: Document, event: TodoAdded) -> Document:
    part = _level(document, event.grade)
    there = {one.text for one in todo_items(document) if not one.done}
    new = dict.fromkeys(inert(text) for text in event.items)
    return add_items(document, part, [f"- [ ] {text}" for text in new if text and plain(text) not in there])


def _moved(document: Document, event: TodoMoved) -> Document:
    part = _level(document, event.grade)
    target = _level(document, event.to) if event.to else None
    here, there = (
        {plain(item.text) for item in boxed(document, each)} if each else set() for each in (part, target)
    )
    if event.text in there and event.text not in here:
        return document
    item = _meant(document, event)
    if item.depth or (event.to is None and _holds(items(document, part), item)):
        what = f"`{event.text}` is part of a nested list"
        raise StateError(Problem(f"{document.place}:{item.line}", what, "move it by hand"))
    start = document.lines[document.line_at(item.start) - 1].start
    lines = document.text(start, item.end).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    document = remove_items(document, [item])
    if event.to is None:
        return document
    return add_items(document, _level(document, event.to), [lines])
