"""`orchestrate archive --runs`: old runs leave `.taskers/runs`, and each that stays says why."""

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta

from orchestrator.archive.garbage import Garbage, collect, find
from orchestrator.archive.runs import OldRun, RetentionLimits, held_archive, pack_runs, remains, select_runs
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.commands._archived_text import lines_of, size_of, spelled
from orchestrator.errors import HELD, Refusal
from tickets.problems import Problem
from workers.files.run_dir import ARCHIVE, RUNS
from workers.git.run import Repository


def answer_runs(
    arguments: argparse.Namespace, repository: Repository, at: datetime, default: timedelta
) -> Answer:
    """Say which runs go, and move them unless it is a dry run. Raises Refusal."""
    if arguments.keep is not None and arguments.keep < 1:
        what = "the newest run always stays: `status`, `report` and `last` are about it"
        raise Refusal(Problem("--keep", what, "write 1 or more"))
    limits = _limits(arguments, default)
    problems: list[Problem] = []
    found: list[OldRun] = []
    if arguments.dry_run:
        found = select_runs(repository, limits, at)
        deleted = find(repository, at, going=[one.run for one in found if not one.reason])
    elif any((repository.root / folder).is_dir() for folder in (RUNS, ARCHIVE)):
        with held_archive(repository) as free:
            refuse_busy(free=free)
            found, failed = pack_runs(repository, select_runs(repository, limits, at))
            deleted, left_over = collect(repository, at)
            problems += [*failed, *left_over, *remains(repository)]
    else:
        deleted, problems = collect(repository, at)
    left = sum(one.bytes for one in found if one.reason)
    if limits.size is not None and left > limits.size:
        what = f"the runs that stay take {size_of(left)}, and {size_of(limits.size)} were allowed"
        problems.append(Problem(".taskers/runs", what, "see why each of them stays", "warning"))
    return _answered(arguments, found, deleted, problems)


def refuse_busy(*, free: bool) -> None:
    """Raise Refusal where another process packs, or deletes what is packed."""
    if not free:
        what = "another process packs runs into it"
        raise Refusal(Problem(ARCHIVE, what, "wait until it is done"), exit_code=HELD)


def _limits(arguments: argparse.Namespace, default: timedelta) -> RetentionLimits:
    age = default if arguments.older_than is not None else None
    if age is None and arguments.keep is None and arguments.max_size is None:
        age = default
    return RetentionLimits(None if age is None else age.total_seconds(), arguments.keep, arguments.max_size)


def _answered(
    arguments: argparse.Namespace, found: Sequence[OldRun], deleted: Sequence[Garbage],
    problems: list[Problem],
) -> Answer:  # fmt: skip
    moved = [
        {"kind": "run", "what": one.run.id, "to": one.archive, "bytes": one.bytes,
         "archive_bytes": one.archive_bytes}
        for one in found if not one.reason
    ]  # fmt: skip
    kept = [{"run": one.run.id, "reason": one.reason, "bytes": one.bytes} for one in found if one.reason]
    errors = any(problem.severity == "error" for problem in problems)
    next_action = "orchestrate status"
    if arguments.dry_run and (moved or deleted):
        next_action = _again(arguments)
    document = envelope(
        problems, next_action, ok=not errors, dry_run=arguments.dry_run, moved=moved, kept=kept,
        deleted=[{"what": one.what, "reason": one.reason, "bytes": one.bytes} for one in deleted],
        bytes=sum(one.bytes for one in found if not one.reason) + sum(one.bytes for one in deleted),
    )  # fmt: skip
    lines = [clean(line) for line in lines_of(document)]
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))


def _again(arguments: argparse.Namespace) -> str:
    said = "orchestrate archive --runs"
    said += f" --older-than {spelled(arguments.older_than)}" if arguments.older_than is not None else ""
    said += f" --keep {arguments.keep}" if arguments.keep is not None else ""
    return said + (f" --max-size {arguments.max_size}" if arguments.max_size is not None else "")
