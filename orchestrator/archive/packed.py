"""Runs that are packed: which archives are old enough to be deleted, where a lead asks for that."""

import re
import tarfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive._run_data import message_logs
from orchestrator.archive.pack import GOING, archive_of
from orchestrator.archive.runs import began
from workers.files.run_dir import ARCHIVE, RunDir

_NAME = re.compile(r"([0-9]{8}_[0-9]{6}(?:_[0-9]+)?)\.tar\.gz")


class Packed(NamedTuple):
    """One archive, and why it stays; it goes where there is no reason."""

    run: RunDir
    bytes: int
    """What it takes, with messages of its run that are not in it."""
    reason: str = ""


def packed_runs(root: Path, age: timedelta, at: datetime) -> list[Packed]:
    """Look at every archive, oldest run first; those that were made longer ago than `age` may go."""
    found = []
    folder = root / ARCHIVE
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = _NAME.fullmatch(path.name)
        # Whoever only looks holds no lock, and what was listed may be gone.
        with suppress(FileNotFoundError):
            if name and path.is_file():
                run = RunDir(root, name[1])
                size = path.stat().st_size + sum(log.stat().st_size for log in _logs(run))
                found.append(Packed(run, size, _why(run, path, at - age)))
    return found


def delete_packed(one: Packed) -> None:
    """Delete an archive, and messages of its run from before they were packed. Raises OSError."""
    for log in _logs(one.run):
        log.unlink(missing_ok=True)
    archive_of(one.run).unlink(missing_ok=True)


def _why(run: RunDir, path: Path, until: datetime) -> str:
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


def _logs(run: RunDir) -> list[Path]:
    """Give the logs that go with an archive: a run that was brought back keeps its own."""
    return [] if run.path.exists() else list(message_logs(run).values())
