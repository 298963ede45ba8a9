"""`orchestrate run PHASE`: deploy, wait, integrate; without a phase, go on with the newest unfinished run."""

import argparse
from functools import partial

from orchestrator.cli.answer import Answer
from orchestrator.cli.project import finish, lead_of, newest_unfinished, project_of
from orchestrator.prepare import Request
from orchestrator.run import go_on, run_phase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` takes."""
    parser.add_argument("phase", nargs="?", metavar="PHASE", help="as the templates name it: phase-1")
    parser.add_argument("--only", nargs="+", default=[], metavar="TICKET", help="just these tickets")
    parser.add_argument("--lead", help="who leads (default: git's user.name)")
    parser.add_argument("--new", action="store_true", help="also if a run of the phase is unfinished")
    parser.add_argument("--strict-agents", action="store_true", help="refuse if an agent is missing or off")
    parser.add_argument("--on-overlap", choices=["refuse", "serialize"], default="refuse",
                        help="what becomes of tickets that own the same path")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Run a phase."""
    project = project_of(arguments)
    if arguments.phase is None:
        return finish(partial(go_on, project, newest_unfinished(project.repository)))
    request = Request(
        phase=arguments.phase,
        lead=lead_of(arguments, project.repository),
        only=tuple(arguments.only),
        new=arguments.new,
        strict_agents=arguments.strict_agents,
        on_overlap=arguments.on_overlap,
    )
    return finish(partial(run_phase, project, request))
