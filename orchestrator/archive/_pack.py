"""Packing of one run: it is whole in `.taskers/runs` or whole in `.taskers/archive`, also after a kill.

The archive is written beside its name, read back, and linked to its name. Only then does the folder go: out
of `.taskers/runs` in one rename, then for good, after all that the run has elsewhere. A folder without an
archive is never deleted. The run's message logs are packed as `RUN/messages/*`. What it has made of its
tickets is kept beside the archive, for the plans of later runs.
"""

import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.runs import scopes_in_use
from orchestrator.runs.kept_refs import drop_refs
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.packed import PACK
from orchestrator.runs.packed_works import TICKETS
from orchestrator.runs.state import read_run
from orchestrator.runs.works import keep_works
from workers.files.durable import created
from workers.files.run_dir import ARCHIVE, RunDir
from workers.git.run import GitError, Repository
from workers.worktree.worktree import remove_tree

GOING = ".going"
"""Suffix of a folder that is packed and about to be deleted."""
MESSAGES = "messages"
"""The folder of the message logs, below `.taskers` and in the archive of a run."""
PLACES = ("scratch", "homes")
"""Folders below `.taskers` with one folder for each run, of which nothing is packed."""
_UNFINISHED = (".tmp", ".making")
"""Suffixes of archives that a kill cut short; the second is that of earlier versions."""
_LEVEL = 6


class KeptError(Exception):
    """Raised for a run that cannot be moved, with the reason."""


def archive_of(run: RunDir) -> Path:
    """Return the path of a run's archive."""
    return run.root / ARCHIVE / f"{run.id}{PACK}"


def message_logs(run: RunDir) -> dict[str, Path]:
    """Find the message logs of a run, by their names in its archive."""
    start, found = f"{run.id}.", {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(_taskers(run) / MESSAGES) as entries:
        for entry in entries:
            is_log = entry.name.startswith(start) and entry.name.endswith(".jsonl")
            if is_log and entry.is_file(follow_symlinks=False):
                found[f"{MESSAGES}/{entry.name}"] = Path(entry.path)
    return dict(sorted(found.items()))


def folders_elsewhere(repository: Repository, run: RunDir) -> Iterator[Path]:
    """Yield the folders that a run may have outside its own."""
    yield from (_taskers(run) / place / run.id for place in PLACES)
    yield repository.own / "runs" / run.id


def move(run: RunDir) -> Path:
    """Move a run, whose lock is held, into its archive; return the folder that `drop` is to delete.

    Raises KeptError or OSError: it has not moved.
    """
    archive = archive_of(run)
    archive.parent.mkdir(parents=True, exist_ok=True)
    logs = message_logs(run)
    if both := [name for name in logs if (run.path / name).exists()]:
        raise KeptError(f"has `{both[0]}` twice, in its folder and in `.taskers`; move one away first")
    if not archive.exists():
        _write(run, logs, archive)
    _keep_works(run)
    going = archive.with_name(f"{run.id}{GOING}")
    run.path.rename(going)
    if _listed(archive, run.id) != _contents(going, logs):
        going.rename(run.path)
        raise KeptError(f"`{ARCHIVE}/{archive.name}` holds something else; move that away first")
    return going


def drop(repository: Repository, run: RunDir, going: Path) -> None:
    """Delete the rest of a packed run; what cannot be deleted stays for the next call."""
    with suppress(OSError):
        for path in message_logs(run).values():
            path.unlink(missing_ok=True)
        for folder in folders_elsewhere(repository, run):
            remove_tree(folder)
        with suppress(OSError):
            (_taskers(run) / "worktrees" / run.id).rmdir()
        # Of a process that was about to judge the run once more, and was refused because it is being packed.
        scopes_in_use.drop(repository, run)
        # A run that was cancelled still has some; one that is locked at this moment is garbage then.
        with suppress(GitError):
            drop_refs(repository, run.id)
        # Last: by it the next call knows what to delete.
        remove_tree(going)


def remains(root: Path) -> list[Path]:
    """List the folders of packed runs of which something could not yet be deleted."""
    try:
        return sorted(path for path in (root / ARCHIVE).iterdir() if path.name.endswith(GOING))
    except (FileNotFoundError, NotADirectoryError):
        return []


def clear_remains(repository: Repository) -> None:
    """Finish after a crash: delete folders whose archive is there, and archives that are not whole."""
    folder = repository.root / ARCHIVE
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(folder.iterdir()):
            works_of_none = path.name.endswith(TICKETS) and not _pack_beside(path).exists()
            if path.name.endswith(_UNFINISHED) or works_of_none:
                path.unlink(missing_ok=True)
    for going in remains(repository.root):
        run = RunDir(repository.root, going.name.removesuffix(GOING))
        with suppress(OSError):  # one that cannot be finished stops no other
            # What is deleted must be in the archive, to the byte.
            if _contents(going, message_logs(run)).items() <= _listed(archive_of(run), run.id).items():
                drop(repository, run, going)
            elif not run.path.exists():
                going.rename(run.path)


def _keep_works(run: RunDir) -> None:
    state = read_run(run)
    with suppress(Refusal):  # a manifest that cannot be read proves nothing where it is, either
        if state is not None:
            keep_works(state, read_manifest(run))


def _pack_beside(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix(TICKETS)}{PACK}")


def files_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the entries below a folder, with links and empty folders: relative path and size."""
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


def _contents(folder: Path, logs: Mapping[str, Path]) -> dict[str, int]:
    """List the content of a run's archive: relative path to size."""
    found = dict(files_below(folder))
    found.update({MESSAGES: 0} if logs else {})
    return {**found, **{name: path.stat().st_size for name, path in logs.items()}}


def _write(run: RunDir, logs: Mapping[str, Path], archive: Path) -> None:
    try:
        with created(archive) as file:
            with tarfile.open(fileobj=file, mode="x:gz", compresslevel=_LEVEL) as tar:
                tar.add(run.path, run.id)
                if logs and not (run.path / MESSAGES).is_dir():
                    tar.add(_taskers(run) / MESSAGES, f"{run.id}/{MESSAGES}", recursive=False)
                for name, path in logs.items():
                    tar.add(path, f"{run.id}/{name}")
            file.flush()
            if _listed(Path(file.name), run.id) != _contents(run.path, logs):
                raise KeptError("changed while it was packed")
    except (tarfile.TarError, FileExistsError) as error:
        raise KeptError(f"cannot be packed: {error}") from error


def _listed(archive: Path, run_id: str) -> dict[str, int]:
    """Read an archive to its end; list what it holds of a run."""
    found: dict[str, int] = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                size = member.size if member.isreg() else 0
                if member.islnk():
                    # A second name of one file, as answers are of streams: its content is at the first.
                    size = found[member.linkname.removeprefix(f"{run_id}/")]
                if member.name != run_id:
                    found[member.name.removeprefix(f"{run_id}/")] = size
    except (tarfile.TarError, EOFError, OSError, ValueError, KeyError):
        return {"": -1}
    return found


def _taskers(run: RunDir) -> Path:
    return run.root / ".taskers"
