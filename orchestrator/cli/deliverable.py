"""`orchestrate deliverable` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead, add_tests
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.deliverable import Arguments
from orchestrator.state.canonical.status.todo import GRADES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put one into the plan, at the end of its phase")
    add.add_argument("--next", action="store_true", help="it is what is worked on next")
    start = action("start", "make it the current deliverable")
    start.add_argument("--owner", metavar="NAME", help="who makes it (default: as it was, or Lead)")
    done = action("done", "tick it, count, name the next one; done TODO items go to docs/backlog.md")
    done.add_argument("--finished", action="store_true", help="all of which every ticket is done")
    block = action("block", "record that it is blocked")
    block.add_argument("--reason", required=True, metavar="TEXT", help="why it is blocked")
    block.add_argument("--impact", metavar="TEXT", help="what cannot be done because of it")
    block.add_argument("--mitigation", metavar="TEXT", help="what is done about it")
    block.add_argument("--priority", choices=GRADES, help="P0 leaves a status report")
    add.add_argument("text", nargs="+", metavar="NAME", help="the deliverable")
    add_lead(add)
    for one in (start, done, block):
        several = "*" if one is done else "+"
        one.add_argument(
            "text", nargs=several, metavar="NAME", help="its number, or a unique part of its name"
        )
        add_tests(one, by_default=one is done)
    for one in (add, start, done, block, action("list", "show them with their numbers")):
        one.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")


def lines(answer: Answer[Summary], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if arguments.action != "list":
        return recorded_lines(answer.view, answer)
    listed = [
        f"{one['number']:>3}  {one['status'] or '-':<12} {one['name']}" for one in document["deliverables"]
    ]
    return with_ending([document["phase"], *listed], answer)
