"""What a worker changed, found without its `.git`, index or config: those may run its code in ours."""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workers.agents import WorkerError
from workers.git import GitError, git, git_fields, git_into, git_line
from workers.output import create_file
from workers.worktree import Place

ABSENT = "000000"
GITLINK = "160000"
# The user's settings that decide how a file becomes a blob; drivers, which run programs, are not among them.
KEPT_SETTINGS = ("core.filemode", "core.symlinks", "core.ignorecase", "core.autocrlf", "core.eol",
                 "core.precomposeunicode", "core.excludesfile", "core.attributesfile")  # fmt: skip
FIXED_SETTINGS = (
    "bare = false",
    "hooksPath = /dev/null",
    # Refuses files that git itself would take after a warning.
    "safecrlf = false",
    # A worker's file at a path that a sparse checkout leaves out would stay unseen.
    "sparseCheckout = true",
)
WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "orchestrate"), ("EMAIL", "orchestrate@localhost"))
}


class Change(NamedTuple):
    """One path that differs between two trees; a mode of `000000` is a path that is not there."""

    path: str
    old_mode: str
    old_sha: str
    new_mode: str
    new_sha: str


class Found(NamedTuple):
    """All that a worker left in its worktree."""

    tree: str
    """The whole of it, as a tree object; the base itself where nothing changed."""
    changes: tuple[Change, ...]
    ignored: tuple[str, ...]
    """Ignored files it made; they are not in the patch."""


class Checker:
    """Git with a directory of its own: the user's objects, nobody's config, an index for each question."""

    def __init__(self, common: Path, directory: Path) -> None:
        """Take the user's git common directory, and a directory of ours beside it."""
        self._common = common
        self.directory = directory
        self._bare = directory / "git"
        self._numbers = itertools.count()

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
        with contextlib.suppress(FileExistsError):
            create_file(self._bare / "config", os.fsencode(self._config()))

    def _config(self) -> str:
        hashes = git_line("rev-parse", "--show-object-format", cwd=self._common)
        version = 0 if hashes == "sha1" else 1
        lines = [
            "[core]",
            f"\trepositoryformatversion = {version}",
            *(f"\t{line}" for line in FIXED_SETTINGS),
        ]
        for name in KEPT_SETTINGS:
            value = git_line("config", "--get", name, cwd=self._common, check=False)
            if value:
                escaped = value.replace("\\", "\\\\").replace('"', '\\"')
                lines.append(f'\t{name.removeprefix("core.")} = "{escaped}"')
        if version:
            lines += ["[extensions]", f"\tobjectFormat = {hashes}"]
        return "\n".join(lines) + "\n"

    def look(self, place: Place, patch_cap: int) -> Found:
        """Take all that differs from the base. Raises WorkerError where it cannot be taken, or is too much.

        Nothing that was there is changed, so it may be asked again after a stop.
        """
        env = self._env(self._scratch_index("look"), place.path)
        index = Path(env["GIT_INDEX_FILE"])
        try:
            # With its times: git takes entries as young as their index for dirty.
            shutil.copy2(place.index_copy, index)
            return self._look(place, env, patch_cap)
        except GitError as error:
            raise WorkerError(f"its changes could not be read: {error.said}") from error
        finally:
            index.unlink(missing_ok=True)

    def _look(self, place: Place, env: Mapping[str, str], patch_cap: int) -> Found:
        changed, modules = self._changed(place, env)
        if not changed and not git("ls-files", "-o", "--directory", "-z", cwd=place.path, env=env):
            # Most workers read only: the base is what they leave, and no more need be asked.
            return Found(place.base, (), tuple(modules))
        untracked = git_fields("ls-files", "-o", "--exclude-standard", "-z", cwd=place.path, env=env)
        new = [path for entry in untracked for path in _files_below(place.path, entry)]
        ignored = git_fields(
            "ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z", cwd=place.path, env=env
        )
        if not changed and not new:
            return Found(place.base, (), (*ignored, *modules))
        size = sum(_size(place.path / path) for path in (*changed, *new))
        if size > patch_cap:
            raise WorkerError(f"its changes are {size:,} bytes, more than patch_cap ({patch_cap:,} bytes)")
        self._stage(place, env, [*changed, *new])
        tree = git_line("write-tree", cwd=place.path, env=env)
        changes = tuple(self.changes(place.base, tree))
        # Git passes over a name that would be `.git` elsewhere (`GIT~1`), with a word and without an error.
        lost = {path for path in new if _is_file(place.path, path)} - {change.path for change in changes}
        if lost:
            raise WorkerError(f"{min(lost)}: git takes no file of this name; its changes were not taken")
        return Found(tree, changes, (*ignored, *modules))

    def _changed(self, place: Place, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """List the tracked paths that differ, and the submodules that stand elsewhere now."""
        # `dirty` is what looks into a submodule with that one's own config; without it git reads its HEAD.
        fields = git_fields("diff-files", "--raw", "--no-renames", "--ignore-submodules=dirty", "-z",
                            cwd=place.path, env=env)  # fmt: skip
        changed, modules = [], []
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, new_mode, *_ = head[1:].split(" ")
            if old_mode == new_mode == GITLINK:
                modules.append(f"{path}/")
            else:
                changed.append(path)
        return changed, modules

    def _stage(self, place: Place, env: Mapping[str, str], paths: Sequence[str]) -> None:
        there = {path for path in paths if _is_file(place.path, path)}
        self._update(env, [f"0 {'0' * len(place.base)}\t{path}" for path in sorted(set(paths) - there)])
        if there:
            # By git's own reading of a file: only so do line ends and modes come out as `git add` has them.
            feed = b"".join(os.fsencode(path) + b"\0" for path in sorted(there))
            git("update-index", "--add", "--replace", "-z", "--stdin", cwd=place.path, env=env, feed=feed)

    def changes(self, old: str, new: str) -> list[Change]:
        """List the paths in which two trees (or commits) differ; a rename is a removal and an addition."""
        fields = git_fields("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new,
                            cwd=self._bare, env=self._env())  # fmt: skip
        found = []
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, new_mode, old_sha, new_sha, _ = head[1:].split(" ")
            found.append(Change(path, old_mode, old_sha, new_mode, new_sha))
        return found

    def write_patch(self, old: str, new: str, path: Path) -> None:
        """Create `path`: the difference of two trees as a patch that loses nothing (binary, modes, links)."""
        git_into(path, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
                 "--no-textconv", "--no-color", old, new, cwd=self._bare, env=self._env())  # fmt: skip

    def changes_of_patch(self, base: str, patch: Path) -> list[Change]:
        """Read a patch back as changes of `base`; it is the durable form of what a worker did."""
        if not patch.stat().st_size:
            return []
        env = self._env(self._scratch_index("patch"))
        git("read-tree", base, cwd=self._bare, env=env)
        git("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch), cwd=self._bare, env=env)
        tree = git_line("write-tree", cwd=self._bare, env=env)
        self._drop_index(env)
        return self.changes(base, tree)

    def tree_with(self, base: str, changes: Iterable[Change]) -> str:
        """Give the tree of `base` with the new side of `changes`."""
        env = self._env(self._scratch_index("tree"))
        git("read-tree", base, cwd=self._bare, env=env)
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
        return self.directory / f"{name}-{os.getpid()}-{next(self._numbers)}.index"

    def _drop_index(self, env: Mapping[str, str]) -> None:
        Path(env["GIT_INDEX_FILE"]).unlink(missing_ok=True)

    def _update(self, env: Mapping[str, str], lines: Sequence[str]) -> None:
        if lines:
            feed = b"".join(os.fsencode(line) + b"\0" for line in lines)
            git("update-index", "-z", "--index-info", cwd=self._bare, env=env, feed=feed)


def _files_below(root: Path, entry: str) -> list[str]:
    """Write out an untracked entry; `x/` is a nested repository, whose files count all the same."""
    if not entry.endswith("/"):
        return [entry]
    found = []
    for folder, names, files in os.walk(root / entry):
        names[:] = [name for name in names if name != ".git"]
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        there = (Path(folder) / name for name in (*files, *links) if name != ".git")
        found += [os.path.relpath(path, root) for path in there]
    return found


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _is_file(root: Path, path: str) -> bool:
    """Tell whether a file or link stands at `path`; nothing does behind a folder that became a link."""
    if any((root / parent).is_symlink() for parent in list(Path(path).parents)[:-1]):
        return False
    return (root / path).is_symlink() or (root / path).is_file()
