"""`orchestrate integrate RUN`: judge what came back, land what is accepted, record it."""

import argparse
from functools import partial

from orchestrator.cli.answer import Answer
from orchestrator.cli.project import finish, project_of
from orchestrator.commands._names import judged, live_named, run_named
from orchestrator.integrate.integrate import Decision
from orchestrator.run import judge_run
from orchestrator.runs.manifest import read_manifest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `integrate` takes."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument(
        "--accept", nargs="+", default=[], metavar="WORKER", help="land these, as far as in scope"
    )
    parser.add_argument("--reject", nargs="+", default=[], metavar="WORKER", help="land nothing of these")
    parser.add_argument("--reason", default="", help="why, for the decision log")


def answer(arguments: argparse.Namespace) -> Answer:
    """Integrate a run."""
    project = project_of(arguments)
    read_manifest(run_named(project.repository, arguments.run))  # refuses one that it could not go on with
    state = live_named(project.repository, arguments.run).state
    accept, reject = judged(state, arguments.accept), judged(state, arguments.reject)
    decision = Decision(accept, reject, arguments.reason)
    return finish(project, partial(judge_run, project, state.run, decision))
