"""`orchestrate todo` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_from, add_lead
from orchestrator.cli.text import proposal_lines, recorded_lines, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.todo import Arguments
from orchestrator.state.canonical.status.todo import GRADES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put an item on the list")
    add.add_argument("text", nargs="*", metavar="TEXT", help="the item's text")
    add.add_argument("--priority", choices=GRADES, help="P0, P1 (default) or P2")
    add_from(add, "follow-ups")
    done = action("done", "tick an item; the oldest ticked ones go to docs/backlog.md")
    move = action("move", "give an item another priority, or move it to the backlog")
    for one in (done, move):
        one.add_argument("text", nargs="+", metavar="ITEM", help="its number, or a unique part of its text")
    where = move.add_mutually_exclusive_group(required=True)
    where.add_argument("--priority", choices=GRADES, help="where to")
    where.add_argument("--backlog", action="store_true", help="off the list, into docs/backlog.md")
    action("list", "show the items with their numbers")
    for one in (add, done, move):
        add_lead(one)


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if "proposals" in document:
        return proposal_lines(answer)
    if arguments.action == "list":
        listed = [
            f"{one['number']:>3}  {one['priority']}  [{'x' if one['done'] else ' '}] {one['text']}"
            for one in document["items"]
        ]
        return with_ending(listed or ["the list is empty"], answer)
    if arguments.action == "add":
        return recorded_lines([f"{one['priority']}: {one['text']}" for one in document["items"]], answer)
    done = "done" if arguments.action == "done" else f"moved to {arguments.priority or 'the backlog'}"
    return recorded_lines([f"{done}: {document['item']['text']}"], answer)
