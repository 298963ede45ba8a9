"""Old runs: which may be packed, which archives may be deleted, and why others stay."""

import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive import _pack
from orchestrator.archive._pack import GOING, KeptError, archive_of, folders_elsewhere, message_logs
from orchestrator.budget.totals import entries_of
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.packed_works import works_path
from orchestrator.runs.state import RunState, read_run
from tickets.problems import Problem
from workers.files.journal import read_journal
from workers.files.locks import held_folder, held_lock, is_locked
from workers.files.run_dir import ARCHIVE, RunDir, runs_of
from workers.git.run import Repository

_ARCHIVE_NAME = re.compile(r"([0-9]{8}_[0-9]{6}(?:_[0-9]+)?)\.tar\.gz")


class RetentionLimits(NamedTuple):
    """How much may be kept. Ages are seconds, sizes bytes; None where there is no such limit."""

    age: float | None = None
    keep: int | None = None
    """This many newest runs stay whatever the other limits are; as the only limit, all older ones go."""
    size: int | None = None
    """The bytes of the runs that stay: the oldest go until they fit."""


class OldRun(NamedTuple):
    """A run, with the reason why it stays; it goes where the reason is empty."""

    run: RunDir
    bytes: int
    """Its size, in its folder and elsewhere."""
    last: datetime
    """When something last happened in it."""
    reason: str = ""
    archive_bytes: int | None = None
    """The size of its archive, once it is packed."""

    @property
    def archive(self) -> str:
        """Return the path of its archive, relative to the root."""
        return self.run.relative(archive_of(self.run))


class PackedRun(NamedTuple):
    """An archive, with the reason why it stays; it may be deleted where the reason is empty."""

    run: RunDir
    bytes: int
    """What it takes, with messages of its run that are not in it."""
    reason: str = ""

    @property
    def archive(self) -> str:
        """Return its path, relative to the root."""
        return self.run.relative(archive_of(self.run))


def select_runs(repository: Repository, limits: RetentionLimits, at: datetime) -> list[OldRun]:
    """Examine every run, oldest first; a run that is still needed stays whatever the limits are."""
    runs = runs_of(repository.root)
    number = max(limits.keep or 0, 1)
    newest = {run.id for run in runs[-number:]}
    unsettled = _unsettled(repository, at)
    found: list[OldRun] = []
    for run in runs:
        reason = why_it_stays(run)
        if not reason and (str(run.root), run.id) in unsettled:
            reason = "what it cost today stands in its record alone, and counts until midnight (UTC)"
        if not reason and run.id in newest:
            reason = "is the newest" if number == 1 else f"is among the {number} newest"
        found.append(OldRun(run, _bytes_of_run(repository, run), _last_event(run), reason))
    left = sum(one.bytes for one in found)
    for place, one in enumerate(found):
        reason = one.reason or _within(one, limits, at, left)
        found[place] = one._replace(reason=reason)
        left -= 0 if reason else one.bytes
    return found


def why_it_stays(run: RunDir, *, is_held: bool = False) -> str:
    """Describe why a run or a process still needs it where it is; empty if nothing does.

    `is_held`: the caller holds its lock.
    """
    state = read_run(run)
    if state is None:
        return "cannot be read, so its content is not known"
    if not is_held and is_locked(run.path / "run.lock"):
        return "a process works on it"
    return _why_needed(state)


@contextmanager
def held_archive(repository: Repository) -> Iterator[bool]:
    """Hold the folder of the archives for the block, so that one process packs; yield whether it was free.

    Where it was, work that a crash interrupted is finished first.
    """
    folder = repository.root / ARCHIVE
    folder.mkdir(parents=True, exist_ok=True)
    with held_folder(folder, 0.0) as free:
        if free:
            _pack.clear_remains(repository)
        yield free


def pack_runs(repository: Repository, found: Iterable[OldRun]) -> tuple[list[OldRun], list[Problem]]:
    """Move the runs that may go into their archives, oldest first; a failure at one stops no other.

    Return all with their reasons of now, and what went wrong.
    """
    after, problems = [], []
    for one in found:
        done = one
        if not one.reason:
            try:
                done = one._replace(archive_bytes=_packed(repository, one.run))
            except KeptError as error:
                done = one._replace(reason=str(error))
            except OSError as error:
                reason = f"could not be moved: {(error.strerror or 'no reason given').lower()}"
                problems.append(
                    Problem(one.run.id, reason, "it is whole where it was; fix that and call again")
                )
                done = one._replace(reason=reason)
        after.append(done)
    return after, problems


def remains(repository: Repository) -> list[Problem]:
    """Describe the packed runs of which something could not be deleted."""
    what, do = (
        "its run is packed, and something of it could not be deleted",
        "call again, or check its permissions",
    )
    return [Problem(f"{ARCHIVE}/{path.name}", what, do, "warning") for path in _pack.remains(repository.root)]


def packed_runs(root: Path, age: timedelta, at: datetime) -> list[PackedRun]:
    """Examine every archive, oldest run first; those that were made longer ago than `age` may go."""
    found = []
    folder = root / ARCHIVE
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = _ARCHIVE_NAME.fullmatch(path.name)
        # A dry run holds no lock, and what was listed may be gone.
        with suppress(FileNotFoundError):
            if name and path.is_file():
                run = RunDir(root, name[1])
                size = path.stat().st_size + sum(log.stat().st_size for log in _unpacked_logs(run))
                found.append(PackedRun(run, size, _why_packed_stays(run, path, at - age)))
    return found


def delete_packed(one: PackedRun) -> None:
    """Delete an archive, and messages of its run from before they were packed. Raises OSError."""
    for log in _unpacked_logs(one.run):
        log.unlink(missing_ok=True)
    works_path(one.run).unlink(missing_ok=True)
    archive_of(one.run).unlink(missing_ok=True)


def began(run_id: str) -> datetime:
    """Return when a run began; a name without a time counts as newest, so that it stays."""
    try:
        return datetime.strptime(run_id[:15], "%Y%m%d_%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def bytes_of(folder: Path) -> int:
    """Sum up the files below a folder; what cannot be listed, or vanishes meanwhile, counts as nothing."""
    size, waiting = 0, [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def _packed(repository: Repository, run: RunDir) -> int:
    """Move a run into its archive; return the archive's bytes. Raises KeptError, OSError: nothing moved."""
    with held_lock(run.path / "run.lock") as free:
        if not free:
            raise KeptError("a process works on it")
        # Since it was selected, the lead may have decided something about it.
        if reason := why_it_stays(run, is_held=True):
            raise KeptError(reason)
        going = _pack.move(run)
    size = archive_of(run).stat().st_size
    _pack.drop(repository, run, going)
    return size


def _bytes_of_run(repository: Repository, run: RunDir) -> int:
    size = sum(bytes_of(folder) for folder in (run.path, *folders_elsewhere(repository, run)))
    for path in message_logs(run).values():
        with suppress(OSError):
            size += path.stat().st_size
    return size


def _last_event(run: RunDir) -> datetime:
    last = began(run.id)
    for record in read_journal(run.path / "events.jsonl"):
        with suppress(KeyError, TypeError, ValueError):
            last = datetime.fromisoformat(record["at"])
    return last


def _unsettled(repository: Repository, at: datetime) -> set[tuple[str, str]]:
    """Return the runs with an attempt of today whose cost the ledger knows from their records alone."""
    today = entries_of(repository.own / "spending" / f"{at.astimezone(UTC):%Y-%m-%d}.jsonl")
    return {(one.root, one.run_id) for one in today.values() if one.tokens is None}


def _why_needed(state: RunState) -> str:
    run = state.run
    if state.is_unfinished:
        step = next_of_run(state)
        return f"is {state.status()}: {f'`{step}`' if isinstance(step, str) else step.what}"
    for name, worker in state.workers.items():
        waits = worker.verdict == "pending" or state.is_to_land(name)
        if worker.evidence.files and waits and name not in state.landings:
            return f"the work of {name} has not landed: `orchestrate integrate {run.id}`"
    places = run.worktree("").parent / run.id
    with suppress(FileNotFoundError, NotADirectoryError):
        if kept := sorted(entry.name for entry in os.scandir(places)):
            path = run.relative(places / kept[0])
            return (
                f"the worktree of {kept[0]} is still there, and may hold what nothing else does: look, then"
                f" `git worktree remove --force {path}`"
            )
    return ""


def _within(one: OldRun, limits: RetentionLimits, at: datetime, left: int) -> str:
    """Describe the limits that a run is within; empty where it exceeds one."""
    age = (at - one.last).total_seconds()
    too_old = limits.age is not None and age > limits.age
    too_much = limits.size is not None and left > limits.size
    alone = limits.age is None and limits.size is None
    if too_old or too_much or alone:
        return ""
    return "is young enough" if limits.size is None else "is within the limits"


def _why_packed_stays(run: RunDir, path: Path, until: datetime) -> str:
    # A copy may have lost its time: one made later only stays longer, and none is older than its run.
    if max(datetime.fromtimestamp(path.stat().st_mtime, UTC), began(run.id)) >= until:
        return "is young enough"
    if path.with_name(f"{run.id}{GOING}").exists():
        return "something of its run could not be deleted yet, and is known by it"
    try:
        with tarfile.open(path, "r:gz") as tar:
            first = tar.next()
    except (tarfile.TarError, EOFError, OSError, ValueError):
        first = None
    return "" if first is not None and first.name == run.id else "is not a packed run: see what it is"


def _unpacked_logs(run: RunDir) -> list[Path]:
    """List the logs that go with an archive: a run that was unpacked again keeps its own."""
    return [] if run.path.exists() else list(message_logs(run).values())
