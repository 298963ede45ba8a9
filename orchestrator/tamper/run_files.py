"""Watch the files that orchestrate writes about a run: none may change once its owner has ended.

Watched are what is written before the first worker starts, the locks and intents, and of each worker that
has ended its outputs, records, messages and the worktree that is kept of it. Found are also files that
appear before their owner has begun, or where orchestrate is going to write them. A file is read again only if
its status has changed. Nothing is restored: a changed file is evidence.
"""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import Refusal, StateError
from orchestrator.store.intent import decided, read_intent
from tickets.problems import Problem
from workers.fence.policy import message_log
from workers.files.durable import create_file
from workers.files.locks import is_locked
from workers.files.read import read_start
from workers.files.run_dir import STARTED, RunDir, read_json
from workers.git.metadata import MOVES
from workers.git.run import Repository

WHOLE = 1 << 20
"""Bytes up to which a file is known by its content; a larger one by its head, its length and its time."""
OURS = ("txt", "json", "patch")
"""The files that orchestrate itself writes about an attempt, once it has ended."""
_FIRST = "first.json"
_WRITTEN_FIRST = (
    "filters.json", "before.json", "git/config", "git/HEAD", "git/info/exclude", "git/info/attributes",
)  # fmt: skip


class Fingerprint(NamedTuple):
    """What a path was seen to hold; a file is read again only if `times` differ."""

    times: tuple[int, ...]
    digest: str


GONE = Fingerprint((), "gone")


class RunFiles:
    """The fingerprints of a run's files. `look` may run in a thread beside the other methods."""

    def __init__(
        self, run: RunDir, repository: Repository, directory: Path, begun: Mapping[str, int]
    ) -> None:
        """Fingerprint what is written first; `directory` is the run's own below `.git/orchestrate`.

        `begun` are the workers that have begun under an earlier runtime, with the number of their attempts.
        """
        # Paths are text here: for a thousand workers, Path values take longer than the system calls.
        self._run, self._repository, self._folder = run, repository, str(run.path)
        roster = read_json(run.roster_path) or {}
        self._workers = frozenset(str(one["worker"]) for one in roster.get("workers", ()))
        self._begun = {worker: max(1, attempts) for worker, attempts in begun.items()}
        self._found: set[str] = set()
        first, paths = read_json(directory / _FIRST), _written_first(run, directory)
        if first is None:
            first = {name: fingerprint_of(str(path)).digest for name, path in paths.items() if path.is_file()}
            create_file(directory / _FIRST, json.dumps(first).encode())
        self._known = {str(paths[name]): Fingerprint((), str(first[name])) for name in paths if name in first}
        """The files that must not change. `GONE` must not exist, or not before orchestrate has written it."""
        self._invalid: dict[str, str] = {}
        self._invalid = self._invalid_files()
        for path in (repository.own / "store.lock", run.path / "run.lock"):
            if path.is_file():
                # Open for as long as this process lives: a file that replaces it cannot get the same inode.
                os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._known[str(path)] = fingerprint_of(str(path))

    def begin(self, worker: str, number: int, *, is_new: bool) -> None:
        """Note that an attempt begins; another process wrote what exists of a new one."""
        stem, messages = _stem(worker, number), self._messages(worker)
        expected = [*self._of_attempt(stem)] if is_new else []
        if worker not in self._begun:
            expected.append(messages)
        self._begun[worker] = max(number, self._begun.get(worker, 0))
        for path in filter(os.path.lexists, expected):
            self._plant(path)
        # What is added from here on comes from the attempt.
        for path in (*expected, messages):
            self._known.pop(path, None)
        for path in self._ours(stem):
            if not os.path.lexists(path):
                self._known.setdefault(path, GONE)

    def writing(self, worker: str, file: Path) -> bool:
        """Return whether a file already exists that orchestrate is about to create; it is found then."""
        if worker not in self._begun:
            self.begin(worker, 1, is_new=True)  # it ends without having begun
        is_taken = self._is_taken(str(file))
        if self._known.get(str(file)) is GONE:
            del self._known[str(file)]
        return is_taken

    def end(self, worker: str) -> bool:
        """Fingerprint what a worker has left: from its end on only orchestrate may add to it.

        Return whether a file was found that orchestrate is still to write.
        """
        self._begun.setdefault(worker, 1)
        is_taken = False
        for path in self._left_by(worker):
            is_taken |= self._is_taken(path)
            if path not in self._known and os.path.lexists(path):
                self._known[path] = fingerprint_of(path)
        return is_taken

    def judge(self, worker: str, tree: Path | None = None) -> bool:
        """Fingerprint all files of a worker that is judged, also those that do not exist and never will.

        Return whether a file was found that orchestrate has not written.
        """
        is_taken = self.end(worker)
        ours = (path for stem in self._attempts(worker) for path in self._ours(stem))
        for path in (*ours, self._messages(worker)):
            self._known.setdefault(path, GONE)
        if tree is not None:
            self._known[str(tree)] = fingerprint_of(str(tree))
        return is_taken

    def look(self) -> None:
        """Search for changes since the last call; `take_found` returns them."""
        for path in self._early():
            self._plant(path)
        for path, before in list(self._known.items()):
            self._compare(path, before)
        invalid = self._invalid_files()
        self._found.update(path for path, digest in invalid.items() if self._invalid.get(path) != digest)
        self._invalid = invalid

    def take_found(self) -> list[str]:
        """Return the found changes by the names that readers know, and forget them: each is reported once."""
        found = list(self._found)
        self._found.difference_update(found)
        common, root = f"{self._repository.common}/", f"{self._run.root}/"
        return sorted(
            f".git/{path.removeprefix(common)}" if path.startswith(common) else path.removeprefix(root)
            for path in found
        )

    def _plant(self, path: str) -> None:
        """Note a file that has no owner who may have written it, once."""
        self._compare(path, self._known.setdefault(path, GONE))

    def _is_taken(self, path: str) -> bool:
        return self._known.get(path) is GONE and self._compare(path, GONE)

    def _compare(self, path: str, before: Fingerprint) -> bool:
        """Return whether a path has changed; it is found then, and from here on must be as it is now."""
        now = fingerprint_of(path, before)
        # Asked once more if it differs: else its owner has just begun to write it.
        if now is before or self._known.get(path) is not before:
            return False
        self._known[path] = now
        if now.digest != before.digest:
            self._found.add(path)
        return now.digest != before.digest

    def _early(self) -> Iterator[str]:
        """List the files of workers that have not begun."""
        waiting = self._workers - self._begun.keys()
        logs = str(message_log(self._run, "").parent)
        folders = {self._folder: "", f"{self._folder}/shims": "", logs: f"{self._run.id}."}
        for folder, prefix in folders.items() if waiting else ():
            # All names at once, then the begun workers: a worker may begin in between.
            for name in _names(folder):
                worker = name.removeprefix(prefix).partition(".")[0]
                if worker in waiting and worker not in self._begun:
                    yield f"{folder}/{name}"

    def _invalid_files(self) -> dict[str, str]:
        """Return the digests of files below `.git/orchestrate` that orchestrate cannot have written so."""
        own = self._repository.own
        # What cannot be opened is no lock that a process holds; that it was replaced is found elsewhere.
        with contextlib.suppress(OSError):
            if is_locked(own / "store.lock"):
                return self._invalid
        intents = (decided(self._repository, kind) for kind in ("intent", "landing"))
        invalid = [path for path in intents if os.path.lexists(path) and not _is_intent(path)]
        moves = own / MOVES
        if moves.is_symlink() or (moves.exists() and not moves.is_file()):
            invalid.append(moves)
        return {str(path): fingerprint_of(str(path)).digest for path in invalid}

    def _messages(self, worker: str) -> str:
        return str(message_log(self._run, worker))

    def _ours(self, stem: str) -> Iterator[str]:
        return (f"{self._folder}/{stem}.{kind}" for kind in OURS)

    def _of_attempt(self, stem: str) -> Iterator[str]:
        yield from (f"{self._folder}/{stem}.{kind}" for kind in (*OURS, "stdout", "stderr"))
        yield from (f"{self._folder}/shims/{stem}{end}" for end in (STARTED, ".exit.json"))

    def _attempts(self, worker: str) -> Iterator[str]:
        """Return the stems of the names of a worker's attempts."""
        return (_stem(worker, number) for number in range(1, self._begun.get(worker, 1) + 1))

    def _left_by(self, worker: str) -> Iterator[str]:
        """List the files a worker may have left, and the records of its setup and acceptance commands."""
        for stem in self._attempts(worker):
            yield from (*self._of_attempt(stem), f"{self._folder}/tickets/{stem}.md")
        yield self._messages(worker)
        checks = f"{self._folder}/checks"
        yield from (f"{checks}/{name}" for name in _names(checks) if name.startswith(f"{worker}."))


def fingerprint_of(path: str, before: Fingerprint = GONE) -> Fingerprint:
    """Return the fingerprint of a path, `before` if its status is the same; opens only regular files."""
    try:
        status = os.lstat(path)
    except OSError:
        return GONE
    times = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if times == before.times and not stat.S_ISDIR(status.st_mode):
        return before
    return Fingerprint(times, _digest(path, status))


def _digest(path: str, status: os.stat_result) -> str:
    kind = f"{stat.S_IFMT(status.st_mode):o}"
    if stat.S_ISDIR(status.st_mode):
        return _digest_of_tree(path)
    if path.endswith(".lock"):
        return f"{kind} {status.st_ino} {status.st_size}"
    if not stat.S_ISREG(status.st_mode):
        return kind
    try:
        data = read_start(path, min(status.st_size, WHOLE)) if status.st_size else b""
    except OSError as error:
        return f"{kind} {error.errno}"
    more = f" {status.st_size} {status.st_mtime_ns}" if status.st_size > WHOLE else ""
    return f"{kind} {hashlib.sha256(data).hexdigest()[:20]}{more}"


def _digest_of_tree(tree: str) -> str:
    """Return the digest of the names, sizes and times of all files below a folder."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for path in (f"{folder}/{name}" for name in sorted(names)):
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                times = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                digest.update(os.fsencode(f"{path}\0{times}\0"))
    return digest.hexdigest()[:20]


def refuse_altered(run: RunDir, directory: Path) -> None:
    """Refuse to continue a run whose manifest has changed since the run began. Raises Refusal."""
    first, path = read_json(directory / _FIRST) or {}, run.manifest_path
    if path.name in first and first[path.name] != fingerprint_of(str(path)).digest:
        what = "is not what it was when the run began: its scopes and its base cannot be trusted"
        do = "restore it if you can; else begin a new run of its phase"
        raise Refusal(Problem(run.relative(path), what, do))


def _written_first(run: RunDir, directory: Path) -> Mapping[str, Path]:
    """Return what is written before the first worker starts, and never again."""
    paths = {path.name: path for path in (run.manifest_path, run.roster_path)}
    return paths | {name: directory / name for name in _WRITTEN_FIRST}


def _stem(worker: str, number: int) -> str:
    return worker if number == 1 else f"{worker}.{number}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - Path values take longer than the system call
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_intent(path: Path) -> bool:
    try:
        return bool(read_intent(path))
    except (StateError, OSError):
        return False
