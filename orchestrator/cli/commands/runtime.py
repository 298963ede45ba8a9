"""`orchestrate _runtime RUN`: the runtime that `deploy --detach` leaves behind. Not for people."""

import argparse
import signal
from functools import partial

from orchestrator.cli.answer import Answer
from orchestrator.cli.project import finish, project_of
from orchestrator.commands._names import run_named
from orchestrator.run import go_on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes."""
    parser.add_argument("run", metavar="RUN", help="the run's id")


def answer(arguments: argparse.Namespace) -> Answer:
    """Go on with a run until its workers have ended, whatever becomes of the terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    project = project_of(arguments)
    work = partial(go_on, project, run_named(project.repository, arguments.run), integrates=False)
    return finish(project, work, expected=("finished", "integrated"))
