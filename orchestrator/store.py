"""THE SOLE WRITER of state files: lock, read, change, intent, replace, commit; all of it or none.

The intent is the commit point. Before it nothing has changed; after it any writing command finishes.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from orchestrator.events import Event
from orchestrator.refusal import HELD, Refusal
from orchestrator.repo import Landing, RepoBlocked, UserRepo
from orchestrator.state import DOCUMENTS
from tickets.problems import Problem
from workers.changes import Change
from workers.git import Repository

LOCK_WAIT = 30.0
"""Seconds that a command waits for another one that is writing."""

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

    def record(self, events: Sequence[Event], *, message: str, commit: bool) -> Recorded:
        """Make the files show the events, and commit them if asked.

        Raises StateError where a file cannot show an event; then nothing was changed.
        """
        with self._locked():
            problems = self._finish()
            changed = self._transact(lambda texts: _apply(texts, events), message if commit else None)
            made, more = self._finish_commit()
            return Recorded(tuple(changed), made, (*problems, *more))

    def check(self, events: Sequence[Event]) -> None:
        """Raise StateError where the files, as they stand, could not show the events; writes nothing."""
        _apply(self._read(), events)

    def write(self, texts: Mapping[str, bytes], *, message: str, commit: bool) -> Recorded:
        """Write whole files (those that `init` creates or completes) as one change."""
        with self._locked():
            problems = self._finish()
            changed = self._transact(lambda _: dict(texts), message if commit else None)
            made, more = self._finish_commit()
            return Recorded(tuple(changed), made, (*problems, *more))

    def land(self, landing: Landing) -> list[Problem]:
        """Move branch, index and work tree to a landing commit. Raises RepoBlocked with nothing changed."""
        with self._locked():
            self._finish()
            repo = UserRepo(self._repository)
            repo.refuse_unready(landing)
            self._write_intent(self._landing, landing._asdict())
            problems = repo.advance(landing)
            self._drop(self._landing)
            return problems

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

    def _finish(self) -> list[Problem]:
        problems: list[Problem] = []
        stated = _read_intent(self._landing)
        if stated:
            changes = tuple(Change(*change) for change in stated.pop("changes"))
            problems += UserRepo(self._repository).advance(Landing(**stated, changes=changes))
            self._drop(self._landing)
        intent = _read_intent(self._intent)
        if intent:
            problems += self._replace(intent["moves"])
            problems += self._finish_commit()[1]
        return problems

    # A transaction

    def _transact(self, change: Callable[[Texts], Mapping[str, bytes]], message: str | None) -> list[str]:
        while True:
            before = self._read()
            after = {path: text for path, text in change(dict(before)).items() if text != self._text(path)}
            moves = [self._write_beside(path, text) for path, text in sorted(after.items())]
            # Somebody may have saved one of these files by hand while we were computing.
            if any(_digest(self._text(move["path"])) != move["old"] for move in moves):
                for move in moves:
                    Path(move["temporary"]).unlink(missing_ok=True)
                continue
            waiting = (_read_intent(self._intent) or {}).get("commit")
            made = {"paths": sorted(after), "message": message} if message and after else None
            if waiting and made:
                made = {"paths": sorted({*waiting["paths"], *made["paths"]}),
                        "message": f"{waiting['message']}\n\n{message}"}  # fmt: skip
            if not moves:
                return []
            self._write_intent(self._intent, {"moves": moves, "commit": made or waiting})
            if self._replace(moves):
                continue  # a hand was faster between the check and the move: compute again from its text
            if not (made or waiting):
                self._drop(self._intent)
            return sorted(after)

    def _read(self) -> Texts:
        paths = [path for document in DOCUMENTS for path in document.OWNS if not set(path) & set("*?[{")]
        return {path: self._text(path) for path in paths}

    def _text(self, path: str) -> bytes | None:
        try:
            return self._target(path).read_bytes()
        except FileNotFoundError:
            return None

    def _target(self, path: str) -> Path:
        """Follow a state file that is a symlink, as long as it stays in the repository."""
        target = (self._root / path).resolve()
        if not target.is_relative_to(self._root.resolve()):
            raise Refusal(Problem(path, f"is a link to {target}, outside the repository", "make it a file"))
        return target

    def _write_beside(self, path: str, text: bytes) -> dict[str, str]:
        target = self._target(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.orchestrate-{os.getpid()}.tmp")
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        _write_synced(temporary, text, mode)
        return {"path": path, "temporary": str(temporary), "target": str(target),
                "old": _digest(self._text(path)), "new": _digest(text)}  # fmt: skip

    def _replace(self, moves: Sequence[Mapping[str, str]]) -> list[Problem]:
        problems = []
        for move in moves:
            temporary, target = Path(move["temporary"]), Path(move["target"])
            if not temporary.exists():
                continue
            now = _digest(self._text(move["path"]))
            if now in (move["old"], move["new"]):
                temporary.replace(target)
                _sync_folder(target.parent)
            else:
                kept = target.with_name(f"{target.name}.orchestrate-kept")
                temporary.replace(kept)
                what = "was changed by hand while a change of ours was under way; yours stands"
                problems.append(Problem(move["path"], what, f"take over what you need from {kept.name}"))
        return problems

    def _finish_commit(self) -> tuple[str | None, list[Problem]]:
        intent = _read_intent(self._intent)
        wanted = (intent or {}).get("commit")
        made = None
        if wanted:
            try:
                made = UserRepo(self._repository).commit_paths(wanted["paths"], wanted["message"])
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
