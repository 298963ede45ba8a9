"""The worktree of a worker: detached at its base, managed from outside."""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from workers.errors import WorkerError
from workers.files.read import read_whole
from workers.files.run_dir import read_json
from workers.git.metadata import module_directories
from workers.git.run import GitError, git

# Indexes with extras (split, untracked cache) cannot be copied and read elsewhere.
# All of a commit is in a tree, whatever part of it the user's checkout leaves out.
PLAIN_INDEX = (
    *("-c", "core.sparseCheckout=false"),
    *("-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.sparse=false"),
    *("-c", "worktree.useRelativePaths=false"),
)


BIG = 300_000
"""Bytes of an index above which another process removes a tree: ours would block its other threads."""


NO_ROOM = 1 << 20
"""Free bytes below which a disk counts as full: what git wrote until it failed is still there."""
LONGEST = 200
"""Characters of git's message that are shown."""


class Place(NamedTuple):
    """A worktree and the facts noted about it before the worker could touch it."""

    path: Path
    base: str
    """The commit that it was made at."""
    admin: Path
    """Its git metadata, in `<git common dir>/worktrees/`."""
    link: bytes
    """The content of its `.git` file."""
    index_copy: Path
    """Our copy of its index, out of the worker's reach."""

    def beside(self, what: str) -> Path:
        """Return the path of a file of ours about this worktree, beside the copy of its index."""
        return self.index_copy.with_name(f"{self.index_copy.name}.{what}")


class Start(NamedTuple):
    """The content of a tree when its worker began, where that was more than its base."""

    tree: str
    """All files that git does not ignore, as a tree object."""
    ignored: tuple[str, ...]


class Module(NamedTuple):
    """A submodule in a worktree, which is a worktree of its own repository."""

    path: str
    common: Path
    """The git common directory of the submodule, in the user's repository."""
    place: Place


def start_of(place: Place) -> Start | None:
    """Return what was added to a worktree before its worker began; None where nothing was."""
    found = read_json(place.beside("start"))
    return Start(found["tree"], tuple(found["ignored"])) if found else None


def modules_of(place: Place) -> tuple[Module, ...]:
    """Return the submodules of a worktree."""
    found = read_json(place.beside("modules"))
    return tuple(
        Module(
            one["path"],
            Path(one["common"]),
            _place_at(place.path / one["path"], one["base"], Path(one["admin"]), Path(one["index"])),
        )
        for one in (found["modules"] if found else ())
    )


def environments_of(place: Place) -> tuple[str, ...]:
    """Return the environments of the user's checkout that were laid into a tree: no change of anybody."""
    found = read_json(place.beside("environments"))
    return tuple(found["paths"]) if found else ()


def is_restored(place: Place) -> bool:
    """Return whether the work of an earlier attempt was put back into a tree that had gone."""
    return place.beside("restored").exists()


def make_place(
    root: Path, common: Path, path: Path, base: str, index: Path, *, options: Sequence[str] = ()
) -> Place:
    """Make a detached worktree of `base` and copy its index. Raises WorkerError with git's message.

    `options` are git's own, for example those that switch filters off.

    A half-made worktree of a killed runtime at `path` is removed first; anything else stays.
    Not by `git worktree add`: it reads the metadata of all worktrees, and fails if one appears or goes
    meanwhile. Here both halves are whole before they appear, each by one rename.
    """
    _clear_half_made(common, path)
    if path.exists() or path.is_symlink():
        raise WorkerError(f"no worktree: '{path}' already exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    index.parent.mkdir(parents=True, exist_ok=True)
    for earlier in ("start", "modules", "environments", "restored"):
        index.with_name(f"{index.name}.{earlier}").unlink(missing_ok=True)
    # Under names of their own until they are whole: the git of a killed runtime may still be writing.
    making = path.with_name(f".{path.name}.{os.getpid()}")
    metadata = index.with_name(f"{index.name}.{os.getpid()}.worktree")
    for fresh in (making, metadata):
        remove_tree(fresh)
        fresh.mkdir()
    where = {"GIT_DIR": str(common), "GIT_WORK_TREE": str(making), "GIT_INDEX_FILE": str(metadata / "index")}
    try:
        git(*PLAIN_INDEX, *options, "read-tree", "--reset", "-u", base, cwd=root, env=where)
    except GitError as error:
        why = _why(error, making, metadata)
        remove_tree(making)
        remove_tree(metadata)
        raise WorkerError(f"no worktree: {why}") from error
    place = _place_at(path, base, _known_at(path, base, metadata, index, common), index)
    (making / ".git").write_bytes(place.link)
    making.rename(path)
    return place


def _why(error: GitError, *folders: Path) -> str:
    """Return git's message in short: it names each file without room, not the full disk."""
    said = error.said if len(error.said) <= LONGEST else f"{error.said[:LONGEST]} …"
    with contextlib.suppress(OSError):
        if any(os.statvfs(one).f_bavail * os.statvfs(one).f_frsize < NO_ROOM for one in folders):
            return f"no space left on device: {said}"
    return said


def _known_at(path: Path, base: str, metadata: Path, index: Path, common: Path) -> Path:
    """Complete the metadata of a worktree and move it among the others; copy its index to `index`."""
    # The time of the copy must be that of the original: git takes entries as young as the index for dirty.
    shutil.copy2(metadata / "index", fresh := index.with_name(f"{index.name}.new"))
    fresh.replace(index)
    for name, text in (("HEAD", base), ("commondir", "../.."), ("gitdir", f"{path / '.git'}")):
        (metadata / name).write_bytes(os.fsencode(text) + b"\n")
    return _appear(metadata, common / "worktrees", path)


def _appear(metadata: Path, folder: Path, path: Path) -> Path:
    """Move a worktree's metadata among the others in one step; a run's id and a worker's name are unique."""
    stem = _stem_of(path)
    while True:
        free = (stem if number == 1 else f"{stem}.{number}" for number in itertools.count(1))
        admin = next(folder / name for name in free if not (folder / name).exists())
        folder.mkdir(exist_ok=True)
        try:
            metadata.rename(admin)
        except FileNotFoundError:
            # Any `git gc` removes the folder when it is empty, at any moment.
            if not metadata.exists():
                raise
        else:
            return admin


def _stem_of(path: Path) -> str:
    return f"{path.parent.name}.{path.name}"


def found_place(common: Path, path: Path, base: str, index: Path) -> Place | None:
    """Return the worktree of an earlier runtime; its `.git` file is not read, since a worker may own it."""
    if not path.is_dir() or not index.is_file():
        return None
    for admin in _pointing_at(common, path):
        return _place_at(path, base, admin, index)
    return None


def readopted_place(root: Path, common: Path, path: Path, base: str, index: Path) -> Place | None:
    """Return a worktree that was made elsewhere: its checkout was moved, or only `.taskers` was kept.

    Its metadata is made again where it was lost. None where there is no tree that we have made, or git does
    not have its base.
    """
    if not _was_made_by_us(path):
        return None
    admin = next(filter(partial(_has_left, path), _named_for(common, path)), None)
    if admin is None or not index.is_file():
        metadata = index.with_name(f"{index.name}.{os.getpid()}.worktree")
        remove_tree(metadata)
        metadata.mkdir(parents=True)
        try:
            # Without the times of any file: git then compares their contents.
            env = {"GIT_DIR": str(common), "GIT_INDEX_FILE": str(metadata / "index")}
            git(*PLAIN_INDEX, "read-tree", base, cwd=root, env=env)
        except GitError:
            remove_tree(metadata)
            return None
        admin = _known_at(path, base, metadata, index, common)
    else:
        _replace(admin / "gitdir", os.fsencode(path / ".git") + b"\n", admin)
    place = _place_at(path, base, admin, index)
    _replace(path / ".git", place.link, path)
    return place


def _was_made_by_us(path: Path) -> bool:
    """Return whether a folder is a worktree by the name of its metadata, wherever that was."""
    try:
        if path.is_symlink() or (path / ".git").is_symlink():
            return False
        folder, _, name = os.fsdecode(read_whole(path / ".git").strip()).rpartition("/")
    except OSError:
        return False
    return folder.startswith("gitdir: ") and folder.endswith("/worktrees") and _is_name_for(path, name)


def _has_left(path: Path, admin: Path) -> bool:
    """Return whether metadata is that of a worktree which is at `path` by now, and is in use nowhere else."""
    with contextlib.suppress(OSError):
        before = Path(os.fsdecode(read_whole(admin / "gitdir").strip()))
        if before.parts[-4:] != (path / ".git").parts[-4:]:
            return False
        with contextlib.suppress(OSError):
            return read_whole(before) != _link_to(admin)
        return True
    return False


def _replace(file: Path, data: bytes, beside: Path) -> None:
    """Replace a file in a folder in one step, from beside that folder: in it a worker may lay links."""
    fresh = beside.with_name(f".{beside.name}.{os.getpid()}.new")
    fresh.write_bytes(data)
    fresh.replace(file)


def _place_at(path: Path, base: str, admin: Path, index: Path) -> Place:
    return Place(path, base, admin, _link_to(admin), index)


def _link_to(admin: Path) -> bytes:
    return b"gitdir: " + os.fsencode(admin) + b"\n"


def remove_places_below(common: Path, folder: Path, kept: Collection[str] = ()) -> None:
    """Remove the worktrees in a folder, with their metadata, also half-made ones; `kept` names stay."""
    for directory in (common, *module_directories(common / "modules")):
        for pointer in (directory / "worktrees").glob("*/gitdir"):
            with contextlib.suppress(OSError):
                path = Path(os.fsdecode(read_whole(pointer).strip()))
                if folder in path.parents and path.relative_to(folder).parts[0] not in kept:
                    _vanish(pointer.parent, common / "orchestrate")
    if not kept:
        remove_tree(folder)
        return
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in kept:
            remove_tree(path)


def remove_tree(top: Path) -> None:
    """Remove a folder with everything below, also where a worker made folders unlistable."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(top, ignore_errors=True)
    if not top.is_dir() or top.is_symlink():
        return
    waiting = [str(top)]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
            with os.scandir(folder) as entries:
                waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    # Folders in folders until no path can name them: what Python would do by recursion, `rm` does flat.
    _remove_outside(top)


def remove_empty_folders(top: Path) -> None:
    """Remove the empty folders directly below one; a link is left alone."""
    try:
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in os.listdir(descriptor):  # noqa: PTH208 - of what was opened, whatever its path says by now
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _remove_outside(top: Path) -> None:
    subprocess.run(["rm", "-rf", "--", str(top)], capture_output=True, check=False)


def _clear_half_made(common: Path, path: Path) -> None:
    for admin in _pointing_at(common, path):
        remove_tree(path)
        _vanish(admin, common / "orchestrate")


def _pointing_at(common: Path, path: Path) -> list[Path]:
    """Return the metadata of the worktree at a path."""
    return [admin for admin in _named_for(common, path) if _points_at(admin / "gitdir", path)]


def _named_for(common: Path, path: Path) -> list[Path]:
    """Return the metadata with the name of the worktree at a path: to read all takes long."""
    try:
        names = sorted(os.listdir(common / "worktrees"))  # noqa: PTH208 - names are all that is looked at
    except FileNotFoundError:
        return []
    return [common / "worktrees" / name for name in names if _is_name_for(path, name)]


def _is_name_for(path: Path, name: str) -> bool:
    stem = _stem_of(path)
    return name == stem or name.startswith(f"{stem}.")


def _points_at(pointer: Path, path: Path) -> bool:
    with contextlib.suppress(OSError):  # another worktree may be on its way out
        return read_whole(pointer).strip() == os.fsencode(path / ".git")
    return False


def left_its_base(place: Place) -> str | None:
    """Describe what a worker did to its own git metadata, read as plain files; None if nothing."""
    link = f"{place.path}/.git"
    try:
        # Read each time: a write through a mapping, or behind a link, changes no status.
        if os.path.islink(link) or read_whole(link) != place.link:  # noqa: PTH114 - a thousand readers ask
            return ".git"
        if read_whole(f"{place.admin}/HEAD").strip() != place.base.encode():
            return "HEAD"
    except OSError:
        return ".git"
    return None


def remove_place(place: Place) -> None:
    """Remove a worktree and its metadata without running git in it; a missing one is no error."""
    for module in modules_of(place):
        remove_place(module.place)
    with contextlib.suppress(OSError):
        if place.index_copy.stat().st_size > BIG:
            _remove_outside(place.path)
    remove_tree(place.path)
    _vanish(place.admin, place.index_copy.parent)
    beside = (place.beside(name) for name in ("start", "modules", "environments", "restored"))
    for ours in (place.index_copy, *beside):
        ours.unlink(missing_ok=True)


def _vanish(admin: Path, aside: Path) -> None:
    """Remove a worktree's metadata from the others in one step: another git may be reading them."""
    gone = aside / f"{admin.name}.gone"
    remove_tree(gone)
    with contextlib.suppress(OSError):
        admin.rename(gone)
    remove_tree(gone)
    remove_tree(admin)
