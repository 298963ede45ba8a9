"""`orchestrate resume [RUN]`: what is true after a stop, what is next; with RUN, go on with it."""

import argparse
from functools import partial

from orchestrator.cli.answer import Answer
from orchestrator.cli.calling import repository_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `resume` takes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="go on with this run: its workers, its queue")


def answer(arguments: argparse.Namespace) -> Answer:
    """Report, or go on with a run."""
    if arguments.run is None:
        from orchestrator.resume import look  # noqa: PLC0415 - the report needs less than a run

        return look(repository_of(arguments))
    from orchestrator.cli.project import finish, project_of, run_named  # noqa: PLC0415 - as above
    from orchestrator.run import go_on  # noqa: PLC0415 - as above

    project = project_of(arguments)
    return finish(partial(go_on, project, run_named(project.repository, arguments.run)))
