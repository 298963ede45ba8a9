"""Filters of the user's own configuration (LFS and the like), run in the user's checkout, not in a worker's.

A filter is a program, often named by a path in the repository or started as `python -m`: run in a worker's
tree it would be the worker's program. So trees are checked out without any; then the files with a filter
are written again, and come back in, by a git of ours whose work tree is the user's checkout.
"""

import contextlib
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import create_json, read_json
from workers.git.run import git, git_fields
from workers.worktree._git_config import escaped
from workers.worktree.worktree import Place

_ATTRIBUTES = ("filter", "text", "eol", "ident", "working-tree-encoding")
_OFFLINE = {"GIT_LFS_SKIP_DOWNLOAD_ERRORS": "1"}
_PATIENCE = 600.0
Group = tuple[str, ...]


class Filters:
    """The filter drivers that the user had configured when the run began, and their application to files."""

    def __init__(
        self, root: Path | None, common: Path, directory: Path, config: str, drivers: Mapping[str, str]
    ) -> None:
        """Accept the user's checkout, where its filters run, and `filter.NAME.KEY` with their values."""
        self._config = config
        self._root = root
        self._common = common
        self._directory = directory
        self._drivers = dict(drivers) if root is not None else {}
        self._known: dict[str, dict[Group, list[str]]] = {}
        names = {key[len("filter.") : key.rindex(".")] for key in self._drivers}
        self.names = frozenset(names)
        keys = (("smudge", ""), ("clean", ""), ("process", ""), ("required", "false"))
        settings = [f"filter.{name}.{key}={value}" for name in sorted(names) for key, value in keys]
        self.switched_off = tuple(word for setting in settings for word in ("-c", setting))
        """Options that make git take files unchanged."""

    def write_out(self, place: Place, env: Mapping[str, str]) -> None:
        """Write the filtered files of a fresh tree again. Raises GitError where a filter fails."""
        if not self.names or not self._mentions(place, env):
            return
        if place.base not in self._known:
            paths = git_fields("ls-files", "-z", cwd=place.path, env=env)
            self._known[place.base] = self.groups(place, env, paths)
        written: dict[str, list[int]] = {}
        for group, paths in self._known[place.base].items():
            index = place.beside("filtering")
            shutil.copy2(place.index_copy, index)
            for path in paths:
                # Else git asks whether it has changed, by cleaning the one in the user's checkout.
                (place.path / path).unlink()
            feed = b"".join(os.fsencode(path) + b"\0" for path in paths)
            git("checkout-index", "-f", "-z", "--stdin", f"--prefix={place.path}/",
                cwd=self._where, env=self._env(group, index), feed=feed, patience=_PATIENCE)  # fmt: skip
            index.unlink()
            written |= {path: _times(place.path / path) for path in paths}
        if written:
            place.beside("filtered").unlink(missing_ok=True)
            create_json(place.beside("filtered"), written)

    def untouched(self, place: Place) -> frozenset[str]:
        """Return the files that are as they were written out, although git's index takes them for changed."""
        written = read_json(place.beside("filtered")) if self.names else None
        if not written:
            return frozenset()
        return frozenset(path for path, times in written.items() if _times(place.path / path) == times)

    def groups(self, place: Place, env: Mapping[str, str], paths: Sequence[str]) -> dict[Group, list[str]]:
        """Group the paths with one of the user's filters by everything that decides how they are written."""
        found: dict[Group, list[str]] = defaultdict(list)
        if not self.names or not paths:
            return found
        feed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        said = git_fields("check-attr", "-z", "--stdin", *_ATTRIBUTES, cwd=place.path, env=env, feed=feed,
                          patience=_PATIENCE)  # fmt: skip
        values: dict[str, list[str]] = defaultdict(list)
        for path, name, value in zip(said[::3], said[1::3], said[2::3], strict=True):
            values[path].append(_spelled(name, value))
        for path, group in values.items():
            if group[0].removeprefix("filter=") in self.names and not (place.path / path).is_symlink():
                found[tuple(group)].append(path)
        return found

    def taken_in(self, place: Place, group: Group, paths: Iterable[str]) -> dict[str, str]:
        """Return the blob that each file becomes. Raises GitError where its filter fails."""
        name = group[0].removeprefix("filter=")
        required: tuple[str, ...] = ()
        if {f"filter.{name}.clean", f"filter.{name}.process"} & self._drivers.keys():
            # Otherwise a file whose filter fails would go in unchanged, with only a warning.
            required = ("-c", f"filter.{name}.required=true")
        found = {}
        for path in paths:
            with (place.path / path).open("rb") as file:
                blob = git(*required, "hash-object", "-w", "--stdin", f"--path={path}",
                           cwd=self._where, env=self._env(group), feed=file, patience=_PATIENCE)  # fmt: skip
            found[path] = blob.decode().strip()
        return found

    @property
    def _where(self) -> Path:
        return self._root or self._common

    def _mentions(self, place: Place, env: Mapping[str, str]) -> bool:
        """Return whether any attributes name a filter at all: to ask for each file takes long."""
        names = git_fields("ls-files", "-z", "--", ".gitattributes", "*/.gitattributes", cwd=place.path,
                           env={**env, "GIT_LITERAL_PATHSPECS": "0"})  # fmt: skip
        files = [*(place.path / name for name in names), self._common / "info" / "attributes"]
        return any(
            b"filter" in read_whole(path) for path in files if path.is_file() and not path.is_symlink()
        )

    def _env(self, group: Group, index: Path | None = None) -> dict[str, str]:
        env = {
            "GIT_DIR": str(self._directory_of(group)),
            "GIT_OBJECT_DIRECTORY": str(self._common / "objects"),
            "GIT_WORK_TREE": str(self._where),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            **_OFFLINE,
        }
        return env if index is None else {**env, "GIT_INDEX_FILE": str(index)}

    def _directory_of(self, group: Group) -> Path:
        """Make a directory for git, in which these attributes hold for every file."""
        line = f"* {' '.join(group)}\n"
        bare = self._directory / hashlib.sha256(line.encode()).hexdigest()[:16]
        if (bare / "config").exists():
            return bare
        for name in ("objects", "refs", "info"):
            (bare / name).mkdir(parents=True, exist_ok=True)
        if (self._common / "lfs").is_dir():
            with contextlib.suppress(FileExistsError):
                (bare / "lfs").symlink_to(self._common / "lfs")
        lines = [self._config]
        for key, value in self._drivers.items():
            name, _, word = key[len("filter.") :].rpartition(".")
            lines += [f'[filter "{escaped(name)}"]', f'\t{word} = "{escaped(value)}"']
        texts = {"HEAD": "ref: refs/heads/none", "info/attributes": line, "config": "\n".join(lines)}
        for name, text in texts.items():
            with contextlib.suppress(FileExistsError):  # another thread does it too
                create_file(bare / name, os.fsencode(f"{text}\n"))
        return bare


def _spelled(name: str, value: str) -> str:
    special = {"set": name, "unset": f"-{name}", "unspecified": f"!{name}"}
    return special.get(value, f"{name}={value}")


def _times(path: Path) -> list[int]:
    try:
        status = path.lstat()
    except OSError:
        return []
    return [status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
