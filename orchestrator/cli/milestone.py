"""`orchestrate milestone` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_tests
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.milestone import Arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    complete = action("complete", "record that it is reached; all criteria of the phase must be met")
    add_tests(complete, by_default=True)
    for one in (complete, action("list", "show the milestones of all phases")):
        one.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")


def lines(answer: Answer[Summary], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    if arguments.action != "list":
        return recorded_lines(answer.view, answer)
    listed = answer.document["milestones"]
    return with_ending(
        [f"{one['percent']:>3}%  {one['milestone'] or '(no name)'} ({one['phase']})" for one in listed],
        answer,
    )
