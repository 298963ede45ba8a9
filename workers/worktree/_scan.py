"""Entries of a worker's tree that git does not list or must not read; none of them is opened."""

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from workers.errors import WorkerError

_MOST = 16 * 2**20
"""The most bytes of a file that git reads as a whole."""
_READ_BY_GIT = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
_READ_IN_NESTED = ("HEAD", "commondir", "config", "config.worktree", "packed-refs")


class Scan(NamedTuple):
    """The result of a scan."""

    special: tuple[str, ...]
    """Pipes, sockets, devices."""
    nested: tuple[str, ...]
    """The `.git` of repositories inside."""
    files: frozenset[str] = frozenset()
    """Files and links, by path."""


def scan(tree: Path, pruned: Collection[str] = ()) -> Scan:
    """Scan a tree by names and types alone; unlistable folders are made listable.

    Raises WorkerError where git would open a pipe, and so wait for ever, or where a path is too long.
    """
    special: list[str] = []
    nested: list[str] = []
    files: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for entry in _entries(tree, below):
            path = f"{below}{entry.name}"
            if entry.name == ".git":
                if below:
                    _refuse_trap(Path(entry.path), path)
                    nested.append(path)
            elif entry.is_dir(follow_symlinks=False):
                if f"{path}/" not in pruned:
                    waiting.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                files.append(path)
                if entry.name in _READ_BY_GIT and entry.stat(follow_symlinks=False).st_size > _MOST:
                    raise WorkerError(f"{path}: is too large to be read; its changes were not taken")
            elif entry.is_symlink():
                files.append(path)
            else:
                if entry.name in _READ_BY_GIT:
                    raise WorkerError(f"{path}: is not a regular file; its changes were not taken")
                special.append(path)
    return Scan(tuple(sorted(special)), tuple(sorted(nested)), frozenset(files))


def _entries(tree: Path, below: str) -> Iterator["os.DirEntry[str]"]:
    folder = f"{tree}/{below}"
    try:
        found = os.scandir(folder)
    except PermissionError:
        Path(folder).chmod(0o700)
        found = os.scandir(folder)
    except OSError as error:
        words = (error.strerror or "cannot be listed").lower()
        raise WorkerError(f"{below[:80]}…: {words}; its changes were not taken") from error
    with found:
        yield from found


def _refuse_trap(dot_git: Path, path: str) -> None:
    """Refuse a `.git` in which git would wait at a pipe."""
    for name in _READ_IN_NESTED:
        try:
            # Through links too: a link to a pipe is read like the pipe.
            mode = (dot_git / name).stat().st_mode
        except OSError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise WorkerError(f"{path}/{name}: is not a regular file; its changes were not taken")


def files_below(root: Path, entry: str) -> Iterator[str]:
    """Yield the files of an untracked entry; `x/` is a nested repository, whose files count too."""
    if not entry.endswith("/"):
        yield entry
        return
    for folder, names, files in os.walk(root / entry):
        names[:] = [name for name in names if name != ".git"]
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        there = (Path(folder) / name for name in (*files, *links) if name != ".git")
        yield from (os.path.relpath(path, root) for path in there)
