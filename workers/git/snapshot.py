"""The metadata of the user's repository that workers must not change, as one value, and its differences."""

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from workers.git.metadata import module_directories
from workers.git.run import GitError, Repository, git_directory, git_fields

_STEERS = (b"hookspath", b"path", b"attributesfile", b"excludesfile")
_SETTING = re.compile(
    rb"^\s*(?:\[[^]\n]*\]\s*)?(%s)\s*=\s*(.+?)\s*$" % b"|".join(_STEERS), re.IGNORECASE | re.MULTILINE
)
DOTFILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".config/fish/config.fish",
    ".ssh/authorized_keys", ".ssh/config", ".ssh/rc",
)  # fmt: skip
"""Below the home: files that shells and ssh run as the user, or that grant access."""
_CONFIGS = ("/config", "/.gitconfig", "/config.worktree")
_Stat = tuple[int, int, int, int, int]


class Snapshot(NamedTuple):
    """A repository's metadata: configuration that steers git, by path, and the values of refs."""

    steering: Mapping[str, str]
    """Configuration, hooks, `info/`, alternates, files of the home that are run: path to a fingerprint."""
    places: Mapping[str, str]
    """HEAD, refs (packed or not), packs, and the user's own worktrees: name to value."""
    checkout: Mapping[str, str]
    """The user's files that differ from the last commit, staged or not: path to status and times."""


class Lens:
    """Makes snapshots of one repository, and reads again only files with new times or a new inode."""

    def __init__(self, repository: Repository, environ: Mapping[str, str]) -> None:
        """Accept the environment that decides where the user's own git configuration is."""
        self._repository = repository
        self._home = Path(environ.get("HOME") or "/")
        config = environ.get("XDG_CONFIG_HOME")
        stated = environ.get("GIT_CONFIG_GLOBAL")
        common = (self._home / ".gitconfig", (Path(config) if config else self._home / ".config") / "git")
        self._global = (Path(stated),) if stated else common
        self._seen: dict[str, tuple[_Stat, str, bytes]] = {}

    def snapshot(self) -> Snapshot:
        """Return the repository's metadata as it is now; opens only regular files."""
        common, own = self._repository.common, git_directory(self._repository)
        steering: dict[str, str] = {}
        for top in (common / "config", own / "config.worktree", common / "hooks", common / "info",
                    own / "info", common / "objects" / "info" / "alternates", *self._global):  # fmt: skip
            self._take(top, steering)
        for module in module_directories(common / "modules"):
            for name in ("config", "hooks", "info"):
                self._take(module / name, steering)
        for name in DOTFILES:
            self._take(self._home / name, steering, below=False)
        self._take(self._repository.root / ".git", steering, below=False)
        for path in self._steered(steering):
            self._take(path, steering)
        return Snapshot(steering, self._places(common, own), self._checkout())

    def _checkout(self) -> dict[str, str]:
        """Ask git what is not committed; times show which file was rewritten meanwhile."""
        root = self._repository.root
        found = {}
        try:
            fields = git_fields("status", "--porcelain", "-z", "-uall", "--no-renames", cwd=root)
        except GitError as error:
            return {"git status": error.said}  # an unreadable configuration is reported as such
        for field in fields:
            path = field[3:]
            if path.startswith(".taskers/"):
                continue
            try:
                status = (root / path).lstat()
                found[path] = f"{field[:2]} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
            except OSError:
                found[path] = field[:2]
        return found

    def _take(self, path: Path, found: dict[str, str], *, below: bool = True) -> None:
        try:
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                found[self._name(path)] = self._read(path, status)[0]
                return
            entries = sorted(entry.name for entry in path.iterdir()) if below else []
        except FileNotFoundError:
            return
        except OSError as error:
            # Reported as changed: a scan that fails for it would report nothing at all.
            found[self._name(path)] = str(error.errno)
            return
        for entry in entries:
            # Locks come and go; `git gc` leaves a list of refs for those who read by HTTP.
            if not entry.endswith(".lock") and (path.name, entry) != ("info", "refs"):
                self._take(path / entry, found)

    def _read(self, path: Path, status: os.stat_result) -> tuple[str, bytes]:
        """Return a file's fingerprint and its content; a link's is its target, a pipe's its kind."""
        text = str(path)
        times: _Stat = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._seen.get(text)
        if known is not None and known[0] == times and not stat.S_ISLNK(status.st_mode):
            return known[1], known[2]
        data = b""
        if stat.S_ISLNK(status.st_mode):
            data = os.fsencode(path.readlink()) + b"\n"
        if stat.S_ISREG(status.st_mode) or (stat.S_ISLNK(status.st_mode) and path.is_file()):
            try:
                data += path.read_bytes()
            except OSError as error:
                data += str(error.errno).encode()
        mark = hashlib.sha256(data).hexdigest()[:20]
        fingerprint = f"{stat.S_IFMT(status.st_mode):o}{status.st_mode & 0o111:o} {mark}"
        self._seen[text] = (times, fingerprint, data)
        return fingerprint, data

    def _steered(self, steering: Mapping[str, str]) -> set[Path]:
        """Return the paths that the configuration points to: a folder of hooks, an included file."""
        found: set[Path] = set()
        for text, (_, _, data) in list(self._seen.items()):
            if not text.endswith(_CONFIGS) or self._name(Path(text)) not in steering:
                continue
            for match in _SETTING.finditer(data):
                value = os.fsdecode(match[2].strip(b'"'))
                root = self._repository.root if match[1].lower() == b"hookspath" else Path(text).parent
                target = self._home / value[2:] if value.startswith("~/") else root / value
                # A folder that is a whole home would be read completely.
                if target not in (self._home, Path("/"), self._repository.root):
                    found.add(target)
        return found

    def _places(self, common: Path, own: Path) -> dict[str, str]:
        found = {}
        packed = common / "packed-refs"
        if (data := self._content(packed)) is not None:
            for line in os.fsdecode(data).splitlines():
                sha, _, ref = line.partition(" ")
                if ref and not line.startswith(("#", "^")):
                    found[ref] = sha
        for path, name in _files_below(common / "refs", "refs"):
            if (value := self._content(path)) is not None and not name.endswith(".lock"):
                found[name] = os.fsdecode(value.strip())
        if (tables := self._content(common / "reftable" / "tables.list")) is not None:
            found["reftable"] = hashlib.sha256(tables).hexdigest()[:20]
        with contextlib.suppress(OSError), os.scandir(common / "objects" / "pack") as packs:
            names = sorted(entry.name for entry in packs if entry.name.endswith(".pack"))
            found["objects/pack"] = hashlib.sha256("\0".join(names).encode()).hexdigest()[:20]
        found["HEAD"] = os.fsdecode((self._content(own / "HEAD") or b"").strip())
        ours = os.fsencode(self._repository.root / ".taskers")
        for path, name in _files_below(common / "worktrees", "worktrees", depth=2):
            value = self._content(path)
            # An empty one is being written: whose it is will show.
            if value and name.endswith("/gitdir") and not value.startswith(ours):
                found[name.removesuffix("/gitdir")] = os.fsdecode(value.strip())
        return found

    def _content(self, path: Path) -> bytes | None:
        try:
            return self._read(path, os.lstat(path))[1]
        except OSError:
            return None

    def _name(self, path: Path) -> str:
        text = str(path)
        for top, word in ((self._repository.common, ".git"), (self._repository.root, ""), (self._home, "~")):
            if text.startswith(f"{top}/"):
                return f"{word}/{text[len(str(top)) + 1 :]}".removeprefix("/")
        return text


def compare(
    before: Snapshot, after: Snapshot, ours: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Return the paths, named as a person would, that show harm, and those that may be everyday work.

    Harm is what only tampering or a deliberate act does. Refs that we moved to our commits are neither.
    """
    harm = _differing(before.steering, after.steering)
    moves = [
        *_differing(before.checkout, after.checkout),
        *(
            name
            for name in _differing(before.places, after.places)
            if after.places.get(name) not in ours and not name.startswith("refs/orchestrate/")
        ),
    ]
    return harm, sorted(name for name in moves if name not in harm)


def as_text(snapshot: Snapshot) -> bytes:
    """Serialise a snapshot, for the runtime that continues a run."""
    return json.dumps(snapshot._asdict()).encode()


def from_text(data: bytes) -> Snapshot | None:
    """Read a serialised snapshot; None where it is invalid."""
    try:
        found = json.loads(data)
        return Snapshot(dict(found["steering"]), dict(found["places"]), dict(found["checkout"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _files_below(top: Path, name: str, depth: int = 20) -> Iterator[tuple[Path, str]]:
    try:
        with os.scandir(top) as found:
            entries = list(found)
    except OSError:
        return
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            yield Path(entry.path), f"{name}/{entry.name}"
        elif depth > 1:
            yield from _files_below(Path(entry.path), f"{name}/{entry.name}", depth - 1)
