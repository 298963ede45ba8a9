"""A worker's tree, set up: checked out, with its submodules, filtered files, copied files and links."""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tickets.scopes.scope import Scope
from tickets.wording import some_of
from workers.errors import WorkerError
from workers.files.run_dir import create_json
from workers.git.run import GitError, Repository, git_fields
from workers.worktree.changes import Checker
from workers.worktree.environments import overlaid
from workers.worktree.submodules import bring_modules
from workers.worktree.worktree import Place, make_place, remove_place

_WILD = set("*?[{\\")
_MISSED = re.compile(
    r"no such file|not found|cannot (?:find|open)|can't (?:open|find)|does not exist|no module named|ENOENT",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"Cannot find (?:module|package) '[^./]")
_LONGEST = 1000
_MODULE = re.compile(r"No module named '([\w.]+)'")
_WORDS = re.compile(r"[\w@%+./-]+")


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
        missing, environments = _bring(root, place, furniture)
        if environments:
            create_json(place.beside("environments"), {"paths": environments})
        return Made(place, missing)
    except GitError as error:
        remove_place(place)
        raise WorkerError(f"no worktree: {error.said}") from error
    except (WorkerError, OSError):
        remove_place(place)
        raise


def brought_paths(root: Path, furniture: Furniture) -> list[str]:
    """Return the paths that are linked into every tree, and the environments that are copied."""
    scope = Scope.of(furniture.copied)
    places = [found.parent for found in root.glob("*/pyvenv.cfg") if furniture.copied]
    copied = [place.name for place in places if scope.covers(f"{place.name}/pyvenv.cfg")]
    return [*_linked(root, furniture.linked)[0], *copied]


def _bring(root: Path, made: Place, furniture: Furniture) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy and link files into a new tree; return the links without a target, and the environments.

    Raises WorkerError where git tracks something at the path: a tracked file must not be hidden.
    """
    tree, links = made.path, made.index_copy.with_name("links")
    environments = []
    copied = _untracked(root, furniture.copied)
    for path in copied:
        _copy(root, tree, path)
    for path in dict.fromkeys(top for path in copied if (top := _environment_of(path))):
        environments += [path] if overlaid(root, tree, path, links) else []
    paths, missing = _linked(root, furniture.linked)
    for path in paths:
        if os.path.lexists(tree / path):
            raise WorkerError(f"[worktree] link: '{path}' is there already, git tracks it; take it out")
        place = _room_for(tree, path)
        if overlaid(root, tree, path, links):
            environments.append(path)
        elif place.name.startswith(".pnp."):
            shutil.copy2(root / path, place)  # it finds the packages of the project from its real path
        else:
            place.symlink_to(root / path)
    return tuple(missing), tuple(environments)


def lacks(root: Path, tree: Path, cwd: str, text: str) -> str:
    """Describe what a failed command missed in its tree and the checkout has, by what it said; else `""`."""
    if not _MISSED.search(text):
        return ""
    # A word without a dot or a slash is seldom a file.
    found = {word.rstrip(".").removeprefix(f"{tree}/") for word in _WORDS.findall(text)}
    words = {word for word in found if {".", "/"} & set(word)}
    named = [os.path.normpath(os.path.join(cwd, word)) for word in words]  # noqa: PTH118 - a text
    for name in _MODULE.findall(text):
        path = name.replace(".", "/")
        globs = [f"{base}{path}{suffix}" for base in ("", "src/") for suffix in ("", ".py", ".*.so")]
        named += [found.relative_to(root).as_posix() for one in globs for found in root.glob(one)]
    if _PACKAGE.search(text):
        named.append("node_modules")
    missed = sorted({top for path in named if (top := _missed(root, tree, path))})
    tracked = git_fields("ls-files", "-z", "--", *_pathspecs(missed), cwd=root) if missed else []
    only = [one for one in missed if not any(path == one or path.startswith(f"{one}/") for path in tracked)]
    if not only:
        return ""
    are, them = ("is", "it") if len(only) == 1 else ("are", "them")
    do = f"name {them} in `[worktree] link` or `copy`, or commit {them}"
    return f"{some_of(only)} {are} only in your checkout; {do}"


def _missed(root: Path, tree: Path, path: str) -> str:
    """Return the part of a path that the tree lacks and the checkout has; empty where that is not so."""
    parts = path.split("/")
    if parts[0] in ("", "..", ".", ".git", ".taskers") or len(path) > _LONGEST:
        return ""
    tops = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    top = next((one for one in tops if not os.path.lexists(tree / one)), "")
    return top if top and os.path.lexists(root / path) else ""


def _linked(root: Path, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the paths to link, those above others first, and the patterns without a target."""
    paths: set[str] = set()
    missing = []
    for text in patterns:
        plain = text.strip("/")
        if _WILD & set(text):
            found = [one.relative_to(root).as_posix() for one in root.glob(plain)]
        else:
            found = [plain] if os.path.lexists(root / plain) else []
        is_ours = plain.split("/", maxsplit=1)[0] == ".taskers"
        missing += [] if found or is_ours else [text]
        paths.update(path for path in found if path.split("/", maxsplit=1)[0] != ".taskers")
    return sorted(paths, key=lambda path: (path.count("/"), path)), missing


def _environment_of(path: str) -> str:
    """Return the environment that a file of it shows; empty for any other file."""
    folder, _, name = path.rpartition("/")
    top, found, _ = f"/{path}".partition("/node_modules/")
    return folder if name == "pyvenv.cfg" else f"{top}{found}".strip("/") if found else ""


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
