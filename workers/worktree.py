"""A place for a worker: a detached worktree at its base, looked after from outside."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from workers.agents import WorkerError
from workers.git import GitError, git

# Indexes with extras (split, untracked cache) cannot be copied and read elsewhere.
PLAIN_INDEX = ("-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.sparse=false")


class Place(NamedTuple):
    """A worktree and what we noted about it before the worker could touch it."""

    path: Path
    base: str
    """The commit it stands at."""
    admin: Path
    """Its git metadata, in `<git common dir>/worktrees/`."""
    link: bytes
    """What its `.git` file said."""
    index_copy: Path
    """Our copy of its index, out of the worker's reach."""


def make_place(root: Path, common: Path, path: Path, base: str, index: Path) -> Place:
    """Make a detached worktree of `base` and copy its index. Raises WorkerError with git's words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    index.parent.mkdir(parents=True, exist_ok=True)
    try:
        git(*PLAIN_INDEX, "worktree", "add", "--quiet", "--detach", str(path), base, cwd=root)
    except GitError as error:
        raise WorkerError(f"no worktree: {error.said}") from error
    link = (path / ".git").read_bytes()
    admin = Path(os.fsdecode(link.removeprefix(b"gitdir: ").strip()))
    # Git would look for a repository further up if this worktree did not stand on its own.
    if admin.parent != common / "worktrees" or not _points_at(admin / "gitdir", path):
        raise WorkerError(f"no worktree: git made {path}, but it does not stand on its own")
    shutil.copyfile(admin / "index", index)
    # The time of the copy must be that of the original: git takes entries as young as the index for dirty.
    times = (admin / "index").stat()
    os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))
    return Place(path, base, admin, link, index)


def found_place(common: Path, path: Path, base: str, index: Path) -> Place | None:
    """Give the place that an earlier runtime made; its `.git` file is not asked, a worker may own it."""
    if not path.is_dir() or not index.is_file():
        return None
    for pointer in sorted((common / "worktrees").glob("*/gitdir")):
        if _points_at(pointer, path):
            return Place(path, base, pointer.parent, b"gitdir: " + os.fsencode(pointer.parent) + b"\n", index)
    return None


def _points_at(pointer: Path, path: Path) -> bool:
    return pointer.read_bytes().strip() == os.fsencode(path / ".git")


def left_its_base(place: Place) -> str | None:
    """Say what a worker did to its own git metadata, read as plain files; None if nothing."""
    try:
        if (place.path / ".git").is_symlink() or (place.path / ".git").read_bytes() != place.link:
            return ".git"
        if (place.admin / "HEAD").read_bytes().strip() != place.base.encode():
            return "HEAD"
    except OSError:
        return ".git"
    return None


def remove_place(place: Place) -> None:
    """Remove a worktree and its metadata without asking git to look into it; what is gone is gone."""
    for top in (place.path, place.admin):
        # A worker may have left directories that cannot be listed or written.
        shutil.rmtree(top, onerror=_make_removable)
    place.index_copy.unlink(missing_ok=True)


def _make_removable(_function: object, path: str, _error: object) -> None:
    parent = Path(path).parent
    if not Path(path).exists() and not Path(path).is_symlink():
        return
    parent.chmod(0o700)
    if Path(path).is_dir() and not Path(path).is_symlink():
        Path(path).chmod(0o700)
        shutil.rmtree(path)
    else:
        Path(path).unlink()
