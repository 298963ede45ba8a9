"""What a run has outside its folder, and what goes with it: messages, scratch, homes, workings beside git."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.kept_refs import drop_refs
from workers.files.run_dir import RunDir
from workers.git.run import GitError, Repository
from workers.worktree.worktree import remove_tree

MESSAGES = "messages"
"""The folder of the message logs, below `.taskers` and in the pack of a run."""
PLACES = ("scratch", "homes")
"""Folders below `.taskers` with one folder for each run, of which nothing is packed."""


def message_logs(run: RunDir) -> dict[str, Path]:
    """Give the message logs of a run, by their names in its pack."""
    start = f"{run.id}."
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(taskers(run) / MESSAGES) as entries:
        for entry in entries:
            is_log = entry.name.startswith(start) and entry.name.endswith(".jsonl")
            if is_log and entry.is_file(follow_symlinks=False):
                found[f"{MESSAGES}/{entry.name}"] = Path(entry.path)
    return dict(sorted(found.items()))


def bytes_beside(repository: Repository, run: RunDir) -> int:
    """Add up what a run takes outside its folder."""
    sizes = [0]
    for path in message_logs(run).values():
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return sum(sizes) + sum(bytes_of(folder) for folder in _folders(repository, run))


def drop_beside(repository: Repository, run: RunDir) -> None:
    """Delete what a run has elsewhere, once its messages are packed; twice is fine. Raises OSError."""
    for path in message_logs(run).values():
        path.unlink(missing_ok=True)
    for folder in _folders(repository, run):
        remove_tree(folder)
    with suppress(OSError):
        (taskers(run) / "worktrees" / run.id).rmdir()
    # Left by who was about to judge the run once more, and was refused since it goes.
    holding.drop(repository, run)
    # One that was cancelled still holds some; one that is locked now is a leftover then.
    with suppress(GitError):
        drop_refs(repository, run.id)


def bytes_of(folder: Path) -> int:
    """Add up the files below a folder; what cannot be listed, or goes meanwhile, counts as nothing."""
    size, waiting = 0, [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def taskers(run: RunDir) -> Path:
    """Give the folder that a run's own lies in."""
    return run.root / ".taskers"


def _folders(repository: Repository, run: RunDir) -> Iterator[Path]:
    yield from (taskers(run) / place / run.id for place in PLACES)
    yield repository.own / "runs" / run.id
