"""`orchestrate run PHASE`: deploy, wait, integrate; without a phase, go on with the newest unfinished run."""

import argparse
from functools import partial

from orchestrator.cli.answer import Answer
from orchestrator.cli.project import (
    add_phase_arguments,
    add_wait,
    finish,
    newest_unfinished,
    project_of,
    request_of,
)
from orchestrator.run import go_on, run_phase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` takes."""
    parser.add_argument("phase", nargs="?", metavar="PHASE", help="as the templates name it: phase-1")
    add_phase_arguments(parser)
    add_wait(parser)
    parser.add_argument("--lead", help="who leads (default: git's user.name)")
    parser.add_argument("--new", action="store_true", help="also if a run of the phase is unfinished")


def answer(arguments: argparse.Namespace) -> Answer:
    """Run a phase."""
    if arguments.phase is None:
        project = project_of(arguments)
        return finish(project, partial(go_on, project, newest_unfinished(project.repository)))
    request = request_of(arguments, new=arguments.new)
    project = project_of(arguments, request)
    return finish(project, partial(run_phase, project, request))
