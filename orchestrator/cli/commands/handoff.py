"""`orchestrate handoff`: what a new lead needs, written and committed; `--check` only looks."""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import lead_of, now, repository_of
from orchestrator.cli.commands.report import NAMES
from orchestrator.cli.verifying import add_verify_arguments, run_checks
from orchestrator.report.gather import STATE_FILES, gather
from orchestrator.report.handoff import Point, path_of, points_of, status_at_handoff, tests_line, text_of
from orchestrator.report.status_report import report_on
from orchestrator.report.summary import step_of
from orchestrator.report.text import keep_report
from orchestrator.runs.state import unfinished_runs
from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.status.read import PATH, refuse_doubts
from orchestrator.state.document import present
from orchestrator.store.read import read_state
from orchestrator.store.store import Store, Texts
from tickets.problems import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `handoff` takes."""
    parser.add_argument("--check", action="store_true", help="only say what a new lead would miss")
    parser.add_argument("--lead", help="who hands over (default: git's user.name)")
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    add_verify_arguments(parser, "run all checks first")


def answer(arguments: argparse.Namespace) -> Answer:
    """Check the eight points; write the handoff, and commit it with whatever state is not committed."""
    repository, at = repository_of(arguments), now()
    settings = read_settings(repository.root)
    if not arguments.check:
        # A new lead must not be told that there is nothing, where it only could not be read.
        refuse_doubts(present(PATH, read_state(repository.root, PATH)))
    problems: list[Problem] = []
    if arguments.verify:
        problems += run_checks(repository, settings, NAMES, at, arguments.timeout)
    found = gather(repository, at)
    waiting = tuple(unfinished_runs(repository.root))
    points = points_of(found, waiting)
    step = step_of(found, waiting)
    grade: Any = "error" if arguments.check else "warning"
    problems += found.problems
    problems += [Problem(PATH, f"{one.point}: {one.missing}", one.do, grade) for one in points if one.missing]
    written, kept, changed, commit = None, None, [], None
    if not arguments.check:
        report = report_on(found, "the next lead", lead_of(arguments, repository), waiting)
        path, tests = path_of(repository.root, at), tests_line(found.figures)
        kept = keep_report(repository, report, at)
        text = text_of(found, report, points, step, kept=kept)

        def handed_over(texts: Texts) -> Mapping[str, bytes]:
            status = status_at_handoff(present(PATH, texts[PATH]), at, tests)
            return {PATH: status, path: text.encode()}

        done = Store(repository).change(
            handed_over,
            paths=(path,),
            also=[name for name in STATE_FILES if name in found.uncommitted],
            message=f"Hand over: {step.p0 or step.command}\n\nNext: {step.command}\n",
            commit=settings.git.commit != "never" and not arguments.no_commit,
        )
        written, changed, commit = path, list(done.changed), done.commit
        problems += done.problems
    errors = any(problem.severity == "error" for problem in problems)
    document = envelope(
        problems, step.command, ok=not errors, points=[_shown(one) for one in points],
        next=step._asdict(), written=written, report=kept, changed=changed, commit=commit,
    )  # fmt: skip
    return Answer(1 if errors else 0, document, (*_lines(document), *problem_lines(problems, step.command)))


def _shown(one: Point) -> dict[str, Any]:
    return {"point": one.point, "ok": not one.missing, "missing": one.missing}


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"[{'x' if one['ok'] else ' '}] {one['point']}" for one in document["points"]]
    if document["written"]:
        lines += ["", f"written       {document['written']}"]
        lines += [f"report        {document['report']}"] if document["report"] else []
        lines.append(f"commit        {document['commit'][:10]}" if document["commit"] else "not committed")
    return [clean(line) for line in lines]
