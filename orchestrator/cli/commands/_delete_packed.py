"""`orchestrate archive --runs --delete-packed`: old archives are deleted, and nothing is packed."""

import argparse
from datetime import datetime
from typing import Any

from orchestrator.archive.runs import PackedRun, delete_packed, held_archive, packed_runs, remains
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.commands._archive_runs import refuse_busy
from orchestrator.cli.commands._archived_text import lines_of, spelled
from orchestrator.errors import Refusal
from tickets.problems import Problem
from workers.files.run_dir import ARCHIVE
from workers.git.run import Repository


def answer_packed(arguments: argparse.Namespace, repository: Repository, at: datetime) -> Answer:
    """Say which archives go, and delete them unless it is a dry run. Raises Refusal."""
    _refuse_limits(arguments)
    root, age = repository.root, arguments.older_than
    problems: list[Problem] = []
    if arguments.dry_run or not (root / ARCHIVE).is_dir():
        found = packed_runs(root, age, at)
    else:
        # It makes a run whole in one place that was being packed.
        with held_archive(repository) as free:
            refuse_busy(free=free)
            problems += remains(repository)
            found = [_deleted(one, problems) for one in packed_runs(root, age, at)]
    return _answered(arguments, found, problems)


def _refuse_limits(arguments: argparse.Namespace) -> None:
    if arguments.older_than is None:
        what = "deletes for good, so it is not left to a default what goes"
        raise Refusal(Problem("--delete-packed", what, "say how old: `--older-than 180d`"))
    for option, value in (("--keep", arguments.keep), ("--max-size", arguments.max_size)):
        if value is not None:
            raise Refusal(Problem(option, "is about runs that are not packed", "leave it out"))


def _deleted(one: PackedRun, problems: list[Problem]) -> PackedRun:
    if one.reason:
        return one
    try:
        delete_packed(one)
    except OSError as error:
        reason = f"could not be deleted: {(error.strerror or 'no reason given').lower()}"
        problems.append(Problem(one.archive, reason, "fix that and call again"))
        return one._replace(reason=reason)
    return one


def _answered(arguments: argparse.Namespace, found: list[PackedRun], problems: list[Problem]) -> Answer:
    deleted: list[dict[str, Any]] = [
        {"what": one.archive, "reason": "it is old enough", "bytes": one.bytes}
        for one in found if not one.reason
    ]  # fmt: skip
    kept = [{"run": one.run.id, "reason": one.reason, "bytes": one.bytes} for one in found if one.reason]
    next_action = "orchestrate status"
    if arguments.dry_run and deleted:
        next_action = (
            f"orchestrate archive --runs --delete-packed --older-than {spelled(arguments.older_than)}"
        )
    errors = any(problem.severity == "error" for problem in problems)
    document = envelope(
        problems, next_action, ok=not errors, dry_run=arguments.dry_run, moved=[], kept=kept, deleted=deleted,
        bytes=sum(one["bytes"] for one in deleted),
    )  # fmt: skip
    lines = [clean(line) for line in lines_of(document, "archive")]
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))
