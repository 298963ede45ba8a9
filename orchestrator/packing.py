"""One old run to one archive: whole in `.taskers/runs` or whole in `.taskers/archive`, whatever kills us.

The archive is written beside its name, read back, and linked to its name; only then does the folder go, first
out of `.taskers/runs` in one move, then for good. A folder without an archive is never deleted.
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.old_runs import files_below, why_it_stays
from workers.output import RunDir, held_folder, held_lock
from workers.worktree import remove_tree

ARCHIVE = ".taskers/archive"
_GOING = ".going"
_MAKING = ".making"
_LEVEL = 6


class KeptError(Exception):
    """A run that stays where it is after all; says why."""


def archive_of(run: RunDir) -> Path:
    """Name the archive of a run."""
    return run.root / ARCHIVE / f"{run.id}.tar.gz"


@contextmanager
def held_archive(root: Path) -> Iterator[bool]:
    """Hold the folder of the archives for the block, so that one process packs: gives whether it was free."""
    folder = root / ARCHIVE
    folder.mkdir(parents=True, exist_ok=True)
    with held_folder(folder, 0.0) as free:
        yield free


def pack(run: RunDir) -> int:
    """Move a run into its archive; give the bytes of that. Raises KeptError or OSError: it has not moved."""
    with held_lock(run.path / "run.lock") as free:
        if not free:
            raise KeptError("a process works on it")
        # Since it was looked at, somebody may have had a word with it.
        if reason := why_it_stays(run, mine=True):
            raise KeptError(reason)
        archive = archive_of(run)
        archive.parent.mkdir(parents=True, exist_ok=True)
        if not archive.exists():
            _write(run, archive)
        going = archive.with_name(f"{run.id}{_GOING}")
        run.path.rename(going)
        if _listed(archive, run.id) != dict(files_below(going)):
            going.rename(run.path)
            raise KeptError(f"`{ARCHIVE}/{archive.name}` holds something else; move that away first")
    remove_tree(going)
    return archive.stat().st_size


def clear_remains(root: Path) -> None:
    """Finish what a crash left: folders whose archive is there, archives that were not yet whole."""
    folder = root / ARCHIVE
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in list(folder.iterdir()):
            if path.name.endswith(_MAKING):
                path.unlink(missing_ok=True)
            elif path.name.endswith(_GOING):
                _finish(RunDir(root, path.name.removesuffix(_GOING)), path)


def _finish(run: RunDir, going: Path) -> None:
    """Delete what was being deleted, or put it back: what goes must be in the archive, to the byte."""
    left = dict(files_below(going)).items()
    if left <= _listed(archive_of(run), run.id).items():
        remove_tree(going)
    elif not run.path.exists():
        going.rename(run.path)


def _write(run: RunDir, archive: Path) -> None:
    making = archive.with_name(f"{archive.name}.{os.getpid()}{_MAKING}")
    try:
        with tarfile.open(making, "x:gz", compresslevel=_LEVEL) as tar:
            tar.add(run.path, run.id)
        with making.open("rb") as file:
            os.fsync(file.fileno())
        if _listed(making, run.id) != dict(files_below(run.path)):
            raise KeptError("changed while it was packed")
        os.link(making, archive)
        _sync(archive.parent)
    except (tarfile.TarError, FileExistsError) as error:
        raise KeptError(f"cannot be packed: {error}") from error
    finally:
        making.unlink(missing_ok=True)


def _listed(archive: Path, run_id: str) -> dict[str, int]:
    """Read an archive to its end; give what it holds of a run."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            return {
                member.name.removeprefix(f"{run_id}/"): member.size if member.isreg() else 0
                for member in tar
                if member.name != run_id
            }
    except (tarfile.TarError, EOFError, OSError, ValueError):
        return {"": -1}


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
