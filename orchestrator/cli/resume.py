"""`orchestrate resume [RUN]`: what is true after a stop, what is next; with RUN, go on with it."""

import argparse
from functools import partial
from typing import Any

from orchestrator.cli.answer import Answer, envelope, problem_lines
from orchestrator.cli.calling import repository_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `resume` takes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="go on with this run: its workers, its queue")


def answer(arguments: argparse.Namespace) -> Answer:
    """Report, or go on with a run."""
    if arguments.run is None:
        return _report(arguments)
    from orchestrator.cli.finding import run_named  # noqa: PLC0415 - the report needs less
    from orchestrator.cli.project import finish, project_of  # noqa: PLC0415 - as above
    from orchestrator.run import go_on  # noqa: PLC0415 - as above

    project = project_of(arguments)
    return finish(partial(go_on, project, run_named(project.repository, arguments.run)))


def _report(arguments: argparse.Namespace) -> Answer:
    from orchestrator.resume import look, standing_of  # noqa: PLC0415 - `resume RUN` needs more

    standing = look(repository_of(arguments))
    runs: list[dict[str, Any]] = [
        {
            "run": state.run.id,
            "phase": state.phase,
            "status": state.status(),
            "workers": standing_of(state),
            "next_action": state.next_action(),
        }
        for state in standing.runs
    ]
    lines = [f"finished: {done}" for done in standing.repaired]
    for run in runs:
        lines.append(f"run {run['run']} ({run['phase']}) is {run['status']}")
        lines += [
            f"  {worker['worker']:<17} {worker['state']}"
            + (f": {worker['outcome']}" if worker["outcome"] else "")
            + (f", {worker['verdict']}" if worker["verdict"] else "")
            for worker in run["workers"]
        ]
    if not runs:
        lines.append("no run is unfinished")
    errors = any(problem.severity == "error" for problem in standing.problems)
    document = envelope(
        standing.problems, standing.next_action, ok=not errors, repaired=list(standing.repaired), runs=runs
    )
    lines += problem_lines(standing.problems, standing.next_action)
    return Answer(1 if errors else 0, document, tuple(lines))
