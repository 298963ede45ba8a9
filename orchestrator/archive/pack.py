"""One old run to one archive: whole in `.taskers/runs` or whole in `.taskers/archive`, whatever kills us.

The archive is written beside its name, read back, and linked to its name; only then does the folder go, first
out of `.taskers/runs` in one move, then for good, after all that the run had elsewhere. A folder without an
archive is never deleted. The run's message logs are packed as `RUN/messages/*`.
"""

import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.archive._run_data import MESSAGES, drop_beside, message_logs, taskers
from orchestrator.archive.runs import files_below, why_it_stays
from workers.files.locks import held_folder, held_lock
from workers.files.run_dir import ARCHIVE, RunDir
from workers.git.run import Repository
from workers.worktree.worktree import remove_tree

GOING = ".going"
"""How the name of a folder ends that is packed and about to be deleted."""
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


def pack(repository: Repository, run: RunDir) -> int:
    """Move a run into its archive; give the bytes of that. Raises KeptError or OSError: it has not moved."""
    with held_lock(run.path / "run.lock") as free:
        if not free:
            raise KeptError("a process works on it")
        # Since it was looked at, somebody may have had a word with it.
        if reason := why_it_stays(run, mine=True):
            raise KeptError(reason)
        archive = archive_of(run)
        archive.parent.mkdir(parents=True, exist_ok=True)
        logs = message_logs(run)
        if both := [name for name in logs if (run.path / name).exists()]:
            raise KeptError(f"has `{both[0]}` twice, in its folder and in `.taskers`; move one away first")
        if not archive.exists():
            _write(run, logs, archive)
        going = archive.with_name(f"{run.id}{GOING}")
        run.path.rename(going)
        if _listed(archive, run.id) != _contents(going, logs):
            going.rename(run.path)
            raise KeptError(f"`{ARCHIVE}/{archive.name}` holds something else; move that away first")
    size = archive.stat().st_size
    _drop(repository, run, going)
    return size


def remains(root: Path) -> list[Path]:
    """List the folders of runs that are packed, and of which something could not yet be deleted."""
    try:
        return sorted(path for path in (root / ARCHIVE).iterdir() if path.name.endswith(GOING))
    except (FileNotFoundError, NotADirectoryError):
        return []


def clear_remains(repository: Repository) -> None:
    """Finish what a crash left: folders whose archive is there, archives that were not yet whole."""
    folder = repository.root / ARCHIVE
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(folder.iterdir()):
            if path.name.endswith(_MAKING):
                path.unlink(missing_ok=True)
    for path in remains(repository.root):
        with suppress(OSError):  # one that cannot be finished keeps no other from it
            _finish(repository, RunDir(repository.root, path.name.removesuffix(GOING)), path)


def _finish(repository: Repository, run: RunDir, going: Path) -> None:
    """Delete what was being deleted, or put it back: what goes must be in the archive, to the byte."""
    left = _contents(going, message_logs(run)).items()
    if left <= _listed(archive_of(run), run.id).items():
        _drop(repository, run, going)
    elif not run.path.exists():
        going.rename(run.path)


def _drop(repository: Repository, run: RunDir, going: Path) -> None:
    # The run has moved, whatever goes wrong now. The folder last: by it the next call knows what is to go.
    with suppress(OSError):
        drop_beside(repository, run)
        remove_tree(going)


def _contents(folder: Path, logs: Mapping[str, Path]) -> dict[str, int]:
    """Give what is to be in the pack of a run: relative path and size."""
    found = dict(files_below(folder))
    found.update({MESSAGES: 0} if logs else {})
    return {**found, **{name: path.stat().st_size for name, path in logs.items()}}


def _write(run: RunDir, logs: Mapping[str, Path], archive: Path) -> None:
    making = archive.with_name(f"{archive.name}.{os.getpid()}{_MAKING}")
    try:
        with tarfile.open(making, "x:gz", compresslevel=_LEVEL) as tar:
            tar.add(run.path, run.id)
            if logs and not (run.path / MESSAGES).is_dir():
                tar.add(taskers(run) / MESSAGES, f"{run.id}/{MESSAGES}", recursive=False)
            for name, path in logs.items():
                tar.add(path, f"{run.id}/{name}")
        with making.open("rb") as file:
            os.fsync(file.fileno())
        if _listed(making, run.id) != _contents(run.path, logs):
            raise KeptError("changed while it was packed")
        os.link(making, archive)
        _sync(archive.parent)
    except (tarfile.TarError, FileExistsError) as error:
        raise KeptError(f"cannot be packed: {error}") from error
    finally:
        making.unlink(missing_ok=True)


def _listed(archive: Path, run_id: str) -> dict[str, int]:
    """Read an archive to its end; give what it holds of a run."""
    found: dict[str, int] = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                size = member.size if member.isreg() else 0
                if member.islnk():
                    # A second name of one file, as answers are of streams: its content stands at the first.
                    size = found[member.linkname.removeprefix(f"{run_id}/")]
                if member.name != run_id:
                    found[member.name.removeprefix(f"{run_id}/")] = size
    except (tarfile.TarError, EOFError, OSError, ValueError, KeyError):
        return {"": -1}
    return found


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
