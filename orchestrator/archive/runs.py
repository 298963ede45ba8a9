"""Which old runs may leave `.taskers/runs`, and why each of the others stays; reads, and changes nothing."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive._run_data import bytes_beside, bytes_of
from orchestrator.budget.totals import entries_of
from orchestrator.runs.state import RunState, read_run
from workers.files.journal import read_journal
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir, runs_of
from workers.git.run import Repository


class Limits(NamedTuple):
    """How much may stay. Ages are seconds, sizes bytes; None where there is no such limit."""

    age: float | None = None
    keep: int | None = None
    """The newest so many stay whatever the other limits say; alone, all older ones go."""
    size: int | None = None
    """Of the runs that stay: the oldest go until it holds."""


class OldRun(NamedTuple):
    """One run, and why it stays; it goes where there is no reason."""

    run: RunDir
    bytes: int
    """What it takes, in its folder and elsewhere."""
    last: datetime
    """When something last happened in it."""
    reason: str = ""


def sorted_out(repository: Repository, limits: Limits, at: datetime) -> list[OldRun]:
    """Look at every run, oldest first; one of which something may come stays whatever the limits are."""
    runs = runs_of(repository.root)
    number = max(limits.keep or 0, 1)
    newest = {run.id for run in runs[-number:]}
    unsettled = _unsettled(repository, at)
    found: list[OldRun] = []
    for run in runs:
        last, reason = _facts(run)
        if not reason and (str(run.root), run.id) in unsettled:
            reason = "what it cost today stands in its record alone, and counts until midnight (UTC)"
        if not reason and run.id in newest:
            reason = "is the newest" if number == 1 else f"is among the {number} newest"
        found.append(OldRun(run, bytes_of(run.path) + bytes_beside(repository, run), last, reason))
    left = sum(one.bytes for one in found)
    for place, one in enumerate(found):
        reason = one.reason or _within(one, limits, at, left)
        found[place] = one._replace(reason=reason)
        left -= 0 if reason else one.bytes
    return found


def why_it_stays(run: RunDir, *, mine: bool = False) -> str:
    """Say what may still come of a run, or who needs it where it is; empty where nobody does.

    `mine`: it is the caller who holds its lock.
    """
    state = read_run(run)
    if state is None:
        return "cannot be read, so nobody knows what it holds"
    if not mine and is_locked(run.path / "run.lock"):
        return "a process works on it"
    return _why(state)


def began(run_id: str) -> datetime:
    """Give when a run began; a name that says no time is as young as can be, so that it stays."""
    try:
        return datetime.strptime(run_id[:15], "%Y%m%d_%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def files_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Give what is below a folder, links and empty folders too: relative path and size."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                    yield path, 0
                else:
                    is_file = entry.is_file(follow_symlinks=False)
                    yield path, entry.stat(follow_symlinks=False).st_size if is_file else 0


def _facts(run: RunDir) -> tuple[datetime, str]:
    last = began(run.id)
    for record in reversed(read_journal(run.path / "events.jsonl")):
        with suppress(KeyError, TypeError, ValueError):
            last = datetime.fromisoformat(record["at"])
            break
    return last, why_it_stays(run)


def _unsettled(repository: Repository, at: datetime) -> set[tuple[str, str]]:
    """Name the runs with an attempt of today whose cost the ledger knows from their records alone."""
    today = entries_of(repository.own / "spending" / f"{at.astimezone(UTC):%Y-%m-%d}.jsonl")
    return {(one.root, one.run_id) for one in today.values() if one.tokens is None}


def _why(state: RunState) -> str:
    run = state.run
    if state.is_unfinished:
        return f"is {state.status()}: `{state.next_action()}`"
    for name, worker in state.workers.items():
        waits = worker.verdict == "pending" or state.is_to_land(name)
        if worker.evidence.files and waits and name not in state.landings:
            return f"the work of {name} has not landed: `orchestrate integrate {run.id}`"
    places = run.worktree("").parent / run.id
    with suppress(FileNotFoundError, NotADirectoryError):
        if kept := sorted(entry.name for entry in os.scandir(places)):
            return f"the worktree of {kept[0]} is still there, and may hold what nothing else does"
    return ""


def _within(one: OldRun, limits: Limits, at: datetime, left: int) -> str:
    """Say which limits a run is within; empty where it is beyond one of them."""
    age = (at - one.last).total_seconds()
    too_old = limits.age is not None and age > limits.age
    too_much = limits.size is not None and left > limits.size
    alone = limits.age is None and limits.size is None
    if too_old or too_much or alone:
        return ""
    return "is young enough" if limits.size is None else "is within the limits"
