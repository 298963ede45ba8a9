"""`orchestrate archive --runs`: old runs leave `.taskers/runs`, and each that stays says why."""

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta

from orchestrator.archive.check_results import old_checks
from orchestrator.archive.garbage import Leftover, drop, leftovers
from orchestrator.archive.ledger_days import drop_days, old_days
from orchestrator.archive.pack import KeptError, archive_of, clear_remains, held_archive, pack, remains
from orchestrator.archive.runs import Limits, OldRun, sorted_out
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
    packed: dict[str, int] = {}
    if arguments.dry_run:
        found = sorted_out(repository, limits, at)
        going = [one.run for one in found if not one.reason]
        deleted = [*leftovers(repository, at), *old_checks(repository, at), *old_days(repository, at, going)]
    elif any((repository.root / folder).is_dir() for folder in (RUNS, ARCHIVE)):
        with held_archive(repository.root) as free:
            refuse_busy(free=free)
            clear_remains(repository)
            found, packed = _pack(repository, sorted_out(repository, limits, at), problems)
            deleted = _dropped(repository, at, problems)
            problems += remaining(repository)
    else:
        found, deleted = [], _dropped(repository, at, problems)
    left = sum(one.bytes for one in found if one.reason)
    if limits.size is not None and left > limits.size:
        what = f"the runs that stay take {size_of(left)}, and {size_of(limits.size)} were allowed"
        problems.append(Problem(".taskers/runs", what, "see why each of them stays", "warning"))
    return _answered(arguments, found, packed, deleted, problems)


def refuse_busy(*, free: bool) -> None:
    """Refuse to go on beside another process that packs, or deletes what is packed. Raises Refusal."""
    if not free:
        what = "another process packs runs into it"
        raise Refusal(Problem(ARCHIVE, what, "wait until it is done"), exit_code=HELD)


def remaining(repository: Repository) -> list[Problem]:
    """Say of which runs something is still there, though they are packed."""
    what, do = (
        "its run is packed, and something of it could not be deleted",
        "call again, or see to its rights",
    )
    return [Problem(f"{ARCHIVE}/{path.name}", what, do, "warning") for path in remains(repository.root)]


def _limits(arguments: argparse.Namespace, default: timedelta) -> Limits:
    age = default if arguments.older_than is not None else None
    if age is None and arguments.keep is None and arguments.max_size is None:
        age = default
    return Limits(None if age is None else age.total_seconds(), arguments.keep, arguments.max_size)


def _pack(
    repository: Repository, found: Sequence[OldRun], problems: list[Problem]
) -> tuple[list[OldRun], dict[str, int]]:
    """Move those that may go, oldest first; whatever stops one of them stops none of the others."""
    after: list[OldRun] = []
    packed: dict[str, int] = {}
    for one in found:
        reason = one.reason
        if not reason:
            try:
                packed[one.run.id] = pack(repository, one.run)
            except KeptError as error:
                reason = str(error)
            except OSError as error:
                reason = f"could not be moved: {(error.strerror or 'no reason given').lower()}"
                problems.append(Problem(one.run.id, reason, "it is whole where it was; see to it"))
        after.append(one._replace(reason=reason))
    return after, packed


def _dropped(repository: Repository, at: datetime, problems: list[Problem]) -> list[Leftover]:
    """Delete what nobody needs, now that the runs have gone."""
    gone = []
    for one in (*leftovers(repository, at), *old_checks(repository, at)):
        if drop(repository, one):
            gone.append(one)
        else:
            problems.append(Problem(one.what, "cannot be deleted", "see to its rights", "warning"))
    days = drop_days(repository, at)
    if days is None:
        what = "another process holds the ledger: its old days stay"
        problems.append(Problem(".git/orchestrate/spending", what, "call again", "warning"))
    return [*gone, *(days or ())]


def _answered(
    arguments: argparse.Namespace, found: Sequence[OldRun], packed: dict[str, int],
    deleted: Sequence[Leftover], problems: list[Problem],
) -> Answer:  # fmt: skip
    moved = [
        {"kind": "run", "what": one.run.id, "to": one.run.relative(archive_of(one.run)), "bytes": one.bytes,
         "archive_bytes": packed.get(one.run.id)}
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
