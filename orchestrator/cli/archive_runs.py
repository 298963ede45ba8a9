"""`orchestrate archive --runs`: old runs leave `.taskers/runs`, and each that stays says why."""

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.old_runs import Limits, OldRun, sorted_out
from orchestrator.packing import ARCHIVE, KeptError, archive_of, clear_remains, held_archive, pack
from orchestrator.refusal import HELD, Refusal
from tickets.problems import Problem
from workers.git import Repository
from workers.output import RUNS

SHOWN = 20
"""Runs that a person is shown by name before the rest is counted."""


def answer_runs(
    arguments: argparse.Namespace, repository: Repository, at: datetime, default: timedelta
) -> Answer:
    """Say which runs go, and move them unless it is a dry run. Raises Refusal."""
    if arguments.keep is not None and arguments.keep < 1:
        raise Refusal(Problem("--keep", "the newest run always stays", "write 1 or more"))
    limits = _limits(arguments, default)
    problems: list[Problem] = []
    root = repository.root
    if arguments.dry_run or not (root / RUNS).is_dir():
        found = sorted_out(repository, limits, at)
        packed: dict[str, int] = {}
    else:
        with held_archive(root) as free:
            if not free:
                what = "another process packs runs into it"
                raise Refusal(Problem(ARCHIVE, what, "wait until it is done"), exit_code=HELD)
            clear_remains(repository)
            found, packed = _pack(repository, sorted_out(repository, limits, at), problems)
    left = sum(one.bytes for one in found if one.reason)
    if limits.size is not None and left > limits.size:
        what = f"the runs that stay take {_size(left)}, and {_size(limits.size)} were allowed"
        problems.append(Problem(".taskers/runs", what, "see why each of them stays", "warning"))
    return _answered(arguments, found, packed, problems)


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


def _answered(
    arguments: argparse.Namespace, found: Sequence[OldRun], packed: dict[str, int], problems: list[Problem]
) -> Answer:
    moved = [
        {"kind": "run", "what": one.run.id, "to": one.run.relative(archive_of(one.run)), "bytes": one.bytes,
         "archive_bytes": packed.get(one.run.id)}
        for one in found if not one.reason
    ]  # fmt: skip
    kept = [{"run": one.run.id, "reason": one.reason, "bytes": one.bytes} for one in found if one.reason]
    errors = any(problem.severity == "error" for problem in problems)
    next_action = "orchestrate status"
    if arguments.dry_run and moved:
        next_action = _again(arguments)
    document = envelope(
        problems, next_action, ok=not errors, dry_run=arguments.dry_run,
        moved=moved, kept=kept, bytes=sum(one["bytes"] for one in moved),
    )  # fmt: skip
    lines = [clean(line) for line in _lines(document)]
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))


def _again(arguments: argparse.Namespace) -> str:
    from orchestrator.cli.archive import spelled  # noqa: PLC0415 - that module imports this one

    said = "orchestrate archive --runs"
    said += f" --older-than {spelled(arguments.older_than)}" if arguments.older_than is not None else ""
    said += f" --keep {arguments.keep}" if arguments.keep is not None else ""
    return said + (f" --max-size {arguments.max_size}" if arguments.max_size is not None else "")


def _lines(document: dict[str, Any]) -> list[str]:
    verb = "would move" if document["dry_run"] else "moved"
    moved, kept = document["moved"], document["kept"]
    lines = [f"{verb:<11} {one['what']} ({_size(one['bytes'])}) -> {one['to']}" for one in moved[:SHOWN]]
    if len(moved) > SHOWN:
        lines.append(f"{'':<11} and {len(moved) - SHOWN} more")
    lines += [f"stays       {one['run']} ({_size(one['bytes'])}): {one['reason']}" for one in kept[:SHOWN]]
    if len(kept) > SHOWN:
        reasons = Counter(one["reason"] for one in kept[SHOWN:])
        lines += [f"{'':<11} and {number} more: {reason}" for reason, number in reasons.items()]
    runs = f"{len(moved)} run{'' if len(moved) == 1 else 's'}"
    return [*lines, f"{runs}, {_size(document['bytes'])}" if moved else "no run is to go"]


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"
