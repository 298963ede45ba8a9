"""`orchestrate deploy` on the command line."""

import argparse

from orchestrator.cli.options import add_phase_options, add_start_options
from orchestrator.cli.terminal.progress import detached_lines, run_lines
from orchestrator.cli.terminal.screen import on_screen
from orchestrator.commands import deploy
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.deploy import Arguments
from orchestrator.runs.state import RunState


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `deploy`."""
    parser.add_argument("phase", metavar="PHASE", help="as the templates name it: phase-1")
    add_phase_options(parser)
    add_start_options(parser)


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[RunState]:
    """Call the command, and show events as they happen."""
    return on_screen(deploy.call, caller, arguments, as_json=as_json)


def lines(answer: Answer[RunState], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    return detached_lines(answer) if arguments.detach else run_lines(answer)
