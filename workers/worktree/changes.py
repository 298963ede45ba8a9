"""The changes of a worker, found without its `.git`, index or config: those may run its code in ours."""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workers.errors import WorkerError
from workers.files.durable import create_file, create_from, private
from workers.files.run_dir import create_json, read_json
from workers.git.run import GitError, git, git_fields, git_into, git_line
from workers.worktree._filters import Filters
from workers.worktree._git_config import config_text, drivers_among, settings_of
from workers.worktree._scan import files_below, scan
from workers.worktree.change import ABSENT, WHO, Change
from workers.worktree.submodules import gitlinks
from workers.worktree.worktree import (
    Module,
    Place,
    Start,
    environments_of,
    left_its_base,
    modules_of,
    start_of,
)

_NUMBERS = itertools.count()
"""Of scratch files: a process may look at a run's trees before its runtime does, in the same folder."""
LOOSE = 24
"""Below how many objects the commits of a landing are loose."""
PATIENCE = 600.0
"""Seconds that git may take in a worker's tree: whatever blocks it there, it ends."""
PATCH_FORM = (
    *("-p", "--binary", "--full-index", "--no-renames"),
    *("--no-ext-diff", "--no-textconv", "--no-color"),
)
"""The options of a diff that makes a patch which loses nothing."""


class Found(NamedTuple):
    """All changes of a worker in its worktree."""

    changes: tuple[Change, ...]
    ignored: tuple[str, ...]
    """Ignored files that it made; they are not in the patch."""
    special: tuple[str, ...] = ()
    """Pipes, sockets and devices, which cannot land."""
    inside: tuple[str, ...] = ()
    """Paths in submodules: they are another repository's."""


class NewCommit(NamedTuple):
    """A commit to be made: its changes of the one before it."""

    message: str
    author: str
    """Name, address, seconds and zone, as in a commit object."""
    committer: str
    changes: tuple[Change, ...]


class _Taken(NamedTuple):
    """The staged part of a tree."""

    differs: bool
    ignored: tuple[str, ...]
    new: frozenset[str]
    """Files that git did not know."""


class _Listed(NamedTuple):
    """The paths of a tree."""

    known: set[str]
    """Tracked, and in the tree (a sparse checkout may omit some)."""
    changed: list[str]
    untracked: list[str]
    """Not ignored; `x/` is a repository inside."""


class _Patch(NamedTuple):
    """A patch that git has written already, into a file of ours."""

    path: Path
    offset: int
    """The offset in the file where it begins."""


class _Made(NamedTuple):
    """A patch that was made when changes were listed."""

    changes: tuple[Change, ...]
    patch: _Patch


class Checker:
    """Git with a directory of its own: the user's objects, no foreign configuration, its own indexes."""

    def __init__(self, common: Path, directory: Path, root: Path | None = None) -> None:
        """Accept the user's git common directory, a directory of ours beside it, and the user's checkout.

        Without the checkout files are not filtered: there is nowhere to run the user's filters.
        """
        self._common = common
        self._root = root
        self.directory = directory
        self._bare = directory / "git"
        self._indexes: dict[str, Path] = {}
        self._patches: dict[Path, _Made] = {}
        """By the worker's tree, the last patch of its changes."""
        self._making = threading.Lock()
        self._filters: Filters | None = None

    @property
    def filters(self) -> Filters:
        """Return the user's filters, as they were when the directory was made."""
        if self._filters is None:
            known = read_json(self.directory / "filters.json") or {}
            config = (self._bare / "config").read_text()
            self._filters = Filters(self._root, self._common, self.directory / "filters", config, known)
        return self._filters

    def prepare(self) -> None:
        """Make the directory; does nothing where it is already made."""
        if (self._bare / "config").exists():
            return
        for name in ("objects", "refs", "info"):
            (self._bare / name).mkdir(parents=True, exist_ok=True)
        (self._bare / "HEAD").write_text("ref: refs/heads/none\n")
        for name in ("exclude", "attributes"):
            theirs = self._common / "info" / name
            if theirs.is_file():
                (self._bare / "info" / name).write_bytes(theirs.read_bytes())
        known = settings_of(self._common)
        with contextlib.suppress(FileExistsError):
            create_json(self.directory / "filters.json", drivers_among(known))
        with contextlib.suppress(FileExistsError):
            create_file(self._bare / "config", os.fsencode(config_text(known)))

    def write_filtered(self, place: Place) -> None:
        """Write the filtered files again, in a tree that was checked out without filters. Raises GitError."""
        self.filters.write_out(place, self._env(place.index_copy, place.path))

    def settle(self, place: Place) -> None:
        """Record the content of a tree before its worker begins, as the start of its changes."""
        env = self._env(self._scratch_index("settle"), place.path)
        index = Path(env["GIT_INDEX_FILE"])
        try:
            shutil.copy2(place.index_copy, index)
            taken = self._taken(place, env, None, scan(place.path).files)
            if taken.new:
                _refuse_lost(taken.new, git_fields("ls-files", "-z", cwd=place.path, env=env))
            tree = git_line("write-tree", cwd=place.path, env=env) if taken.differs else place.base
            facts = {"tree": tree, "ignored": taken.ignored}
            create_json(place.beside("start"), facts)
            index.replace(place.index_copy)
        except GitError as error:
            raise WorkerError(f"its tree could not be read: {error.said}") from error
        finally:
            index.unlink(missing_ok=True)

    def look(self, place: Place, patch_cap: int) -> Found:
        """Return all differences from the base. Raises WorkerError if they cannot be read or are too large.

        It changes nothing, so it may be called again after a stop.
        """
        start = start_of(place)
        found = scan(place.path, start.ignored if start else ())
        env = self._env(self._scratch_index("look"), place.path)
        index = Path(env["GIT_INDEX_FILE"])
        try:
            # With its times: git takes entries as young as their index for dirty.
            shutil.copy2(place.index_copy, index)
            inside = self._inside(place, patch_cap)
            differs, ignored, new = self._taken(place, env, patch_cap, found.files)
            changes = self._staged(place, env, start, new) if differs else ()
        except GitError as error:
            raise WorkerError(f"its changes could not be read: {error.said}") from error
        finally:
            index.unlink(missing_ok=True)
        modules = tuple(f"{module.path}/" for module in modules_of(place))
        nested = tuple(f"{path}/" for path in found.nested if not path.startswith(modules))
        special = tuple(path for path in found.special if not path.startswith(modules))
        known = start.ignored if start else ()
        ignored = (*(path for path in ignored if path not in known), *nested)
        return Found(changes, ignored, special, inside)

    def _staged(
        self, place: Place, env: Mapping[str, str], start: Start | None, new: frozenset[str]
    ) -> tuple[Change, ...]:
        """Return the staged differences as changes of the base, without what the tree had from its start."""
        if start is None:
            changes = self._compared(place, env)
        else:
            changes = self.changes(start.tree, git_line("write-tree", cwd=place.path, env=env))
        _refuse_lost(new, (change.path for change in changes))
        if start is not None and start.tree != place.base:
            return self._of_base(changes, place.base)
        return tuple(changes)

    def _of_base(self, changes: Sequence[Change], base: str) -> tuple[Change, ...]:
        """Return the differences from the start as changes of the base, from which a patch is made."""
        there = self.entries(base) if changes else {}
        found = []
        for change in changes:
            mode, sha = there.get(change.path, (ABSENT, "0" * len(change.new_sha)))
            if (mode, sha) != (change.new_mode, change.new_sha):
                found.append(change._replace(old_mode=mode, old_sha=sha))
        return tuple(found)

    def _taken(
        self, place: Place, env: Mapping[str, str], patch_cap: int | None, there: frozenset[str]
    ) -> "_Taken":
        """Stage all differences from an index; `there` are the files of the tree."""
        left_out = tuple(word for path in environments_of(place) for word in ("-x", f"/{literal(path)}"))
        known, changed, untracked = _list_paths(place, self._common, env, there, left_out)
        if changed and (untouched := self.filters.untouched(place)):
            changed = [path for path in changed if path not in untouched]
        new = [path for entry in untracked for path in files_below(place.path, entry)]
        ignored: tuple[str, ...] = ()
        if not there - known <= set(new):
            # Called only where there is something: it is one more start of git, and one more scan.
            ask = ("ls-files", "-o", "-i", "--exclude-standard", *left_out, "--directory", "-z")
            ignored = tuple(git_fields(*ask, cwd=place.path, env=env, patience=PATIENCE))
        if not changed and not new:
            # Most workers only read: they leave the base, and no more need be asked.
            return _Taken(differs=False, ignored=ignored, new=frozenset())
        size = sum(_size(place.path / path) for path in (*changed, *new))
        if patch_cap is not None and size > patch_cap:
            raise WorkerError(f"its changes are {size:,} bytes, more than patch_cap ({patch_cap:,} bytes)")
        self._stage(place, env, [*changed, *new])
        there = frozenset(path for path in new if _is_file(place.path, path))
        return _Taken(differs=True, ignored=ignored, new=there)

    def _inside(self, place: Place, patch_cap: int) -> tuple[str, ...]:
        """List the differences in the submodules, and everything in one that was to be empty."""
        modules = {module.path: module for module in modules_of(place)}
        found: list[str] = []
        for path in gitlinks(place.index_copy, self._common):
            if not (place.path / path).is_dir() or (place.path / path).is_symlink():
                continue  # it was deleted, or became something else: a change like any other
            if path in modules:
                found += (f"{path}/{one}" for one in self._inside_of(modules[path], patch_cap))
            else:
                found += files_below(place.path, f"{path}/")
        return tuple(found)

    def _inside_of(self, module: Module, patch_cap: int) -> list[str]:
        left = left_its_base(module.place)
        found = self.of_module(module).look(module.place, patch_cap)
        changed = [change.path for change in found.changes]
        return [*([left] if left else []), *changed, *found.special, *found.inside]

    def of_module(self, module: Module) -> "Checker":
        """Return the Checker of a submodule, with its objects."""
        name = hashlib.sha256(os.fsencode(module.common)).hexdigest()[:16]
        checker = Checker(module.common, self.directory / "modules" / name)
        checker.directory.mkdir(parents=True, exist_ok=True)
        checker.prepare()
        return checker

    def _stage(self, place: Place, env: Mapping[str, str], paths: Sequence[str]) -> None:
        there = {path for path in paths if _is_file(place.path, path)}
        self._update(env, [f"0 {'0' * len(place.base)}\t{path}" for path in sorted(set(paths) - there)])
        for group, filtered in self.filters.groups(place, env, sorted(there)).items():
            blobs = self.filters.taken_in(place, group, filtered)
            self._update(env, [f"{_mode(place.path / path)} {blob}\t{path}" for path, blob in blobs.items()])
            there -= blobs.keys()
        if there:
            # By git's own reading of a file: only so are line ends and modes those of `git add`.
            feed = b"".join(os.fsencode(path) + b"\0" for path in sorted(there))
            git("update-index", "--add", "--replace", "-z", "--stdin",
                cwd=place.path, env=env, feed=feed, patience=PATIENCE)  # fmt: skip

    def changes(self, old: str, new: str) -> list[Change]:
        """List the paths in which two trees (or commits) differ; a rename is a removal and an addition."""
        fields = git_fields("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new,
                            cwd=self._bare, env=self._env())  # fmt: skip
        return _changes_in(fields)

    def _compared(self, place: Place, env: Mapping[str, str]) -> list[Change]:
        """List the differences of an index from a base, and keep the patch that git makes with them."""
        self.forget(place)
        fields, made = _compare(self._scratch_index("patch"), place.base, cwd=place.path, env=env)
        changes = _changes_in(fields)
        self._patches[place.path] = _Made(tuple(changes), made)
        return changes

    def forget(self, place: Place) -> None:
        """Remove the patch that the last look has kept: nobody is to write it."""
        if left := self._patches.pop(place.path, None):
            left.patch.path.unlink(missing_ok=True)

    def write_patch(self, place: Place, found: Found, path: Path) -> None:
        """Create `path`: the changes as a patch of the base that loses nothing (binary, modes, links)."""
        known = self._patches.get(place.path)
        if known is not None and known.changes == found.changes:
            create_from(path, known.patch.path, known.patch.offset)
        else:
            tree = self.tree_with(place.base, found.changes)
            git_into(path, "diff-tree", "-r", *PATCH_FORM, place.base, tree, cwd=self._bare, env=self._env())

    def changes_of_patch(self, base: str, patch: Path) -> list[Change]:
        """Read a patch back as changes of `base`; it is the durable form of a worker's work."""
        if not patch.stat().st_size:
            return []
        env = self._env(self._scratch_index("patch"))
        shutil.copy2(self._index_of(base), env["GIT_INDEX_FILE"])
        git("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch), cwd=self._bare, env=env)
        fields = git_fields("diff-index", "--cached", "-z", "--raw", "--no-renames", "--full-index", base,
                            cwd=self._bare, env=env)  # fmt: skip
        self._drop_index(env)
        return _changes_in(fields)

    def restore(self, place: Place, patch: Path) -> None:
        """Make the changes of a patch in a tree of its base. Raises WorkerError, with the tree as it was."""
        env = self._env(place.index_copy, place.path)
        try:
            git("apply", "--binary", "--whitespace=nowarn", str(patch), cwd=place.path, env=env)
        except GitError as error:
            raise WorkerError(f"{patch.name}: its work cannot be put back: {error.said}") from error
        create_json(place.beside("restored"), {"patch": patch.name})

    def _index_of(self, base: str) -> Path:
        """Return an index of a commit, made once: all workers of a run start from one of a few."""
        with self._making:
            if base not in self._indexes:
                index = self._scratch_index("base")
                git("read-tree", base, cwd=self._bare, env=self._env(index))
                self._indexes[base] = index
            return self._indexes[base]

    def tree_with(self, base: str, changes: Iterable[Change]) -> str:
        """Return the tree of `base` with the new side of `changes`."""
        env = self._env(self._scratch_index("tree"))
        shutil.copy2(self._index_of(base), env["GIT_INDEX_FILE"])
        ordered = sorted(changes, key=lambda change: change.new_mode != ABSENT)
        self._update(
            env, [f"{c.new_mode} {c.new_sha}\t{c.path}".replace(f"{ABSENT} ", "0 ", 1) for c in ordered]
        )
        tree = git_line("write-tree", cwd=self._bare, env=env)
        self._drop_index(env)
        return tree

    def entries(self, tree: str) -> dict[str, tuple[str, str]]:
        """List a tree: path to (mode, sha)."""
        found = {}
        for field in git_fields("ls-tree", "-r", "-z", "--full-tree", tree, cwd=self._bare, env=self._env()):
            head, _, path = field.partition("\t")
            mode, _, sha = head.split(" ")
            found[path] = (mode, sha)
        return found

    def commit_row(self, base: str, tree: str, commits: Sequence[NewCommit]) -> list[str]:
        """Make commits that follow one another from `base` and end with a tree, by one start of git.

        No ref of the user's repository points to them. Raises GitError.
        """
        lines = [b"feature done\n"]
        for number, commit in enumerate(commits, 1):
            message = commit.message.encode("utf-8", "surrogateescape")
            lines += [
                b"commit refs/row\nmark :%d\n" % number,
                b"author %s\ncommitter %s\n" % (os.fsencode(commit.author), os.fsencode(commit.committer)),
                b"data %d\n%s\n" % (len(message), message),
                *([b"from %s\n" % base.encode()] if number == 1 else []),
                # A file that makes room for a folder must be gone before what is in the folder is added.
                *map(_imported, sorted(commit.changes, key=lambda change: change.new_mode != ABSENT)),
                b"\nget-mark :%d\n" % number,
            ]
        lines += [b"ls :%d \n" % len(commits), b"done\n"]
        # A few are loose objects, as those of any commit. To write many takes longer than the rest of a
        # landing, so they stay in one pack, which the next `git gc` of the user's takes in.
        plain = ("-c", f"fastimport.unpackLimit={LOOSE}", "-c", "core.ignoreCase=false")
        ask = (*plain, "fast-import", "--quiet", "--force")
        *made, last = git(*ask, cwd=self._bare, env=self._env(), feed=b"".join(lines)).splitlines()
        if tree.encode() not in last and not last.startswith(b"missing "):
            raise GitError(ask, 0, f"made another tree than {tree}: {os.fsdecode(last)}")
        return [os.fsdecode(sha) for sha in made]

    def commit(self, tree: str, parent: str, message: str) -> str:
        """Make a commit object that no branch points to."""
        return git_line(
            "commit-tree", tree, "-p", parent, "-m", message, cwd=self._bare, env={**self._env(), **WHO}
        )

    def _env(self, index: Path | None = None, tree: Path | None = None) -> dict[str, str]:
        env = {
            "GIT_DIR": str(self._bare),
            "GIT_OBJECT_DIRECTORY": str(self._common / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_DIFF_OPTS": "",  # a user's `-u0` would make patches that do not apply
        }
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        if tree is not None:
            env["GIT_WORK_TREE"] = str(tree)
        return env

    def _scratch_index(self, name: str) -> Path:
        return self.directory / f"{name}-{os.getpid()}-{next(_NUMBERS)}.index"

    def _drop_index(self, env: Mapping[str, str]) -> None:
        Path(env["GIT_INDEX_FILE"]).unlink(missing_ok=True)

    def _update(self, env: Mapping[str, str], lines: Sequence[str]) -> None:
        if lines:
            feed = b"".join(os.fsencode(line) + b"\0" for line in lines)
            git("update-index", "-z", "--index-info", cwd=self._bare, env=env, feed=feed)


def literal(path: str) -> str:
    """Return the pattern of git's ignored files that matches just this path."""
    return re.sub(r"([*?\[\\])", r"\\\1", path)


def _imported(change: Change) -> bytes:
    """Return the line of `git fast-import` for a change."""
    path = b"".join(
        bytes([byte]) if 32 < byte < 127 and byte not in b'"\\' else b"\\%03o" % byte
        for byte in os.fsencode(change.path)
    )
    if change.new_mode == ABSENT:
        return b'D "%s"\n' % path
    return b'M %s %s "%s"\n' % (change.new_mode.encode(), change.new_sha.encode(), path)


def _list_paths(
    place: Place, common: Path, env: Mapping[str, str], there: frozenset[str], left_out: Sequence[str]
) -> _Listed:
    """List tracked paths, those that differ, and untracked ones; `there` are the files of the tree.

    Submodules are compared separately, since git would read their metadata. Raises GitError.
    """
    links = gitlinks(Path(env["GIT_INDEX_FILE"]), common)
    asked = ("-c", "-o") if links else ("-c", "-m", "-o")
    fields = git_fields("ls-files", "-t", *asked, "--exclude-standard", *left_out, "-z",
                        cwd=place.path, env=env, patience=PATIENCE)  # fmt: skip
    known = {field[2:] for field in fields if field[0] == "H"}
    changed = {field[2:] for field in fields if field[0] == "C"}
    if links:
        found = git_fields("diff-files", "--raw", "--no-renames", "--ignore-submodules=all", "-z",
                           cwd=place.path, env=env, patience=PATIENCE)  # fmt: skip
        changed.update(found[1::2])
    # Git follows a link in place of a folder, and would find the files behind it.
    gone = (path for path in known - there if path not in links or not os.path.lexists(place.path / path))
    changed.update(gone)
    return _Listed(known, sorted(changed), [field[2:] for field in fields if field[0] == "?"])


def _compare(path: Path, base: str, *, cwd: Path, env: Mapping[str, str]) -> tuple[list[str], _Patch]:
    """Return the fields that git prints for the differences of an index from a base, and their patch."""
    with open(path, "xb", opener=private) as file:
        git("diff-index", "--cached", "-z", "--raw", *PATCH_FORM, base, cwd=cwd, env=env, into=file)
    head = b""
    with path.open("rb") as file:
        # No field is empty, so that two ends in a row are the end of the list.
        while b"\0\0" not in head and (part := file.read(1 << 16)):
            head += part
    raw = head.partition(b"\0\0")[0]
    fields = [os.fsdecode(field) for field in raw.split(b"\0")] if raw else []
    return fields, _Patch(path, len(raw) + 2)


def _refuse_lost(new: frozenset[str], taken: Iterable[str]) -> None:
    """Refuse names that would be `.git` elsewhere (`GIT~1`): git skips them without an error."""
    if lost := new.difference(taken):
        raise WorkerError(f"{min(lost)}: git takes no file of this name; its changes were not taken")


def _changes_in(fields: Sequence[str]) -> list[Change]:
    """Parse git's output of differing paths: a head and a path in turn."""
    found = []
    for head, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old_sha, new_sha, _ = head[1:].split(" ")
        found.append(Change(path, old_mode, old_sha, new_mode, new_sha))
    return found


def _mode(path: Path) -> str:
    return "100755" if path.stat().st_mode & 0o100 else "100644"


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _is_file(root: Path, path: str) -> bool:
    """Return whether `path` is a file or link, and no folder above it is a link."""
    if any((root / parent).is_symlink() for parent in list(Path(path).parents)[:-1]):
        return False
    return (root / path).is_symlink() or (root / path).is_file()
