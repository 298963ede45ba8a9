"""`orchestrate phase` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead, add_tests
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.phase import Arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    start = action("start", "begin a phase: its first deliverable is next")
    start.add_argument("phase", metavar="PHASE", help="its number, its short name, or a part of its title")
    complete = action("complete", "end the current phase and begin the next one of the plan")
    complete.add_argument(
        "phase", nargs="?", metavar="PHASE", help="the one to end (default: the current one)"
    )
    complete.add_argument("--force", action="store_true",
                          help="though deliverables or criteria are open; needs `--reason`")  # fmt: skip
    complete.add_argument("--reason", metavar="TEXT", help="why, for DECISIONS.md")
    add_tests(start)
    add_tests(complete, by_default=True)
    add = action("add", "put a phase at the end of the plan")
    add.add_argument("text", nargs="+", metavar="NAME", help="what it is called; its number is the next one")
    add.add_argument("--milestone", required=True, metavar="TEXT", help="what it works towards")
    add.add_argument("--criterion", action="append", metavar="TEXT",
                     help="what has to hold at its end; may be repeated")  # fmt: skip
    add.add_argument("--deliverable", action="append", metavar="TEXT",
                     help="what it is to bring; may be repeated")  # fmt: skip
    add_lead(add)
    action("list", "show the phases of the plan")


def lines(answer: Answer[Summary], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    if arguments.action != "list":
        return recorded_lines(answer.view, answer)
    listed = answer.document["phases"]
    named = [f"{one['name']:<10} {one['status'] or '-':<12} {one['title']}" for one in listed]
    return with_ending(named or ["the plan has no phase"], answer)
