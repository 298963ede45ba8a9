"""THE SOLE WRITER of state files: lock, read, change, intent, replace, commit; all of it or none.

The intent is the commit point. Before it nothing has changed; after it any writing command finishes.
Above 500 lines, as one transaction and its recovery read together: their order is what makes it safe.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import HELD, Refusal, StateError
from orchestrator.redaction import redactor_of
from orchestrator.state import ALWAYS, Tree, is_owned, named_paths, owned_paths
from orchestrator.state.document import merge_conflicts
from orchestrator.state.events import Event
from orchestrator.state.transition import Transition, transition
from orchestrator.store._replace import Files, write_intent
from orchestrator.store.intent import Move, awaited_branch, decided, digest, read_intent, waiting
from orchestrator.store.landing import Landing, advance, left_out_of, refuse_elsewhere, refuse_unready
from orchestrator.store.places import in_event, without_new_secrets, without_places
from orchestrator.store.read import SAVING, FilesRead
from orchestrator.store.repo import RepoBlocked, UserRepo
from orchestrator.store.uncommitted import LeftByRuns, forget_written, note_written, written_by_runs
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from tickets.wording import some_of
from workers.files.locks import POLL, FairQueue, try_lock
from workers.git.run import Repository
from workers.worktree.change import Change as ChangedPath

LOCK_WAIT = 30.0
"""Seconds to wait for another command that is writing."""

SESSIONS = "ai_memory"
"""The family whose sessions show all that a lead changes."""

ARCHIVES = ("docs/history", "docs/decisions")
"""Where files are written that no event changes."""

LANDS = "a landing waits to be completed"
DECIDED = "the change is decided, and waits to be completed"
SAVED = "the state files are saved, their commit waits"

Change = Callable[[Tree], Mapping[str, bytes | None]]
"""From texts by path to new ones; None for a file that goes."""


class Recorded(Value):
    """The result of a transaction."""

    changed: tuple[str, ...]
    commit: str | None
    problems: tuple[Problem, ...]
    """A commit that is still to be made, a path that another program changed; warnings and errors."""
    left: tuple[tuple[int, Problem], ...] = ()
    """Which of a run's events some file of a family does not show, and why; among the problems, too."""


class Store:
    """The state files of one repository, as they are in one of its work trees."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._root = repository.root
        self._own = repository.own
        self._intent = decided(repository, "intent")
        self._landing = decided(repository, "landing")
        self._files = Files(repository.root, decided(repository, "beside"))
        self._repo = UserRepo(repository)
        self._redactor = redactor_of(repository.root, os.environ)

    def record(
        self,
        events: Sequence[Event],
        *,
        families: Collection[str],
        message: str,
        commit: bool,
        branch: str | None = None,
        is_run: bool = False,
    ) -> Recorded:
        """Make the files of the families that are on show the events, and commit them if asked.

        Raises StateError where a file cannot show an event; then nothing was changed. What a run records
        (committed on `branch`, where one is given) only needs the canonical files.
        """
        events = [in_event(event, self._root, self._redactor) for event in events]
        found = Transition({})

        def showing(tree: Tree, *, leaves: bool = False) -> Mapping[str, bytes | None]:
            nonlocal found
            entered, odd = self._of_sessions(tree, events, families, leaves=leaves)
            found = transition(tree, [*events, *entered], families, leaves=leaves)
            found = found._replace(left=(*found.left, *((len(events), problem) for problem in odd)))
            return found.texts

        concerned = owned_paths(ALWAYS if is_run else families)
        wanted = _Wanted(showing, message if commit else None, branch, concerned)
        if is_run:
            wanted = wanted._replace(leaving=partial(showing, leaves=True), waits=not message)
        done = self._change(wanted)
        told = tuple(dict.fromkeys(problem for _, problem in found.left))
        return done._replace(problems=(*done.problems, *told), left=found.left)

    def record_on(
        self, ref: str, events: Sequence[Event], *, families: Collection[str], message: str
    ) -> Recorded:
        """Make the files of a ref's last commit show a run's events, and commit them there.

        For work that is on a ref of the run alone: what is checked out does not have it, and stays as it is.
        Raises StateError where a canonical file cannot show an event; then nothing was changed.
        """
        events = [in_event(event, self._root, self._redactor) for event in events]
        message = without_places(message, self._root)
        with self._locked():
            while True:
                at = self._repo.value_of(ref) or "HEAD"
                tree = FilesRead(lambda path, at=at: self._repo.committed(path, at) or None)  # type: ignore[misc]
                found = transition(tree, events, families, leaves=True)
                told = tuple(dict.fromkeys(problem for _, problem in found.left))
                texts = {path: text for path, text in found.texts.items() if text and text != tree[path]}
                made = self._repo.commit_on(ref, texts, message) if texts else None
                if made or not texts:
                    return Recorded(tuple(sorted(texts)), made, told, found.left)

    def check(self, events: Sequence[Event]) -> None:
        """Raise StateError where the canonical files, as they stand, could not show a run's events.

        Raises RepoBlocked where a decided change waits for another branch.
        """
        self._refuse_away()
        while True:
            now = FilesRead(self._files.text, named_paths(ALWAYS))
            try:
                _refuse_conflicts(now, now)
                transition(now, events, ALWAYS)
            except StateError:
                if self._was_saved(now):
                    continue
                raise
            return

    def write(self, texts: Mapping[str, bytes], *, message: str, commit: bool) -> Recorded:
        """Write whole files (those that `init` creates or completes) as one change."""
        return self.change(lambda _: texts, paths=tuple(texts), message=message, commit=commit)

    def change(
        self,
        function: Change,
        *,
        paths: Sequence[str] = (),
        also: Sequence[str] = (),
        message: str,
        commit: bool,
    ) -> Recorded:
        """Make files what a function makes of their texts, as one change; a concurrent manual edit is kept.

        The function gets the canonical files and `paths`, and may be called again; new files are among
        `paths`. Those of `also` are committed with it as they are. Raises what the function raises, nothing
        changed.
        """
        read = (*owned_paths(ALWAYS), *paths)
        return self._change(_Wanted(function, message if commit else None, None, read, read, tuple(also)))

    def land(self, landing: Landing) -> list[Problem]:
        """Move branch, index and work tree to a landing commit. Raises RepoBlocked with nothing changed."""
        with self._locked():
            before = self._finish()
            if self._landing.exists():
                raise RepoBlocked(*before)
            refuse_unready(self._repo, landing)
            landing = landing._replace(left_out=left_out_of(self._repo, landing))
            write_intent(self._landing, landing._asdict())
            return self._finish_landing()

    def finish(self) -> list[Problem]:
        """Finish what an earlier command had decided and could not complete."""
        with self.settled() as problems:
            return problems

    @contextlib.contextmanager
    def settled(self) -> Iterator[list[Problem]]:
        """Finish what was decided, and block landings and changes of state during the block.

        A process that reads branch, index and work tree during a landing sees it half made, as open changes.
        Where nothing was ever written there is no landing, and no file is created.
        """
        if not (self._own / "store.lock").exists():
            yield []
            return
        with self._locked():
            yield self._finish()

    def pending(self) -> list[str]:
        """Describe what is decided and not complete, without completing it."""
        return waiting(self._repository)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._own.mkdir(parents=True, exist_ok=True)
        path = self._own / "store.lock"
        try:
            with FairQueue(self._own / "turns").turn(LOCK_WAIT) as left:
                release = _lock_free(path) or _lock_patiently(path, left)
        except TimeoutError:
            problem = Problem(str(path), "another orchestrate is writing", "try again when it has ended")
            raise Refusal(problem, exit_code=HELD) from None
        try:
            yield
        finally:
            release()

    def _change(self, wanted: "_Wanted") -> Recorded:
        if wanted.message:
            said = self._redactor.clean(without_places(wanted.message, self._root))
            wanted = wanted._replace(message=said)
        self._refuse_unready(wanted)
        with self._locked():
            problems = self._finish()
            self._refuse_away()
            waits = self._intent.exists()
            try:
                changed, hindered = self._transact(wanted)
            except BaseException:
                # After any error before the intent no file of ours stays beside the targets.
                self._sweep()
                raise
            # A commit that still waits was reported already, before the change; and has been waited for.
            made, more = self._finish_commit(is_patient=not waits, is_run=bool(wanted.branch))
            told = [problem for problem in problems if problem not in more]
            return Recorded(tuple(changed), made, (*told, *hindered, *more))

    def _refuse_unready(self, wanted: "_Wanted") -> None:
        """Raise where a command of the lead's could not commit, or the user is about to merge a state file.

        A run's results are saved all the same, in files that are no conflict, and are those of its branch:
        in those of another they would be in the way of the switch back, and be lost with them.
        """
        if wanted.branch:
            if away := self._away_from(wanted.branch):
                raise RepoBlocked(*away)
            return
        if unmerged := self._repo.unmerged(wanted.concerned):
            raise StateError(*unmerged)
        if wanted.message and (closed := self._repo.closed_folders()):
            raise RepoBlocked(*closed)

    def _finish(self) -> list[Problem]:
        problems = self._finish_landing()
        if self._intent.exists():
            if away := self._away():
                return [*problems, *away]
            problems += self._complete(self._waiting())
            problems += self._restore()
            problems += self._finish_commit()[1]
        self._sweep()
        return problems

    def _finish_landing(self) -> list[Problem]:
        stated = read_intent(self._landing)
        if not stated:
            return []
        changes = tuple(ChangedPath(*change) for change in stated.pop("changes"))
        try:
            problems = advance(self._repo, Landing(**stated, changes=changes))
        except RepoBlocked as blocked:
            return [p._replace(what=f"{p.what}; {LANDS}") for p in blocked.problems]
        except OSError as error:
            return [_hindered(error, LANDS)]
        self._drop(self._landing)
        return problems

    def _sweep(self) -> None:
        """Remove what a command left that was killed before its commit point."""
        folders = {self._root / folder for folder in ARCHIVES}
        folders |= {self._files.target(path).parent for path in named_paths(ALWAYS)}
        self._files.sweep(folders, self._waiting())
        with contextlib.suppress(OSError):
            for left in self._own.glob("*.tmp"):
                left.unlink(missing_ok=True)
        for left in (*self._own.glob("commit-*"), *(self._root / ".taskers").glob("landing-*")):
            shutil.rmtree(left, ignore_errors=True)

    def _waiting(self) -> list[Move]:
        return [Move(*move) for move in (read_intent(self._intent) or {"moves": []})["moves"]]

    def _away_from(self, branch: str) -> tuple[Problem, ...]:
        """Return why the files of a branch cannot be written: the user is on another one."""
        if self._repo.head().branch == branch:
            return ()
        try:
            refuse_elsewhere(self._repo, branch)
        except RepoBlocked as blocked:
            return blocked.problems
        return ()

    def _away(self) -> list[Problem]:
        """Return why what is decided cannot be completed where the user is now: it is another branch's."""
        branch = awaited_branch(self._repository)
        found = self._away_from(branch) if branch else ()
        return [problem._replace(what=f"{problem.what}; {DECIDED}") for problem in found]

    def _refuse_away(self) -> None:
        """Raise RepoBlocked where a decided change waits for another branch: no change is mixed with it."""
        if self._intent.exists() and (away := self._away()):
            raise RepoBlocked(*away)

    # A transaction

    def _of_sessions(
        self, tree: Tree, events: Sequence[Event], families: Collection[str], *, leaves: bool
    ) -> tuple[list[Event], list[Problem]]:
        """Return what the history of sessions gets of some events, and why it gets nothing."""
        if SESSIONS not in families:
            return [], []
        from orchestrator.store.sessions import session_events  # noqa: PLC0415 - a family that is off costs nothing

        try:
            found = session_events(self._repository, self._repo, tree, events, families)
        except (ProblemError, OSError) as error:
            if not leaves:
                raise
            problems = error.problems if isinstance(error, ProblemError) else [_hindered(error, "")]
            return [], [problem._replace(severity="warning") for problem in problems]
        return [in_event(event, self._root, self._redactor) for event in found], []

    def _transact(self, wanted: "_Wanted") -> tuple[list[str], list[Problem]]:
        placed: dict[str, tuple[bytes | None, bytes | None]] = {}
        """The old and the new text of files that are replaced already: no event counts twice."""
        missed: Sequence[Move] = ()
        closed: dict[str, OSError] = {}
        change = wanted.change
        earlier = read_intent(self._intent)
        edited: list[str] = []
        while True:
            now = FilesRead(partial(self._text, closed), wanted.paths)
            placed = {path: pair for path, pair in placed.items() if now[path] != pair[0]}
            try:
                before = {path: old for path, (old, _) in placed.items()}
                new = change(FilesRead(now.__getitem__, known={**now, **before}))
                after = {path: text and self._without_new_secrets(text, now) for path, text in new.items()}
                _refuse_conflicts(now, after if wanted.branch else named_paths(ALWAYS))
            except Exception:
                if self._was_saved(now):
                    continue
                if wanted.leaving and change is not wanted.leaving:
                    change = wanted.leaving
                    continue
                if placed:
                    # A manual edit removed its subject after half of it was made: the rest as planned.
                    return sorted(placed), self._complete(self._waiting())
                self._withdraw(earlier)
                raise
            # A file that shows the change and was saved by a person since is theirs.
            texts = {
                path: text
                for path, text in after.items()
                if text != now[path] and (path not in placed or now[path] == placed[path][1])
            }
            moves = self._beside(texts, now, closed if wanted.leaving else None)
            if moves is None:
                continue
            waiting = (read_intent(self._intent) or {}).get("commit")
            changed = sorted({*placed, *texts})
            if wanted.message and not (waiting or placed or edited):
                edited = self._edited(texts, now)
            message = _with_edited(wanted.message, edited)
            made = self._commit_of(changed, wanted._replace(message=message), waiting)
            if wanted.waits and texts:
                note_written(self._repository, now, texts)
            if moves or placed or (wanted.also and made is not waiting):
                write_intent(self._intent, {"moves": moves, "commit": made})
            try:
                self._files.discard(missed)
                missed = self._files.move(moves)
                if not missed:
                    self._files.clear_note()
                    return changed, _told_edited(edited)
            except OSError as error:
                return changed, [_hindered(error, DECIDED)]
            # A manual edit came between the check and the move: compute again from its text.
            moved = {move.path for move in moves} - {move.path for move in missed}
            placed |= {path: (placed.get(path, (now[path],))[0], texts[path]) for path in moved}

    def _without_new_secrets(self, text: bytes, now: Tree) -> bytes:
        return without_new_secrets(text, now.values(), self._redactor)

    def _text(self, closed: Mapping[str, OSError], path: str) -> bytes | None:
        if path in closed:
            why = (closed[path].strerror or "unknown reason").lower()
            raise StateError(
                Problem(path, f"cannot be written: {why}", "make its folder one that you may write to")
            )
        return self._files.text(path)

    def _beside(
        self, texts: Mapping[str, bytes | None], now: FilesRead, closed: dict[str, OSError] | None
    ) -> list[Move] | None:
        """Write new texts beside their targets; None where they are to be computed again.

        Files of families that cannot be written are added to `closed`, where it is given.
        """
        try:
            moves = self._files.write_beside(texts, now)
        except OSError:
            if closed is None or not self._close(texts, now, closed):
                raise
            return None
        # A person may have saved one of these files while we were computing.
        if self._files.are_current(moves):
            return moves
        self._files.discard(moves)
        return None

    def _close(self, texts: Mapping[str, bytes | None], now: FilesRead, closed: dict[str, OSError]) -> bool:
        """Find the files of families that cannot be written: a run goes on without them."""
        known = len(closed)
        self._sweep()
        for path in (path for path in texts if not is_owned(path, ALWAYS)):
            try:
                self._files.discard(self._files.write_beside({path: texts[path]}, now))
            except OSError as error:
                closed[path] = error
        return len(closed) > known

    def _commit_of(
        self, changed: Sequence[str], wanted: "_Wanted", waiting: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Return the commit to make, with what one that waits was to commit; None for none."""
        message, branch = wanted.message, wanted.branch
        changed = [*changed, *wanted.also]
        if not (message and changed):
            return waiting
        changed += self._left_by_runs()
        # A state file that is a link is committed where it leads to.
        root = self._files.root
        paths: set[str] = set()
        for path in changed:
            # Where a folder is a link, git knows nothing by its name.
            parent = (root / path).parent.resolve()
            paths |= {
                where.relative_to(root).as_posix()
                for where in (self._files.target(path), parent / Path(path).name)
            }
        saved: dict[str, list[str]] = {}
        if waiting:
            saved = waiting.get("saved", {})
            paths |= set(waiting["paths"])
            branch = branch or waiting["branch"]
            if message not in waiting["message"]:
                message = f"{waiting['message']}\n\n{message}"
            else:
                message = waiting["message"]
        return {"paths": sorted(paths), "message": message, "branch": branch, "saved": saved}

    def _left_by_runs(self) -> list[str]:
        """List the files that runs have written without a commit, and nobody else has since."""
        found = []
        for path, written in written_by_runs(self._repository).items():
            with contextlib.suppress(StateError, Refusal):
                found += [path] * (digest(self._files.text(path)) == written.after)
        return found

    def _edited(self, texts: Iterable[str], now: FilesRead) -> list[str]:
        """List the files with changes that somebody else has made and not committed."""
        ours = written_by_runs(self._repository)
        doubtful = self._repo.differing({path: now[path] for path in texts})
        return [path for path in doubtful if self._is_edited(path, now[path], ours.get(path))]

    def _is_edited(self, path: str, text: bytes | None, ours: LeftByRuns | None) -> bool:
        if ours is None or digest(text) != ours.after:
            return True
        # As the work tree has it: the digest is of a text in it.
        return digest(self._repo.checked_out(path)) != ours.before

    def _withdraw(self, earlier: dict[str, Any] | None) -> None:
        """Withdraw a decision of which nothing has been carried out."""
        if earlier != read_intent(self._intent):
            write_intent(self._intent, earlier or {"moves": [], "commit": None})
        if earlier is None:
            self._drop(self._intent)

    def _was_saved(self, texts: FilesRead) -> bool:
        """Return whether a file has changed since it was read: its fault may be a half-written save."""
        until = time.monotonic() + SAVING
        while (is_same := FilesRead(self._files.text, texts) == texts) and time.monotonic() < until:
            time.sleep(SAVING / 5)
        return not is_same

    # Recovery

    def _complete(self, moves: Sequence[Move]) -> list[Problem]:
        """Finish moves whose computation is not known any more: a manual edit is merged, never lost."""
        problems = []
        while missed := self._files.move(moves):
            move, *moves = missed
            if move.goes:
                self._files.discard([move])  # what a person has saved since stays
                continue
            hand, was = self._files.text(move.path), move.was.encode("latin-1")
            merged = hand and self._merged(hand, was, self._files.new_text(move))
            if merged:
                moves = [*self._files.write_beside({move.path: merged}, {move.path: hand}), *moves]
                write_intent(self._intent, {**(read_intent(self._intent) or {}), "moves": moves})
                self._files.discard([move])
            else:
                kept = self._files.keep(move)
                what = "was edited during a change by orchestrate; your text is kept"
                problems.append(Problem(move.path, what, f"copy what you need from {kept}"))
        return problems

    def _merged(self, hand: bytes, was: bytes, ours: bytes) -> bytes | None:
        try:
            return self._repo.merged(hand, was, ours)
        except RepoBlocked:
            return None

    def _restore(self) -> list[Problem]:
        """Restore files that waited for their commit and were reset, as `git rebase --abort` does."""
        commit = (read_intent(self._intent) or {}).get("commit") or {}
        saved = {
            path: [one.encode("latin-1") for one in pair] for path, pair in commit.get("saved", {}).items()
        }
        lost = {}
        for path, (_, ours) in saved.items():
            now = self._files.text(path)
            if now != ours and now == self._repo.committed(path):
                lost[path] = ours
        moves = self._files.write_beside(lost, {path: was for path, (was, _) in saved.items()})
        if moves:
            write_intent(self._intent, {"moves": moves, "commit": commit})
        return self._complete(moves)

    def _save(self, repo: UserRepo, commit: dict[str, Any]) -> None:
        """Record what waits for a commit: a reset of the work tree would lose it."""
        saved = {}
        with contextlib.suppress(OSError, RepoBlocked):
            for path in commit["paths"]:
                pair = (repo.committed(path), self._files.text(path))
                if pair[1] is not None:
                    saved[path] = [one.decode("latin-1") for one in pair if one is not None]
            write_intent(self._intent, {"moves": [], "commit": {**commit, "saved": saved}})

    def _finish_commit(
        self, *, is_patient: bool = True, is_run: bool = True
    ) -> tuple[str | None, list[Problem]]:
        if self._files.are_left(self._waiting()):
            return None, []  # what it would commit is not there yet
        wanted, made = (read_intent(self._intent) or {}).get("commit"), None
        if wanted:
            try:
                refuse_elsewhere(self._repo, wanted.get("branch"))
                if is_run and (unmerged := self._repo.unmerged(wanted["paths"])):
                    raise RepoBlocked(*unmerged)  # noqa: TRY301 - as what git itself refuses
                made = self._repo.commit_paths(wanted["paths"], wanted["message"], is_patient=is_patient)
            except (RepoBlocked, OSError) as error:
                self._save(self._repo, wanted)
                problems = error.problems if isinstance(error, RepoBlocked) else [_hindered(error, "")]
                return None, [problem._replace(what=f"{problem.what}; {SAVED}") for problem in problems]
            forget_written(self._repository, wanted["paths"])
        self._drop(self._intent)
        return made, []

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def _with_edited(message: str | None, edited: Sequence[str]) -> str | None:
    """Return the message of a commit, which says that it has more than the change: edits before it."""
    if not message or not edited:
        return message
    subject, _, rest = message.partition("\n")
    bullet = f"- Also what was changed in {some_of(edited)} before, and not committed"
    rest = rest.lstrip("\n")
    return f"{subject}\n\n{bullet}\n" + (f"\n{rest}" if rest and not rest.startswith("- ") else rest)


def _told_edited(edited: Sequence[str]) -> list[Problem]:
    what = "had changes that were not committed: the commit of this change has them, too"
    do = "commit your own edits first where they are to stand under their own name"
    return [Problem(path, what, do, "info") for path in edited]


def _refuse_conflicts(tree: Tree, paths: Iterable[str]) -> None:
    if found := merge_conflicts({path: tree[path] for path in paths}):
        raise StateError(*found)


class _Wanted(NamedTuple):
    """What a transaction is asked for."""

    change: Change
    message: str | None
    """That of its commit; None for no commit."""
    branch: str | None
    """That of a run whose results are saved, where its commit is made."""
    concerned: Sequence[str]
    """The patterns of the files that must not be in the middle of a merge."""
    paths: Sequence[str] = ()
    """The files that are read before the change is asked for."""
    also: Sequence[str] = ()
    """The files that are committed with the change as they are."""
    leaving: Change | None = None
    """The change that leaves files of families as they are which cannot show it: a run goes on without."""
    waits: bool = False
    """Whether the next commit takes along what is changed."""


def _lock_free(path: Path) -> Callable[[], None] | None:
    """Acquire filelock's lock where it is free; None where it is held, or is no plain file.

    The lock is flock(2) on the file. To import filelock takes longer than a change of state.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    # A file that was deleted or has a second name locks out no other process.
    if try_lock(descriptor, fcntl.LOCK_EX) and os.fstat(descriptor).st_nlink == 1:
        return partial(_unlock, descriptor)
    os.close(descriptor)
    return None


def _unlock(descriptor: int) -> None:
    # A process that was forked meanwhile has the file open as well, and would keep the lock for its life.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _lock_patiently(path: Path, seconds: float) -> Callable[[], None]:
    """Wait for the lock. Raises TimeoutError."""
    from filelock import FileLock  # noqa: PLC0415 - for start-up time: see `_lock_free`

    lock = FileLock(path, poll_interval=POLL)
    lock.acquire(timeout=seconds)
    return lock.release


def _hindered(error: OSError, how_far: str) -> Problem:
    said = (error.strerror or "cannot be used").lower() + (how_far and f"; {how_far}")
    return Problem(str(error.filename or "git"), said, "fix it, then run `orchestrate resume`")
