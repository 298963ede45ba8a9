"""`orchestrate resume [RUN]`: what is true after a stop, what is next; with RUN, go on with it."""

import argparse
from functools import partial

from orchestrator.cli.answer import Answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `resume` takes."""
    from orchestrator.cli.options import add_checks  # noqa: PLC0415 - for start-up time

    parser.add_argument("run", nargs="?", metavar="RUN", help="go on with this run: its workers, its queue")
    parser.add_argument("--max-tokens", type=int, metavar="N",
                        help="leave out what is needed least until the JSON fits")  # fmt: skip
    add_checks(parser, "run the smoke tests, too")


def answer(arguments: argparse.Namespace) -> Answer:
    """Report, or go on with a run."""
    if arguments.run is None:
        from orchestrator.cli.commands._standing import answer_standing  # noqa: PLC0415 - `resume RUN` needs more

        return answer_standing(arguments)
    from orchestrator.cli.project import finish, project_of  # noqa: PLC0415 - as above
    from orchestrator.commands._names import run_named  # noqa: PLC0415 - the report needs less
    from orchestrator.run import go_on  # noqa: PLC0415 - as above

    project = project_of(arguments)
    return finish(project, partial(go_on, project, run_named(project.repository, arguments.run)))
