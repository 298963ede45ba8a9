"""`orchestrate todo add|done|move|list`: the prioritised list in STATUS.md."""

import argparse
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.arguments import add_actions
from orchestrator.cli.commands._proposals import add_from, listing, proposed, taken
from orchestrator.cli.recording import Desk, add_lead, chosen, desk_of, given, record, shortened, shown
from orchestrator.errors import Refusal
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.canonical.status.todo import GRADES, TodoItem, todo_items
from orchestrator.state.document import needed
from orchestrator.state.events import TodoAdded, TodoDone, TodoMoved
from tickets.problems import Problem

NEXT = "orchestrate todo list"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put an item on the list")
    add.add_argument("words", nargs="*", metavar="TEXT", help="what is to be done")
    add.add_argument("--priority", choices=GRADES, default="P1", help="P0, P1 (default) or P2")
    add_from(add, "follow-ups")
    done = action("done", "tick an item; the oldest ticked ones go to docs/backlog.md")
    move = action("move", "give an item another priority, or put it off")
    for one in (done, move):
        one.add_argument("words", nargs="+", metavar="ITEM", help="its number, or a unique part of its text")
    where = move.add_mutually_exclusive_group(required=True)
    where.add_argument("--priority", choices=GRADES, help="where to")
    where.add_argument("--backlog", action="store_true", help="off the list, into docs/backlog.md")
    action("list", "show the items with their numbers")
    for one in (add, done, move):
        add_lead(one)


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    desk = desk_of(arguments)
    document = desk.document(PATH)
    needed(document, "TODO")  # a list that is hidden is not taken for an empty one
    listed = todo_items(document)
    if arguments.action == "list":
        return _list(listed)
    words = " ".join(arguments.words)
    if arguments.action == "add" and arguments.run:
        return _add_proposed(desk, arguments, [one.text for one in listed])
    if arguments.action == "add":
        return _add(desk, [words], arguments.priority)
    item = _item(listed, words)
    facts = _shown(item)
    if arguments.action == "done":
        event = TodoDone(item.text, item.grade, desk.at, desk.lead)
        message = f"TODO done: {shortened(item.text)}\n\n- Ticked under {item.grade} in STATUS.md\n"
        return record(desk, event, message, [f"done: {item.text}"], next_action=NEXT,
                      item={**facts, "done": True})  # fmt: skip
    to = arguments.priority
    moved = TodoMoved(item.text, item.grade, to, desk.at, desk.lead)
    place = to or "the backlog"
    message = f"TODO to {place}: {shortened(item.text)}\n\n- Moved from {item.grade} to {place}\n"
    lines = [f"moved to {place}: {item.text}"]
    return record(desk, moved, message, lines, next_action=NEXT, item={**facts, "priority": to})


def _add(desk: Desk, texts: list[str], grade: Any) -> Answer:
    texts = [given("todo add", text) for text in texts]
    what = shortened(texts[0]) if len(texts) == 1 else f"{len(texts)} items"
    listed = "\n".join(f"- {grade}: {shortened(text, 90)}" for text in texts)
    event = TodoAdded(tuple(texts), grade, desk.at, desk.lead)
    items = [{"priority": grade, "text": text, "done": False} for text in texts]
    lines = [f"{grade}: {text}" for text in texts]
    return record(desk, event, f"TODO added: {what}\n\n{listed}\n", lines, next_action=NEXT, items=items)


def _add_proposed(desk: Desk, arguments: argparse.Namespace, there: list[str]) -> Answer:
    if arguments.words:
        problem = Problem("todo add", "a text and `--from` were given", "give one of them, or `--take N`")
        raise Refusal(problem)
    found = proposed(desk, arguments.run, "follow_ups")
    if not arguments.take:
        return listing(found, "todo add", there)
    return _add(desk, [one.text for one in taken(found, arguments.take)], arguments.priority)


def _item(listed: list[TodoItem], word: str) -> TodoItem:
    """Find the item that is meant: an open one, before one that is done."""
    texts = [item.text for item in listed]
    if not word.isdecimal():
        is_open = [item for item in listed if not item.done and word.casefold() in item.text.casefold()]
        if len(is_open) == 1:
            return is_open[0]
    return listed[chosen(PATH, word, texts, "TODO item")]


def _list(listed: list[TodoItem]) -> Answer:
    lines = [f"{one.number:>3}  {one.grade}  [{'x' if one.done else ' '}] {one.text}" for one in listed]
    items = [{"number": one.number, **_shown(one), "line": one.line} for one in listed]
    return shown(lines or ["the list is empty"], "orchestrate status", items=items)


def _shown(item: TodoItem) -> dict[str, Any]:
    return {"priority": item.grade, "text": item.text, "done": item.done}
