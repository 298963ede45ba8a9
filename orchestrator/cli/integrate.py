"""`orchestrate integrate` on the command line."""

import argparse

from orchestrator.cli.terminal.progress import run_lines
from orchestrator.cli.terminal.screen import on_screen
from orchestrator.commands import integrate
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.integrate import Arguments
from orchestrator.runs.state import RunState


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `integrate`."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument("--accept", nargs="+", metavar="WORKER", help="land these, as far as in scope")
    parser.add_argument("--reject", nargs="+", metavar="WORKER", help="land nothing of these")
    parser.add_argument("--reason", help="why, for the decision log")


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[RunState]:
    """Call the command, and show events as they happen."""
    return on_screen(integrate.call, caller, arguments, as_json=as_json)


def lines(answer: Answer[RunState], _: Arguments) -> list[str]:
    """Return the answer as text."""
    return run_lines(answer)
