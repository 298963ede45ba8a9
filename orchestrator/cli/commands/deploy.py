"""`orchestrate deploy PHASE`: render, prove, start; judged together and landed by `integrate`."""

import argparse
from functools import partial

import anyio

from orchestrator.cli.answer import Answer
from orchestrator.cli.detach import detach
from orchestrator.cli.project import add_phase_arguments, add_wait, finish, project_of, request_of
from orchestrator.prepare.start import start_run
from orchestrator.run import deploy_phase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `deploy` takes."""
    parser.add_argument("phase", metavar="PHASE", help="as the templates name it: phase-1")
    parser.add_argument("--detach", action="store_true", help="return at once; the run goes on by itself")
    parser.add_argument("--lead", help="who leads (default: git's user.name)")
    parser.add_argument("--new", action="store_true", help="also if a run of the phase is unfinished")
    add_phase_arguments(parser)
    add_wait(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    """Deploy a phase."""
    request = request_of(arguments, new=arguments.new)
    project = project_of(arguments, request)
    if not arguments.detach:
        return finish(project, partial(deploy_phase, project, request), expected=("finished", "integrated"))
    return detach(*anyio.run(start_run, project, request))
