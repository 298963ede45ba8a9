"""What a run has written down, and whether somebody else was at it: outputs, records, messages, locks.

Most of it is written once. What has no owner that still runs is looked at again each time; nothing is put
back, for what was changed is evidence, too.
"""

import contextlib
import itertools
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from orchestrator.errors import Refusal, StateError
from orchestrator.store.intent import decided, read_intent
from orchestrator.tamper._fingerprints import (
    WHOLE,
    Grown,
    begins_so,
    fingerprint,
    grown,
    mark_of,
    plain,
    tree_mark,
)
from tickets.problems import Problem
from workers.fence.policy import message_log
from workers.files.durable import create_file
from workers.files.locks import is_locked
from workers.files.run_dir import STARTED, RunDir, read_json
from workers.git.metadata import MOVES
from workers.git.run import Repository

CHECKS = ("setup", "acceptance")
"""What is run for a worker beside itself, as the names of its records in `checks/` say."""
_FIRST = "first.json"
_GONE = "gone"
"""The mark of what is not there."""
_LOCKS = ("store.lock",)


class Leavings:
    """A run's own files; each change of what nobody had any business to change is told once."""

    def __init__(self, run: RunDir, repository: Repository, directory: Path) -> None:
        """Take what stands there now, and what an earlier runtime had taken; `directory` is the checker's."""
        self._run, self._repository, self._directory = run, repository, directory
        # All as text: of a thousand workers, paths as values would take longer than the looks at them.
        self._seen: dict[str, tuple[tuple[int, ...], str]] = {}
        self._messages = {worker: str(message_log(run, worker)) for worker in _workers_of(run)}
        first = read_json(directory / _FIRST)
        paths = _first_paths(run, directory)
        if first is None:
            first = {name: fingerprint(str(at), at.lstat()) for name, at in paths.items() if at.is_file()}
            create_file(directory / _FIRST, json.dumps(first).encode())
        self._first = {str(path): str(first[name]) for name, path in paths.items() if name in first}
        self._final: dict[str, str] = {}
        self._grown: dict[str, Grown] = {}
        self._trees: dict[str, str] = {}
        self._intents: dict[str, str] = {}
        self._unwritten: dict[str, set[str]] = {}
        self._ours: dict[str, tuple[str, ...]] = {}
        """What we write of somebody's newest attempt once it has ended."""
        self._written: dict[str, tuple[int, str]] = {}
        """Length and mark of what we have just written, by path."""
        self._begun: set[str] = set()
        self._strays: dict[str, bool] = {}
        """What stood there of workers before they began, and whether it has been told."""
        for path in (*self._messages.values(), *self._growing(())):
            if (now := grown(path)) is not None:
                self._grown[path] = now
        self._look_at_intents()
        # Open for as long as we live, so that a file put in its place cannot get the same number.
        self._locks = {
            str(path): os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            for path in (*(repository.own / name for name in _LOCKS), run.path / "run.lock")
            if path.is_file()
        }

    @property
    def size(self) -> int:
        """How many files have no owner that runs: what it costs to look at all of them."""
        return len(self._final) + len(self._messages)

    def begun(self, workers: Iterable[str] | None) -> None:
        """Take what stands there of these for theirs: they have begun under another runtime; None is all."""
        self._begun.update(self._messages if workers is None else workers)

    def expect(self, worker: str, number: int, *, is_new: bool) -> None:
        """Remember what nobody can have written of an attempt yet: we do so once it has ended.

        Of one that is new that is all; others may have left some of it under another runtime.
        """
        self._begun.add(worker)
        files = self._run.attempt(worker, number)
        paths = (str(files.text), str(files.record), str(files.patch))
        there = {path for path in paths if os.path.lexists(path)}
        self._unwritten[worker] = {*paths} - there
        self._ours[worker] = paths
        for path in there if is_new else ():
            self._strays.setdefault(path, False)

    def writes(self, worker: str, file: Path, data: bytes | None = None) -> None:
        """Take a file of an attempt for ours from here on; one that stands there by now is told.

        Where it is said what is about to be in it, that need not be read back.
        """
        path = str(file)
        if data is not None and len(data) <= WHOLE:
            self._written[path] = len(data), mark_of(data)
        if worker not in self._begun:
            # It ends without having begun: all that stands there of it is somebody else's.
            there = [one for one in self._left_by(worker) if os.path.lexists(one)]
            self._strays.update({one: False for one in there if one not in self._strays})
            self._begun.add(worker)
        paths = self._unwritten.get(worker, set())
        if path in paths:
            paths.discard(path)
            if os.path.lexists(path):
                self._strays.setdefault(path, False)

    def changed(self, running: Collection[str]) -> list[str]:
        """Name what was changed of the run's first files, its locks, and what those that run append to."""
        found = [path for path, mark in self._first.items() if not self._still(self._first, path, mark)]
        found += [path for path in self._growing(running) if not self._still_begins(path, may_grow=True)]
        found += [path for path, held in [*self._locks.items()] if not self._still_lock(path, held)]
        found += [*self._look_at_intents(), *self._planted()]
        return sorted({self._name(path) for path in found})

    def changed_of_ended(self, running: Collection[str]) -> list[str]:
        """Name what was changed since it was looked at last of all that those who do not run have left."""
        found = [path for path, mark in list(self._final.items()) if not self._still(self._final, path, mark)]
        silent = [path for one, path in self._messages.items() if one not in running]
        found += [path for path in silent if not self._still_begins(path, may_grow=False)]
        found += [path for path, mark in list(self._trees.items()) if not self._still_tree(path, mark)]
        self._look_for_strays()
        strays = [path for path, is_told in list(self._strays.items()) if not is_told]
        # Just these: what a worker's end adds meanwhile is told the next time.
        self._strays.update(dict.fromkeys(strays, True))
        found += strays
        return sorted({self._name(path) for path in found})

    def settled(self, worker: str) -> None:
        """Take what a worker has left for final."""
        self._begun.add(worker)
        self._take_for_final(self._left_by(worker))

    def judged(self, worker: str, *, tree: Path | None = None) -> None:
        """Take for final, too, what we have written of a worker, and the tree that is kept of it.

        What we have not written stays unwritten: it is looked for with the rest that has no owner that runs.
        """
        self._begun.add(worker)
        unwritten = self._unwritten.pop(worker, set())
        paths = list(unwritten)
        unwritten.clear()  # a look that goes on in its thread has the same set
        for path in paths:
            if os.path.lexists(path):
                self._strays.setdefault(path, False)
            else:
                self._final.setdefault(path, _GONE)
        ours = self._ours.pop(worker, None)
        checks = _checks_of(f"{self._run.path}/checks", worker)
        # The rest is final since its end.
        self._take_for_final(self._left_by(worker) if ours is None else itertools.chain(ours, checks))
        if tree is not None:
            self._trees[str(tree)] = tree_mark(tree)

    def _take_for_final(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._final and (status := plain(path)) is not None:
                self._final[path] = self._marked(path, status)

    def _look_for_strays(self) -> None:
        """Find what stands there of workers that have not begun."""
        for folder in (self._run.path, self._run.path / "shims"):
            # All names at once, before it is asked who has begun: it may begin in between.
            for name in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208 - paths cost more than all else
                worker = name.partition(".")[0]
                if worker in self._messages and worker not in self._begun:
                    self._strays.setdefault(f"{folder}/{name}", False)

    def _planted(self) -> list[str]:
        """Name what stands where we are going to write what a worker leaves."""
        found = []
        for paths in list(self._unwritten.values()):
            # Asked for once more after it was found: else we have just begun to write it ourselves.
            there = [path for path in list(paths) if os.path.lexists(path) and path in paths]
            paths.difference_update(there)
            found += there
        return found

    def _still(self, marks: dict[str, str], path: str, mark: str) -> bool:
        marks[path] = now = self._mark(path)
        return now == mark

    def _still_tree(self, path: str, mark: str) -> bool:
        now = tree_mark(Path(path))
        self._trees[path] = now
        return now == mark

    def _still_lock(self, path: str, held: int) -> bool:
        try:
            there = os.lstat(path)
        except OSError:
            there = None
        known = os.fstat(held)
        if there is not None and there.st_ino == known.st_ino and there.st_size == 0:
            return True
        # Told once: what stands there now is what all others lock from here on.
        del self._locks[path]
        os.close(held)
        return False

    def _growing(self, running: Collection[str]) -> tuple[str, ...]:
        """Give what is appended to: messages and the streams of who runs, and the list of our own moves."""
        messages = (self._messages[one] for one in running if one in self._messages)
        folder = self._run.path
        streams = (f"{folder}/{one}.{kind}" for one in running for kind in ("stdout", "stderr"))
        return (*messages, *streams, f"{self._repository.own}/{MOVES}")

    def _still_begins(self, path: str, *, may_grow: bool) -> bool:
        """Tell whether a file has at most been added to, and that by its owner."""
        before, now = self._grown.pop(path, None), grown(path)
        if now is None:
            return before is None
        self._grown[path] = now
        if now.size < 0:
            return now == before  # nothing that we made: a folder, a pipe
        if before is None:
            return may_grow or now.size == 0
        if before.size and (now.inode != before.inode or not begins_so(path, before)):
            return False
        return may_grow or now.size == before.size

    def _look_at_intents(self) -> list[str]:
        """Name intents that nobody is carrying out, and that were not there."""
        found = []
        # What cannot be opened is no lock that anybody holds; that it was changed is told elsewhere.
        with contextlib.suppress(OSError):
            if is_locked(self._repository.own / "store.lock"):
                return []
        for kind in ("intent", "landing"):
            path = str(decided(self._repository, kind))
            if (mark := self._mark(path)) == _GONE:
                self._intents.pop(path, None)
                continue
            if self._intents.get(path) != mark and not _is_intent(Path(path)):
                found.append(path)
            self._intents[path] = mark
        return found

    def _mark(self, path: str) -> str:
        """Give a file's fingerprint; it is read again only where its times or its number are new."""
        try:
            return self._marked(path, os.lstat(path))
        except OSError:
            return _GONE

    def _marked(self, path: str, status: os.stat_result) -> str:
        times = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._seen.get(path)
        if known is None or known[0] != times:
            length, mark = self._written.pop(path, (-1, ""))
            is_ours = known is None and length == status.st_size and stat.S_ISREG(status.st_mode)
            known = self._seen[path] = (times, mark if is_ours else fingerprint(path, status))
        return known[1]

    def _name(self, path: str) -> str:
        common, root = f"{self._repository.common}/", f"{self._run.root}/"
        return f".git/{path.removeprefix(common)}" if path.startswith(common) else path.removeprefix(root)

    def _left_by(self, worker: str) -> Iterator[str]:
        """Name all that a worker may have left: to list the folders is to read everybody's each time."""
        folder = self._run.path
        for number in itertools.count(1):
            stem = worker if number == 1 else f"{worker}.{number}"
            # What any further attempt leaves first.
            first = (f"{folder}/tickets/{stem}.md", f"{folder}/shims/{stem}{STARTED}")
            if number > 1 and not any(map(os.path.lexists, first)):
                break
            yield from (f"{folder}/{stem}.{kind}" for kind in ("txt", "stdout", "stderr", "json", "patch"))
            yield from (*first, f"{folder}/shims/{stem}.exit.json")
        yield from _checks_of(f"{folder}/checks", worker)


def refuse_altered(run: RunDir, directory: Path) -> None:
    """Refuse to go on with a run whose manifest is not the one that it began with. Raises Refusal."""
    first, path = read_json(directory / _FIRST) or {}, run.manifest_path
    if path.name in first and first[path.name] != fingerprint(str(path), path.lstat()):
        what = "is not what it was when the run began: its scopes and its base cannot be trusted"
        do = "put it back if you can; else begin a new run of its phase"
        raise Refusal(Problem(run.relative(path), what, do))


def _first_paths(run: RunDir, directory: Path) -> Mapping[str, Path]:
    """Name what is written before the first worker starts, and never again."""
    ours = (
        "filters.json",
        "before.json",
        "git/config",
        "git/HEAD",
        "git/info/exclude",
        "git/info/attributes",
    )
    return {path.name: path for path in (run.manifest_path, run.roster_path)} | {
        name: directory / name for name in ours
    }


def _workers_of(run: RunDir) -> list[str]:
    roster = read_json(run.roster_path) or {}
    return [str(one["worker"]) for one in roster.get("workers", ())]


def _checks_of(folder: str, stem: str) -> Iterator[str]:
    """Name the records of what ran for a worker, or for a check of its work; they are numbered from one."""
    for kind in CHECKS:
        for at in itertools.count(1):
            names = (
                f"{stem}.{kind}-{at}" + (f".{again}" if again > 1 else "") for again in itertools.count(1)
            )
            there = [
                *itertools.takewhile(lambda name: os.path.lexists(f"{folder}/{name}.started.json"), names)
            ]
            for name in there:
                ends = ("started.json", "exit.json", "stdout", "stderr")
                yield from (f"{folder}/{name}.{end}" for end in ends)
                if kind != "setup":
                    yield from _checks_of(folder, name)
            if not there:
                break


def _is_intent(path: Path) -> bool:
    try:
        return bool(read_intent(path))
    except (StateError, OSError):
        return False
