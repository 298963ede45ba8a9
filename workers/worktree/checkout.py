"""A worker's tree, set up: checked out, with its submodules, filtered files, copied files and links."""

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tickets.scopes.scope import Scope
from workers.errors import WorkerError
from workers.git.run import GitError, Repository, git_fields
from workers.worktree.changes import Checker
from workers.worktree.submodules import bring_modules
from workers.worktree.worktree import Place, make_place, remove_place

_WILD = set("*?[{\\")


class Furniture(NamedTuple):
    """The files that are added to every tree."""

    copied: tuple[str, ...] = ()
    """Patterns of untracked files."""
    linked: tuple[str, ...] = ()
    """Paths of untracked files and folders."""


class Made(NamedTuple):
    """A new tree, before any worker."""

    place: Place
    missing: tuple[str, ...]
    """Requested links without a target."""


def make_tree(
    repository: Repository, checker: Checker, path: Path, base: str, index: Path, *, furniture: Furniture
) -> Made:
    """Make a worktree of `base` as the user would have it. Raises WorkerError, and then leaves nothing."""
    root, common = repository
    place = make_place(root, common, path, base, index, options=checker.filters.switched_off)
    try:
        checker.write_filtered(place)
        bring_modules(root, common, place)
        return Made(place, _bring(root, place.path, furniture))
    except GitError as error:
        remove_place(place)
        raise WorkerError(f"no worktree: {error.said}") from error
    except (WorkerError, OSError):
        remove_place(place)
        raise


def _bring(root: Path, tree: Path, furniture: Furniture) -> tuple[str, ...]:
    """Copy and link files into a new tree; return the links without a target.

    Raises WorkerError where git tracks something at the path: a tracked file must not be hidden.
    """
    for path in _untracked(root, furniture.copied):
        _copy(root, tree, path)
    missing = []
    for text in furniture.linked:
        if _WILD & set(text):
            paths = sorted(found.relative_to(root).as_posix() for found in root.glob(text.strip("/")))
        else:
            paths = [text.strip("/")]
        missing += [] if paths else [text]
        for path in paths:
            _link(root, tree, path, missing)
    return tuple(missing)


def _link(root: Path, tree: Path, path: str, missing: list[str]) -> None:
    if path.split("/", maxsplit=1)[0] == ".taskers":
        return
    if not os.path.lexists(root / path):
        missing.append(path)
    elif os.path.lexists(tree / path):
        raise WorkerError(f"[worktree] link: '{path}' is there already, git tracks it; take it out")
    else:
        _room_for(tree, path).symlink_to(root / path)


def _untracked(root: Path, patterns: Sequence[str]) -> list[str]:
    """List the user's files that git does not track, ignored or not, and that a pattern covers."""
    if not patterns:
        return []
    scope = Scope.of(patterns)
    found = git_fields("ls-files", "-o", "-z", "--", *_pathspecs(patterns), cwd=root)
    return [path for path in found if not path.startswith(".taskers/") and scope.covers(path)]


def _pathspecs(patterns: Iterable[str]) -> list[str]:
    """Return the folders in which git searches: a `.env` needs no walk through all of `node_modules`."""
    found = []
    for pattern in patterns:
        names = [name for name in pattern.split("/") if name not in ("", ".")]
        fixed = []
        for name in names:
            if _WILD & set(name) or name == "..":
                break
            fixed.append(name)
        found.append(f":(top,literal){'/'.join(fixed)}")
    return found


def _copy(root: Path, tree: Path, path: str) -> None:
    source = root / path
    mode = source.lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return
    place = _room_for(tree, path)
    if os.path.lexists(place):
        return  # git tracks it by now: another worker has made it
    shutil.copy2(source, place, follow_symlinks=False)


def _room_for(tree: Path, path: str) -> Path:
    """Make the folders above a path; a link among them, which a worker may have landed, leads elsewhere."""
    place = tree
    for name in Path(path).parts[:-1]:
        place /= name
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            raise WorkerError(
                f"[worktree]: '{path}' has no place, '{place.relative_to(tree)}' is not a folder"
            )
        place.mkdir(exist_ok=True)
    return tree / path
