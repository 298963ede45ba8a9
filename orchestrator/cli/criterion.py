"""`orchestrate criterion` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead, add_tests
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.criterion import Arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put a criterion under a phase, or on a checklist")
    add.add_argument("text", nargs="+", metavar="TEXT", help="the criterion")
    where = add.add_mutually_exclusive_group()
    where.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")
    where.add_argument("--list", dest="checklist", metavar="LIST", help="on this checklist: `v1`, `v2`")
    add_lead(add)
    done, undo = action("done", "tick a criterion that is met"), action("undo", "remove the tick")
    for one in (done, undo):
        one.add_argument("text", nargs="+", metavar="TEXT", help="its number, or a unique part of it")
        add_tests(one)
    for one in (done, undo, action("list", "show them with their numbers")):
        one.add_argument("--in", dest="section", metavar="HEADING",
                         help="a part of the heading that it is under: `Phase 2`, `v1`")  # fmt: skip


def lines(answer: Answer[Summary], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    if arguments.action != "list":
        return recorded_lines(answer.view, answer)
    listed = [
        f"{one['number']:>3}  [{'x' if one['met'] else ' '}] {one['text']} ({one['in']})"
        for one in answer.document["criteria"]
    ]
    return with_ending(listed or ["there are no criteria"], answer)
