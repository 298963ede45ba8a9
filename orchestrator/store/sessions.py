"""What events become in the history of sessions: whose session, its number, and what git knows of it.

A state document reads no folder and asks no git: this is gathered here, under the store's lock, so that two
processes never begin a session of the same number.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from pathlib import Path

from orchestrator.errors import StateError
from orchestrator.state import Tree, is_owned
from orchestrator.state.ai_memory.session_entries import NewEntry, entry_of, headline_of
from orchestrator.state.ai_memory.session_read import (
    FOLDER,
    NO_TASK,
    OF_RUNTIME,
    OPEN,
    Session,
    count_in,
    id_of,
    order_of,
    path_of,
    read,
)
from orchestrator.state.ai_memory.tasks import current_task
from orchestrator.state.events import (
    Event,
    HandedOver,
    RunClosed,
    RunDeployed,
    RunIntegrated,
    SessionBegun,
    SessionEnded,
    SessionEntered,
    SessionLine,
    SessionNoted,
    SessionRetired,
    SessionsArchived,
    SessionStarted,
)
from orchestrator.store.repo import CommitSeen, UserRepo
from tickets.markdown import one_line, plain
from tickets.problems import Problem
from workers.files.read import read_whole
from workers.git.run import Repository

VARIABLE = "ORCHESTRATE_SESSION"
KEPT = 15
"""How many sessions keep their files."""
IDLE = timedelta(hours=12)
"""The age of the last entry at which a session is closed that nobody has ended."""
MOST_COMMITS = 1000
"""Commits of a session that are looked at."""
SHOWN_COMMITS = 10
"""Commits of others that stand before one entry."""
_DIGITS = 10
_OPEN = re.compile(rb"""(?m)^["']?status["']?[ \t]*:[ \t]*["']?in-progress""")


def session_events(
    repository: Repository, repo: UserRepo, tree: Tree, events: Sequence[Event], families: Collection[str]
) -> list[Event]:
    """Return what becomes of the files of sessions by some events. Raises StateError, Refusal."""
    log = _Log(repository, repo, tree, families)
    return list(chain.from_iterable(map(log.of, events)))


def session_ids(root: Path) -> list[str]:
    """List the sessions of a work tree, oldest first."""
    folder = root / FOLDER
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(filter(None, (id_of(f"{FOLDER}/{path.name}") for path in paths)), key=order_of)


def open_session(sessions: Iterable[Session], lead: str, chosen: str) -> Session | None:
    """Return the session that a lead's command belongs to: the chosen one, or the lead's only open one.

    Raises StateError for one that is not there, or not open, and where the lead has two.
    """
    mine = plain(one_line(lead)).strip()
    found = [one for one in sessions if one.is_open and (one.id == chosen if chosen else one.lead == mine)]
    if chosen and not found:
        what = f"there is no open session `{plain(one_line(chosen))}`"
        raise StateError(Problem("session", what, "`orchestrate session list` shows what there is"))
    if len(found) > 1:
        named = " and ".join(f"`{one.id}`" for one in found)
        do = f"end one (`orchestrate session end --session {found[0].id}`), or set `{VARIABLE}`"
        raise StateError(Problem("session", f"{mine} has {len(found)} open sessions: {named}", do))
    return found[0] if found else None


Lines = tuple[SessionLine, ...]


class _Log:
    """The sessions as they are while a transaction is made."""

    def __init__(self, repository: Repository, repo: UserRepo, tree: Tree, families: Collection[str]) -> None:
        self._repository, self._repo, self._tree, self._families = repository, repo, tree, families
        self._ids = session_ids(repository.root)
        self._new: dict[str, Session] = {}
        """The sessions that this transaction begins."""
        self._closed: set[str] = set()
        self._told: set[str] = set()
        """The commits that this transaction tells."""
        self._headlines: dict[str, str] = {}

    def of(self, event: Event) -> Iterator[Event]:
        if isinstance(event, SessionBegun):
            yield from self._late(event.at, event.busy, besides="")
            started = self._started(event.at, event.lead, event.task_id)
            yield started
            yield from self._retired(event.at)
        elif isinstance(event, SessionsArchived):
            yield from self._late(event.at, event.busy, besides="")
            yield from self._retired(event.at)
        elif isinstance(event, SessionEnded):
            yield from self._ended(event)
        elif (entry := entry_of(event)) is not None:
            yield from self._entered(event, entry)

    def _entered(self, event: Event, entry: NewEntry) -> Iterator[Event]:
        lead, at = getattr(event, "lead", ""), event.at
        noted = event if isinstance(event, SessionNoted) else None
        session = self._session(lead, noted.session if noted else "")
        if session is None:
            if entry.joins or isinstance(event, HandedOver):
                return  # what ends with it had not begun
            started = self._started(at, lead, "")
            yield started
            session = self._new[started.path]
        own, others = self._commits(session, entry.run)
        if isinstance(event, RunIntegrated) and event.landing and not own:
            own = self._landed(session, event.landing)
        lines = _with_commits(entry.lines, own)
        if entry.with_base and self._head:
            lines = (*lines, SessionLine("Note", f"from `{self._head[:_DIGITS]}`"))
        files, commits = self._counts(session)
        headline = headline_of(entry, self._headlines.get(session.path) or _own_headline(session))
        self._headlines[session.path] = headline
        yield SessionEntered(
            session.path, entry.title, at, lines, others, joins=entry.joins, headline=headline,
            once=isinstance(event, RunDeployed | RunIntegrated | RunClosed),
            said=noted.summary if noted else "", for_next=noted.for_next if noted else "",
            files_changed=files, commits=commits, closes=isinstance(event, HandedOver),
        )  # fmt: skip

    def _ended(self, event: SessionEnded) -> Iterator[Event]:
        session = self._session(event.lead, event.session)
        if session is None:
            what = f"{plain(one_line(event.lead))} has no open session"
            raise StateError(Problem("session end", what, "`orchestrate session list` shows what there is"))
        yield from self._late(event.at, event.busy, besides=session.path)
        _, others = self._commits(session, "")
        files, commits = self._counts(session)
        yield SessionEntered(
            session.path, "Closed", event.at, before=others, said=event.summary, files_changed=files,
            commits=commits, closes=True,
        )  # fmt: skip

    def _late(self, at: datetime, busy: Collection[str], besides: str) -> Iterator[Event]:
        """Close the sessions that their leads have not ended."""
        leads = {plain(one_line(lead)).strip() for lead in busy}
        for one in self._open():
            touched = one.touched
            if one.path == besides or one.lead in leads or touched is None or at - touched < IDLE:
                continue
            self._closed.add(one.path)
            lines = (SessionLine("Note", "not ended by its lead"),)
            counts = (count_in(one.files_changed), count_in(one.commits))
            yield SessionEntered(
                one.path, "Closed", at, lines, files_changed=counts[0], commits=counts[1], closes=True,
                is_late=True,
            )  # fmt: skip

    def _retired(self, at: datetime) -> Iterator[Event]:
        """Retire old sessions, as long as a commit holds them as they are."""
        for id_ in self._ids[: -KEPT or None]:
            path = path_of(id_)
            text = self._tree.get(path)
            if text is None or path in self._closed or self._repo.committed(path) != text:
                continue
            with suppress(StateError):  # it cannot be summed up, so it stays; `validate` names it
                yield from self._line_of(read(path, text), at)

    def _line_of(self, session: Session, at: datetime) -> Iterator[Event]:
        if not session.is_open:
            summary = session.summary.removesuffix(OF_RUNTIME)
            counts = count_in(session.files_changed), count_in(session.commits)
            yield SessionRetired(session.path, session.task_id, *counts, summary, at)

    # What there is

    def _open(self) -> list[Session]:
        found = (self._read(path_of(id_)) for id_ in self._ids if path_of(id_) not in self._new)
        there = [one for one in found if one and one.is_open and one.path not in self._closed]
        return [*there, *self._new.values()]

    def _read(self, path: str) -> Session | None:
        """Read a session that is open. Raises StateError: whose it is, a damaged one does not say."""
        text = self._tree.get(path)
        return read(path, text) if text is not None and _OPEN.search(text) else None

    def _session(self, lead: str, chosen: str) -> Session | None:
        return open_session(self._open(), lead, chosen or os.environ.get(VARIABLE, ""))

    def _started(self, at: datetime, lead: str, task_id: str) -> SessionStarted:
        day = f"{at.astimezone(UTC):%Y-%m-%d}"
        others = chain.from_iterable(map(session_ids, _other_worktrees(self._repository)))
        numbers = [order_of(id_)[1] for id_ in (*self._ids, *others) if id_.startswith(f"{day}_")]
        id_ = f"{day}_{max(numbers, default=0) + 1:03}"
        path, head = path_of(id_), self._repo.head()
        branch = (head.branch or "").removeprefix("refs/heads/")
        commit = (head.sha or "")[:_DIGITS]
        task = task_id or current_task(self._tree) or NO_TASK
        mine = plain(one_line(lead)).strip()
        self._ids = sorted((*self._ids, id_), key=order_of)
        self._new[path] = Session(path, id_, "", "", task, OPEN, "0", "0", OF_RUNTIME, (), (), mine, commit)
        return SessionStarted(path, task, branch, commit, at, lead)

    # What git knows

    @cached_property
    def _head(self) -> str:
        return self._repo.head().sha or ""

    @cached_property
    def _uncommitted(self) -> frozenset[str]:
        return frozenset(path for path in self._repo.uncommitted() if not self._is_state(path))

    def _is_state(self, path: str) -> bool:
        return is_owned(path, self._families)

    def _since(self, start: str) -> list[CommitSeen] | None:
        """Return the commits since another, without those of state files alone."""
        found = self._repo.commits_since(start, MOST_COMMITS)
        if found is None:
            return None
        return [one for one in found if not one.paths or not all(map(self._is_state, one.paths))]

    def _counts(self, session: Session) -> tuple[int | None, int | None]:
        """Return how many files and commits the session has; None where git cannot tell."""
        found = self._since(session.start)
        if found is None:
            return None, None
        paths = {path for one in found for path in one.paths if not self._is_state(path)}
        return len(paths | self._uncommitted), len(found)

    def _commits(self, session: Session, run: str) -> tuple[Lines, Lines]:
        """Return the commits that the session does not tell yet: a run's own, and those of others."""
        listed = session.commits_listed
        found = self._since(listed[-1]) if listed else None
        if found is None:
            found = self._since(session.start) or []
        fresh = [one for one in found if not self._is_told(session, one.sha)]
        self._told |= {one.sha for one in fresh}
        own = [one for one in fresh if run and run in one.run.split(",")]
        others = [one for one in fresh if one not in own]
        rest = len(others) - SHOWN_COMMITS
        more = [SessionLine("Note", f"{rest} commits before those below")] * (rest > 0)
        return tuple(map(_line, own)), (*more, *map(_line, others[-SHOWN_COMMITS:]))

    def _is_told(self, session: Session, sha: str) -> bool:
        return sha in self._told or any(sha.startswith(one) for one in session.commits_listed)

    def _landed(self, session: Session, landing: str) -> Lines:
        """Return the line of a landing that is older than the session."""
        subject = "" if self._is_told(session, landing) else self._repo.subject_of(landing)
        return (SessionLine("Commit", subject, landing[:_DIGITS]),) if subject else ()


def _with_commits(lines: Lines, own: Lines) -> Lines:
    """Return the lines of an entry with its own commits: below what has changed, above what went wrong."""
    is_last = [line.mark == "Error" for line in lines]
    at = is_last.index(True) if True in is_last else len(lines)
    return (*lines[:at], *own, *lines[at:])


def _line(commit: CommitSeen) -> SessionLine:
    return SessionLine("Commit", commit.subject, commit.sha[:_DIGITS])


def _own_headline(session: Session) -> str:
    """Return the runtime's line of a summary; empty for its author's words."""
    mark = OF_RUNTIME.strip()
    return session.summary.removesuffix(mark).strip() if session.summary.endswith(mark) else ""


def _other_worktrees(repository: Repository) -> list[Path]:
    found = [repository.common.parent] if repository.common.name == ".git" else []
    for link in (repository.common / "worktrees").glob("*/gitdir"):
        with suppress(FileNotFoundError):  # those of workers come and go
            found.append(Path(os.fsdecode(read_whole(link).strip())).parent)
    return [path for path in found if path != repository.root and path.is_dir()]
