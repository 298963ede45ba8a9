"""A run while a runtime works on it: what its stages share, and the one journal that they write."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import anyio

from orchestrator.budget.ledger import ledger_of
from orchestrator.errors import HELD, Refusal
from orchestrator.execute.judgement import landable
from orchestrator.log import info, warning
from orchestrator.runs.events import Noted, RunEvent, RuntimeWarned, encoded
from orchestrator.runs.manifest import Manifest, roster_of
from orchestrator.runs.state import JOURNAL, RunState
from orchestrator.runs.worker_state import WorkerState
from orchestrator.schedule.login_lock import LoginLock
from orchestrator.schedule.pacing import Pacing
from orchestrator.schedule.queue import Queue
from orchestrator.schedule.rate_limits import Providers
from orchestrator.settings.settings import Settings
from orchestrator.tamper.guard import Guard, Tampering
from tickets.problems import Problem
from tickets.ticket import Ticket
from workers.engine.process import Nursery, hurry, kill_marked, open_nursery
from workers.errors import WorkerError
from workers.files.journal import Journal, read_journal
from workers.files.locks import held_lock
from workers.files.read import opened, refuse_larger
from workers.files.run_dir import RunDir
from workers.git.run import GitError, Repository
from workers.pool.slots import Pool, PoolLimits
from workers.worktree.changes import ABSENT, Change, Checker
from workers.worktree.worktree import Place

ALL = "all"
"""The name that stands for every worker of a run in its folder of cancels."""
CANCEL_LOOK = 0.1
"""Seconds between two looks at that folder."""
Tell = Callable[[Noted, RunState], None]
Clock = Callable[[], datetime]


class SharedTree(NamedTuple):
    """A tree that several workers read, and all who did."""

    place: Place
    readers: set[str]


class Wait(NamedTuple):
    """A ticket that waits; `ends` says what ends it beside a stop and a cancel.

    `moved`: another agent can do it sooner; `parked`: its provider is parked for long.
    """

    ticket: Ticket
    ends: Literal["moved", "parked"] | None


class Runtime:
    """One run, its settings, and the processes and locks that this runtime holds for it."""

    def __init__(
        self,
        repository: Repository,
        run: RunDir,
        manifest: Manifest,
        settings: Settings,
        *,
        nursery: Nursery,
        journal: Journal,
        environ: Mapping[str, str],
        tell: Tell,
        clock: Clock,
    ) -> None:
        self.repository = repository
        self.run = run
        self.manifest = manifest
        self.settings = settings
        self.nursery = nursery
        self.environ = environ
        self.clock = clock
        self.stopping = False
        self.waits: dict[anyio.CancelScope, Wait] = {}
        """Whoever waits for other tickets, a slot or another attempt, by what ends the wait."""
        self._cancelled: set[str] = set()
        self.state = RunState(run, roster_of(manifest))
        self.checker = Checker(repository.common, repository.own / "runs" / run.id, repository.root)
        slots = settings.slots
        limits = PoolLimits(slots.total, slots.agents)
        self.pool = Pool(repository.own / "slots", limits, on_dirty=_clean_up)
        self.providers = Providers(
            repository.own / "providers",
            limits,
            lambda: clock().timestamp(),
            settings.pool.provider_pause,
        )
        self.parked_by: dict[tuple[str, int], float] = {}
        """Worker and attempt to the time until which it has had its provider parked."""
        self.budget_waits = 0
        """Tickets that wait until others give back what they hold of a budget."""
        self.queue = Queue(limits.total, self.providers.room)
        self.pacing = Pacing(settings.pool.start_interval, settings.pool.max_memory, warn=self._warn)
        self.ledger = ledger_of(repository, clock)
        self.reserving = anyio.Lock()
        """Who has the turn first has what is left of a budget, not whose thread is quicker."""
        self.logins = LoginLock(repository.own / "logins", environ, lambda: clock().timestamp())
        self.trees = anyio.CapacityLimiter(4)
        """Worktrees are made by git, which is bound by processor and disk: more at once are slower."""
        self.guard: Guard | None = None
        """Looks after the user's repository while workers run that no fence keeps from it."""
        self.tampered: list[Tampering] = []
        self.shared: dict[str, SharedTree] = {}
        """Base to the tree of it that read-only workers have in common."""
        self.sharing = anyio.Lock()
        self.taken: dict[str, tuple[Change, ...]] = {}
        """Patch to the changes that this runtime made it of: to read them back is two starts of git each."""
        self._journal = journal
        self._tell = tell
        self.state.take_all(read_journal(run.path / "events.jsonl"))

    def note(self, event: RunEvent) -> None:
        """Append an event to the journal, fold it into the state, and show it to the caller's observer."""
        noted = Noted(self.clock().astimezone(UTC).isoformat(timespec="milliseconds"), event)
        record = encoded(noted)
        forged = self.forged_paths()
        running = self.running() if forged else ()
        self._journal.append(record)
        self.state.take(noted)
        self._tell(noted, self.state)
        logged = {name: value for name, value in record.items() if name not in {"at", "event", "facts"}}
        info(record["event"], run=self.run.id, **logged)
        if forged:
            found = Tampering(forged, running, is_harm=True)
            self.tampered.append(found)
            self.note(found.as_event())

    def _warn(self, reason: str) -> None:
        self.note(RuntimeWarned(reason))

    def running(self) -> tuple[str, ...]:
        """Name the workers that were started and are not judged, in order."""
        workers = self.state.workers.items()
        return tuple(sorted(name for name, one in workers if one.started and not one.ended))

    def forged_paths(self) -> tuple[str, ...]:
        """Name the journal, once, where somebody else wrote into it; what we know is not read from there."""
        if not self._journal.was_disturbed():
            return ()
        return (f"{self.run.relative(self.run.path)}/events.jsonl",)

    @contextmanager
    def waiting(self, ticket: Ticket, *, ends: Literal["moved", "parked"] | None = None) -> Iterator[None]:
        """Wait for a turn or a slot inside the block; `stop` and a cancel end the wait."""
        with anyio.CancelScope() as scope:
            self.waits[scope] = Wait(ticket, ends)
            if self.stopping or self.is_cancelled(ticket):
                scope.cancel()
            try:
                yield
            finally:
                del self.waits[scope]

    def as_it_is(self, ticket: Ticket) -> Ticket:
        """Give a ticket with the agent that does it now: one that fell back has another than its template."""
        return ticket.done_by(self.of(ticket).agent)

    def stop(self) -> None:
        """Start nothing more, and have every worker of the run stopped within its grace."""
        self.stopping = True
        self.run.stopping_path.parent.mkdir(exist_ok=True)
        self.run.stopping_path.touch()
        for scope in list(self.waits):
            scope.cancel()

    def stop_at_once(self) -> None:
        """Give the workers and checks that are being stopped no more grace."""
        for folder in ("shims", "checks"):
            for started in (self.run.path / folder).glob("*.started.json"):
                hurry(started)

    @property
    def is_all_cancelled(self) -> bool:
        """Tell whether the lead has cancelled the whole run."""
        return ALL in self._cancelled

    def is_cancelled(self, ticket: Ticket) -> bool:
        """Tell whether the lead has cancelled a ticket's worker, or the whole run."""
        return not self._cancelled.isdisjoint((ALL, ticket.worker))

    async def watch_cancels(self) -> None:
        """See what the lead cancels, for as long as this runs; the shims see the same files by themselves."""
        while True:
            self.look_for_cancels()
            await anyio.sleep(CANCEL_LOOK)

    def look_for_cancels(self) -> None:
        """Take up the cancels there are, and end the waits of those whom they concern."""
        if not (found := set(self.run.cancelled()) - self._cancelled):
            return  # ten thousand may wait
        self._cancelled |= found
        for scope, wait in list(self.waits.items()):
            if found & {ALL, wait.ticket.worker}:
                scope.cancel()

    def of(self, ticket: Ticket) -> WorkerState:
        """Return what is known of a ticket's worker."""
        return self.state.workers[ticket.worker]

    def landable_changes(self, ticket: Ticket) -> list[Change]:
        """Give the part of a worker's patch that lies in its scope. Raises WorkerError where it is lost."""
        worker = self.of(ticket)
        files = worker.evidence.files
        if not worker.evidence.patch and not files:
            return []
        patch = worker.evidence.patch or self.run.relative(self.run.attempt(ticket.worker, 1).patch)
        changes = self.taken.get(patch)
        if changes is None or not all(self._is_loose(change) for change in changes):
            changes = self._read_back(worker.base, patch)
        found = list(landable(ticket, changes, self.manifest.scopes[ticket.id]))
        # What was cut, emptied or written over would land as less than was accepted, and be told as all.
        missing = sorted({*files} - {change.path for change in found})
        if missing:
            raise WorkerError(f"{patch}: holds nothing of {missing[0]}; put it back, or reject")
        return found

    def _read_back(self, base: str, patch: str) -> tuple[Change, ...]:
        path = self.run.root / patch
        try:
            os.close(opened(path))
            refuse_larger(path, path.stat().st_size, self.settings.limits.patch_cap)
            return tuple(self.checker.changes_of_patch(base, path))
        except GitError:
            raise WorkerError(f"{patch}: is damaged; put it back, or reject") from None
        except OSError as error:
            why = (error.strerror or "unknown reason").lower()
            raise WorkerError(f"{patch}: cannot be read: {why}; put it back, or reject") from None

    def _is_loose(self, change: Change) -> bool:
        # A `git gc --prune=now` meanwhile takes what no ref reaches; reading the patch brings it back.
        sha = change.new_sha
        return change.new_mode == ABSENT or (self.repository.common / "objects" / sha[:2] / sha[2:]).is_file()


@asynccontextmanager
async def open_runtime(
    repository: Repository,
    run: RunDir,
    manifest: Manifest,
    settings: Settings,
    *,
    environ: Mapping[str, str],
    tell: Tell,
    clock: Clock,
) -> AsyncIterator[Runtime]:
    """Become the runtime of a run for the block. Raises Refusal while another one is."""
    with held_lock(run.path / "run.lock") as free:
        if not free:
            problem = Problem(run.id, "another runtime works on this run", "wait for it, or look at `ps`")
            raise Refusal(problem, exit_code=HELD, next_action=f"orchestrate wait {run.id}")
        # Left by a runtime that was interrupted: whoever goes on with the run wants its workers to run.
        run.stopping_path.unlink(missing_ok=True)
        journal = Journal(run.path / "events.jsonl")
        try:
            async with open_nursery(run.path / "nursery.log") as nursery:
                deployment = Runtime(
                    repository,
                    run,
                    manifest,
                    settings,
                    nursery=nursery,
                    journal=journal,
                    environ=environ,
                    tell=tell,
                    clock=clock,
                )
                _refuse_forgotten(deployment.state)
                deployment.checker.prepare()
                yield deployment
        finally:
            journal.close()


def _refuse_forgotten(state: RunState) -> None:
    """Refuse to go on by a journal that was cut or emptied: work that is there would be done over."""
    lost = state.forgotten()
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        what = f"says nothing of an attempt of {lost[0]}{more}: its records are lost"
        do = "put it back, or run its phase once more with `--new`; what the run left stays"
        raise Refusal(Problem(f"{state.run.relative(state.run.path)}/{JOURNAL}", what, do))


def _clean_up(holder: Mapping[str, Any]) -> None:
    """See a worker dead whose shim was killed, before its slot is given to another."""
    killed = kill_marked(str(holder.get("mark", "")))
    warning("dirty slot cleaned", killed=killed, **holder)
