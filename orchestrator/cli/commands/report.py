"""`orchestrate report`: the seven sections, printed, kept with the newest run, and the same as JSON."""

import argparse

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import lead_of, now, repository_of
from orchestrator.cli.verifying import add_verify_arguments, run_checks
from orchestrator.report.gather import gather
from orchestrator.report.status_report import as_json, report_on
from orchestrator.report.text import keep_report, text_of
from orchestrator.runs.state import unfinished_runs
from orchestrator.settings.settings import read_settings
from tickets.problems import Problem
from workers.errors import WorkerError

NAMES = ("smoke", "unit", "integration", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `report` takes."""
    parser.add_argument("--for", default="the user", metavar="NAME", dest="reader", help="who reads it")
    parser.add_argument("--lead", help="who leads (default: git's user.name)")
    add_verify_arguments(parser, "run all checks first")


def answer(arguments: argparse.Namespace) -> Answer:
    """Give account of the project."""
    repository, at = repository_of(arguments), now()
    problems: list[Problem] = []
    if arguments.verify:
        try:
            settings = read_settings(repository.root)
            problems += run_checks(repository, settings, NAMES, at, arguments.timeout)
        except WorkerError as error:
            problems.append(Problem("[checks]", str(error), "`orchestrate doctor` says more"))
    found = gather(repository, at)
    waiting = tuple(unfinished_runs(repository.root))
    report = report_on(found, arguments.reader, lead_of(arguments, repository), waiting)
    problems += found.problems
    written = keep_report(repository, report, at)
    errors = any(problem.severity == "error" for problem in problems)
    next_action = report.active_work.command
    document = envelope(problems, next_action, ok=not errors, report=as_json(report), written=written)
    lines = [clean(line) for line in text_of(report).splitlines()]
    lines += ["", f"written to {written}"] if written else []
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))
