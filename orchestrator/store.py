"""THE SOLE WRITER of state files: lock, read, change, intent, replace, commit; all of it or none.

The intent is the commit point. Before it nothing has changed; after it any writing command finishes.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from orchestrator.events import Event
from orchestrator.landing import Landing, advance, refuse_elsewhere, refuse_unready
from orchestrator.refusal import HELD, Refusal
from orchestrator.repo import RepoBlocked, UserRepo
from orchestrator.state import DOCUMENTS
from orchestrator.state.errors import StateError
from tickets.problems import Problem
from workers.changes import Change
from workers.git import Repository

LOCK_WAIT = 30.0
"""Seconds that a command waits for another one that is writing."""

ARCHIVES = ("docs/history", "docs/decisions")
"""Where files are written that no event changes."""

Texts = dict[str, bytes | None]


class Recorded(NamedTuple):
    """What became of a transaction."""

    changed: tuple[str, ...]
    commit: str | None
    problems: tuple[Problem, ...]
    """A commit that could not be made yet, a path that somebody changed meanwhile; warnings and errors."""


class Store:
    """One repository's state files."""

    def __init__(self, repository: Repository) -> None:
        self._root = repository.root
        self._own = repository.own
        self._intent = repository.own / "intent.json"
        self._landing = repository.own / "landing.json"
        self._repository = repository

    def record(
        self, events: Sequence[Event], *, message: str, commit: bool, branch: str | None = None
    ) -> Recorded:
        """Make the files show the events, and commit them if asked (on `branch`, where one is given).

        Raises StateError where a file cannot show an event; then nothing was changed.
        """
        return self._change(lambda texts: _apply(texts, events), message if commit else None, branch)

    def check(self, events: Sequence[Event]) -> None:
        """Raise StateError where the files, as they stand, could not show the events; writes nothing."""
        _apply(self._read(), events)

    def write(self, texts: Mapping[str, bytes], *, message: str, commit: bool) -> Recorded:
        """Write whole files (those that `init` creates or completes) as one change."""
        return self.change(lambda _: texts, paths=tuple(texts), message=message, commit=commit)

    def change(
        self,
        function: Callable[[Texts], Mapping[str, bytes]],
        *,
        paths: Sequence[str] = (),
        also: Sequence[str] = (),
        message: str,
        commit: bool,
    ) -> Recorded:
        """Make files what a function makes of their texts, as one change; a hand edit in between is in them.

        The function gets the state files and `paths`, and may be called again; new files are among `paths`.
        Those of `also` are committed with it as they stand. Raises what the function raises, nothing changed.
        """
        return self._change(function, message if commit else None, None, paths, also)

    def land(self, landing: Landing) -> list[Problem]:
        """Move branch, index and work tree to a landing commit. Raises RepoBlocked with nothing changed."""
        with self._locked():
            before = self._finish()
            if self._landing.exists():
                raise RepoBlocked(*before)
            refuse_unready(UserRepo(self._repository), landing)
            self._write_intent(self._landing, landing._asdict())
            return self._finish_landing()

    def finish(self) -> list[Problem]:
        """Finish whatever an earlier command had decided and could not complete."""
        with self._locked():
            return self._finish()

    def pending(self) -> list[str]:
        """Say what waits to be finished, without finishing it."""
        found = []
        if self._intent.exists():
            found.append("a change of state files was decided and waits for its commit")
        if self._landing.exists():
            found.append("a landing was decided and waits to be completed")
        return found

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._own.mkdir(parents=True, exist_ok=True)
        path = self._own / "store.lock"
        try:
            with FileLock(path, timeout=LOCK_WAIT):
                yield
        except Timeout:
            problem = Problem(str(path), "another orchestrate is writing", "try again when it has ended")
            raise Refusal(problem, exit_code=HELD) from None

    def _change(
        self,
        change: Callable[[Texts], Mapping[str, bytes]],
        message: str | None,
        branch: str | None,
        paths: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> Recorded:
        with self._locked():
            problems = self._finish()
            changed = self._transact(change, message, branch, paths, also)
            made, more = self._finish_commit()
            # A commit that still waits was told of already, before the change.
            told = [problem for problem in problems if problem not in more]
            return Recorded(tuple(changed), made, (*told, *more))

    def _finish(self) -> list[Problem]:
        problems = self._finish_landing()
        intent = _read_intent(self._intent)
        if intent:
            problems += self._replace(intent["moves"])
            problems += self._finish_commit()[1]
        self._sweep()
        return problems

    def _finish_landing(self) -> list[Problem]:
        stated = _read_intent(self._landing)
        if not stated:
            return []
        changes = tuple(Change(*change) for change in stated.pop("changes"))
        try:
            problems = advance(UserRepo(self._repository), Landing(**stated, changes=changes))
        except RepoBlocked as blocked:
            return [p._replace(what=f"{p.what}; a landing waits to be completed") for p in blocked.problems]
        self._drop(self._landing)
        return problems

    def _sweep(self) -> None:
        """Take away what a command that was killed before its commit point had written beside the files."""
        intent = _read_intent(self._intent)
        named = {move["temporary"] for move in (intent or {}).get("moves", ())}
        archives = (self._root / folder for folder in ARCHIVES)
        for folder in {*archives, *(self._target(path).parent for path in _paths())}:
            for left in folder.glob(".*.orchestrate-*.tmp"):
                if str(left) not in named:
                    left.unlink(missing_ok=True)
        for left in self._own.glob("*.tmp"):
            left.unlink(missing_ok=True)
        for left in (*self._own.glob("commit-*"), *(self._root / ".taskers").glob("landing-*")):
            shutil.rmtree(left, ignore_errors=True)

    # A transaction

    def _transact(
        self,
        change: Callable[[Texts], Mapping[str, bytes]],
        message: str | None,
        branch: str | None,
        paths: Sequence[str],
        also: Sequence[str],
    ) -> list[str]:
        was: dict[str, tuple[bytes | None, bytes]] = {}
        """What stood in files that are replaced already, and what stands there: no event is applied twice."""
        while True:
            now = self._read(paths)
            was = {path: (old, new) for path, (old, new) in was.items() if now[path] == new}
            after = change({**now, **{path: old for path, (old, _) in was.items()}})
            moves = [
                self._write_beside(path, now.get(path, self._text(path)), text)
                for path, text in sorted(after.items())
                if text != now.get(path, self._text(path))
            ]
            # Somebody may have saved one of these files by hand while we were computing.
            if any(_digest(self._text(move["path"])) != move["old"] for move in moves):
                for move in moves:
                    Path(move["temporary"]).unlink(missing_ok=True)
                continue
            waiting = (_read_intent(self._intent) or {}).get("commit")
            changed = sorted({*was, *(move["path"] for move in moves)})
            wanted = [*changed, *also]
            made = self._commit_of(wanted, message, branch, waiting) if message and wanted else waiting
            if not moves:
                if also and made is not waiting:
                    self._write_intent(self._intent, {"moves": [], "commit": made})
                return changed
            self._write_intent(self._intent, {"moves": moves, "commit": made})
            missed = {move["path"]: move for move in self._move(moves)}
            if missed:
                # A hand was faster between the check and the move: compute again from its text.
                for late in missed.values():
                    Path(late["temporary"]).unlink(missing_ok=True)
                moved = (move["path"] for move in moves if move["path"] not in missed)
                was |= {path: (was[path][0] if path in was else now.get(path), after[path]) for path in moved}
                continue
            if made is None:
                self._drop(self._intent)
            return changed

    def _commit_of(
        self, changed: Sequence[str], message: str, branch: str | None, waiting: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        # A state file that is a link is committed where it leads to.
        root = self._root.resolve()
        paths = {*changed, *(self._target(path).relative_to(root).as_posix() for path in changed)}
        if waiting:
            paths |= set(waiting["paths"])
            if message not in waiting["message"]:
                message = f"{waiting['message']}\n\n{message}"
            else:
                message = waiting["message"]
        return {"paths": sorted(paths), "message": message, "branch": branch}

    def _read(self, more: Sequence[str] = ()) -> Texts:
        return {path: self._text(path) for path in (*_paths(), *more)}

    def _text(self, path: str) -> bytes | None:
        try:
            return self._target(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(
                Problem(path, f"cannot be read: {error.strerror}", "put the file back")
            ) from error

    def _target(self, path: str) -> Path:
        """Follow a state file that is a symlink, as long as it stays in the repository."""
        target = (self._root / path).resolve()
        if not target.is_relative_to(self._root.resolve()):
            raise Refusal(Problem(path, f"is a link to {target}, outside the repository", "make it a file"))
        return target

    def _write_beside(self, path: str, old: bytes | None, text: bytes) -> dict[str, str]:
        target = self._target(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.orchestrate-{os.getpid()}.tmp")
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        _write_synced(temporary, text, mode)
        return {"path": path, "temporary": str(temporary), "target": str(target),
                "old": _digest(old), "new": _digest(text)}  # fmt: skip

    def _move(self, moves: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Replace each target that still holds what it is to be replaced for; give the other moves."""
        missed = []
        for move in moves:
            temporary, target = Path(move["temporary"]), Path(move["target"])
            if not temporary.exists():
                continue
            if _digest(self._text(move["path"])) in (move["old"], move["new"]):
                temporary.replace(target)
                _sync_folder(target.parent)
            else:
                missed.append(move)
        return missed

    def _replace(self, moves: Sequence[Mapping[str, str]]) -> list[Problem]:
        """Finish somebody else's moves: how they were computed is not known any more, so no text is lost."""
        problems = []
        for move in self._move(moves):
            kept = Path(move["target"]).with_name(f"{Path(move['target']).name}.orchestrate-kept")
            Path(move["temporary"]).replace(kept)
            what = "was changed by hand while a change of ours was under way; yours stands"
            problems.append(Problem(move["path"], what, f"take over what you need from {kept.name}"))
        return problems

    def _finish_commit(self) -> tuple[str | None, list[Problem]]:
        wanted = (_read_intent(self._intent) or {}).get("commit")
        made = None
        if wanted:
            repo = UserRepo(self._repository)
            try:
                refuse_elsewhere(repo, wanted.get("branch"))
                made = repo.commit_paths(wanted["paths"], wanted["message"])
            except RepoBlocked as blocked:
                return None, [
                    problem._replace(what=f"{problem.what}; the state files are saved, their commit waits")
                    for problem in blocked.problems
                ]
        self._drop(self._intent)
        return made, []

    def _write_intent(self, path: Path, intent: Mapping[str, Any]) -> None:
        temporary = path.with_suffix(".tmp")
        _write_synced(temporary, json.dumps(intent).encode(), 0o644)
        temporary.replace(path)
        _sync_folder(path.parent)

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def _paths() -> list[str]:
    return [path for document in DOCUMENTS for path in document.OWNS if not set(path) & set("*?[{")]


def _apply(texts: Texts, events: Sequence[Event]) -> dict[str, bytes]:
    changed: dict[str, bytes] = {}
    for event in events:
        for document in DOCUMENTS:
            new = document.changes(texts, event)
            changed.update(new)
            texts.update(new)
    return changed


def _read_intent(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _digest(text: bytes | None) -> str:
    return "absent" if text is None else hashlib.sha256(text).hexdigest()


def _write_synced(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
