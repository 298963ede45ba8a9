"""`orchestrate runtime` on the command line."""

import argparse

from orchestrator.cli.terminal.progress import run_lines
from orchestrator.cli.terminal.screen import on_screen
from orchestrator.commands import runtime
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.runtime import Arguments
from orchestrator.runs.state import RunState


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `_runtime`."""
    parser.add_argument("run", metavar="RUN", help="the run's id")
    parser.add_argument("--lock", type=int, help="the inherited descriptor that holds its lock")
    parser.add_argument("--integrate", action="store_true", help="judge, land and record, too")


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[RunState]:
    """Call the command, and show events as they happen."""
    return on_screen(runtime.call, caller, arguments, as_json=as_json)


def lines(answer: Answer[RunState], _: Arguments) -> list[str]:
    """Return the answer as text."""
    return run_lines(answer)
