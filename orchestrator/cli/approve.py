"""`orchestrate approve` on the command line."""

import argparse

from orchestrator.cli.options import add_lead
from orchestrator.cli.text import recorded_lines
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.approve import Arguments
from orchestrator.state.canonical.decisions.gates import KINDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `approve`."""
    parser.add_argument("gate", metavar="GATE", help=f"what it is about: {', '.join(KINDS)}, as in `phase-2`")
    parser.add_argument("--by", required=True, metavar="NAME", help="the person who answered")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--condition", metavar="TEXT", help="approved, but only so")
    how.add_argument("--reject", action="store_true", help="the answer was no")
    parser.add_argument("--then", metavar="COMMAND", help="what waits for the answer: the next step after it")
    add_lead(parser)


def lines(answer: Answer[Summary], _: Arguments) -> list[str]:
    """Return the answer as text."""
    return recorded_lines(answer.view, answer)
