"""`todo add|done|move|list`: the prioritised list in STATUS.md."""

from typing import Any, Literal

from orchestrator.commands._proposals import listing, proposed, taken
from orchestrator.commands._record import Writer, chosen, given, has_part, record, shortened, writer_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.canonical.status.todo import TodoItem, todo_items
from orchestrator.state.document import needed
from orchestrator.state.events import Grade, TodoAdded, TodoDone, TodoMoved
from tickets.problems import Problem
from tickets.value import Value

NEXT = "orchestrate todo list"


class Arguments(Value):
    """The arguments of `todo`."""

    action: Literal["add", "done", "move", "list"]
    text: str = ""
    """The item to add; or the number or a unique part of the text of an existing one."""
    priority: Grade | None = None
    """P1 for a new item, unless stated otherwise."""
    backlog: bool = False
    """Move the item off the list, into docs/backlog.md."""
    run: str | None = None
    """The run whose workers' proposals are listed or added."""
    take: tuple[str, ...] = ()
    """The numbers of the added proposals, or `all`."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Change the list, or show it."""
    writer = writer_of(caller)
    document = writer.document(PATH)
    needed(document, "TODO")  # a hidden list must not count as an empty one
    listed = todo_items(document)
    if arguments.action == "list":
        items = [{"number": one.number, **_shown(one), "line": one.line} for one in listed]
        return answer((), "orchestrate status", items=items)
    if arguments.action == "add" and arguments.run:
        return _add_proposed(writer, arguments, arguments.run, [one.text for one in listed])
    if arguments.action == "add":
        return _add(writer, [arguments.text], arguments.priority or "P1")
    item = _item(listed, arguments.text)
    facts = _shown(item)
    if arguments.action == "done":
        event = TodoDone(item.text, item.grade, writer.at, writer.lead)
        message = f"TODO done: {shortened(item.text)}\n\n- Ticked under {item.grade} in STATUS.md\n"
        return record(writer, event, message, next_action=NEXT, item={**facts, "done": True})
    to = arguments.priority
    if (to is None) is not arguments.backlog:
        raise Refusal(Problem("todo move", "needs one place to go", "name `--priority` or `--backlog`"))
    moved = TodoMoved(item.text, item.grade, to, writer.at, writer.lead)
    place = to or "the backlog"
    message = f"TODO to {place}: {shortened(item.text)}\n\n- Moved from {item.grade} to {place}\n"
    return record(writer, moved, message, next_action=NEXT, item={**facts, "priority": to})


def _add(writer: Writer, texts: list[str], grade: Grade) -> Answer[None]:
    texts = [given("todo add", text) for text in texts]
    what = shortened(texts[0]) if len(texts) == 1 else f"{len(texts)} items"
    listed = "\n".join(f"- {grade}: {shortened(text, 90)}" for text in texts)
    event = TodoAdded(tuple(texts), grade, writer.at, writer.lead)
    items = [{"priority": grade, "text": text, "done": False} for text in texts]
    return record(writer, event, f"TODO added: {what}\n\n{listed}\n", next_action=NEXT, items=items)


def _add_proposed(writer: Writer, arguments: Arguments, run: str, there: list[str]) -> Answer[None]:
    if arguments.text:
        problem = Problem("todo add", "a text and `--from` were given", "give one of them, or `--take N`")
        raise Refusal(problem)
    found = proposed(writer, run, "follow_ups")
    if not arguments.take:
        return listing(found, "todo add", there)
    return _add(writer, [one.text for one in taken(found, arguments.take)], arguments.priority or "P1")


def _item(listed: list[TodoItem], word: str) -> TodoItem:
    """Return the item that a word means: an open one rather than a done one."""
    texts = [item.text for item in listed]
    if not word.isdecimal():
        is_open = [item for item in listed if not item.done and has_part(item.text, word)]
        if len(is_open) == 1:
            return is_open[0]
    return listed[chosen(PATH, word, texts, "TODO item")]


def _shown(item: TodoItem) -> dict[str, Any]:
    return {"priority": item.grade, "text": item.text, "done": item.done}
