"""A run while a runtime works on it: the values that its stages share, and its one journal."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import anyio

from orchestrator.execute._schedule import Schedule
from orchestrator.execute._versions import Versions
from orchestrator.log import info
from orchestrator.project import Project
from orchestrator.redaction import redactor_of
from orchestrator.runs.events import (
    Noted,
    RunEvent,
    RuntimeWarned,
    SettledBy,
    Unattributed,
    VerdictSettled,
    encoded,
)
from orchestrator.runs.manifest import DoneTicket, Manifest, roster_of
from orchestrator.runs.state import JOURNAL, RunState
from orchestrator.runs.worker_state import WorkerState
from orchestrator.schedule.availability import environments_of
from orchestrator.tamper.guard import Guard
from tickets.ticket import Ticket
from tickets.types import Verdict
from workers.engine.job import Messages, Site
from workers.engine.local import LocalEngine
from workers.engine.process import ForkServer, kill_at_once
from workers.fence.places import project_reads
from workers.fence.policy import settings_above
from workers.fence.probe import fence_in_force
from workers.files.journal import Journal, read_journal
from workers.files.run_dir import RunDir
from workers.worktree.change import Change
from workers.worktree.changes import Checker
from workers.worktree.environments import Environments

ALL = "all"
"""The name that stands for every worker of a run in its folder of cancels."""
CANCEL_LOOK = 0.1
"""Seconds between two polls of that folder."""


class Wait(NamedTuple):
    """A waiting ticket; `ends` names what ends the wait beside a stop and a cancel.

    `moved`: another agent can do it sooner; `parked`: its provider is parked for long.
    """

    ticket: Ticket
    ends: Literal["moved", "parked"] | None


class Mail(Protocol):
    """The messages of a run, as the stages use them."""

    async def before_judging(self, ticket: Ticket) -> None:
        """Take in all that a worker has written."""

    async def ended(self, ticket: Ticket) -> None:
        """Do what is due when a worker has ended."""

    async def follow(self) -> None:
        """Take in what comes, until it is cancelled."""


class Follower(Protocol):
    """Whoever is told what happens in a run, as it is noted."""

    def take(self, noted: Noted) -> None:
        """Take in an event."""

    def said(self, worker: str, attempt: int, line: str) -> None:
        """Take in a line in which a worker says how far it has come."""

    async def follow(self) -> None:
        """Do what the events mean, until it is cancelled."""


class Runtime:
    """One run, its project, and the processes and locks that this process holds for it."""

    def __init__(
        self, project: Project, run: RunDir, manifest: Manifest, fork_server: ForkServer, journal: Journal
    ) -> None:
        self.repository, self.settings = project.repository, project.settings
        self.environ, self.clock = project.environ, project.clock
        self.run, self.manifest = run, manifest
        self.redactor = redactor_of(project.repository.root, project.environ)
        self.stopping = False
        self.waits: dict[anyio.CancelScope, Wait] = {}
        """Tickets that wait for other tickets, a slot or another attempt, by what ends the wait."""
        self.mail: Mail | None = None
        """The run's messages, while its coordinator lives."""
        self.checkpoints: Follower | None = None
        """The checkpoints of its workers, while they are written."""
        self.take_again: Callable[[Ticket], None] | None = None
        """Takes a ticket that was reopened to its end; None while no tickets are being executed."""
        self.done_since: Mapping[str, DoneTicket] = {}
        """What a later run has done of a run that goes on, by ticket id."""
        self._cancelled: set[str] = set()
        self.state = RunState(run, roster_of(manifest))
        self.schedule = Schedule(project, self._warn)
        self.checker = Checker(
            project.repository.common, project.repository.own / "runs" / run.id, project.repository.root
        )
        self.environments = environments_of(project.settings, project.repository.root, project.environ)
        """How the environments that commands use reach the project's code."""
        self.site = _site(project, run, self.environments, manifest)._replace(redactor=self.redactor)
        self.engine = LocalEngine(self.site, fork_server, self.checker)
        """Runs the attempts and checks of the run."""
        self.versions = Versions(project.settings, project.environ)
        self.patches: dict[str, tuple[Change, ...]] = {}
        """Patch to the changes from which this runtime made it: reading them back starts git twice."""
        self.guard: Guard | None = None
        """Watches the user's repository while unfenced workers run."""
        self.tampered: list[Unattributed] = []
        self._journal = journal
        self._tell = project.tell
        self.state.take_all(read_journal(run.path / JOURNAL))

    def note(self, *events: RunEvent) -> None:
        """Append events to the journal, fold them into the state, and show them to the caller's observer."""
        if not events:
            return
        at = self.clock().astimezone(UTC).isoformat(timespec="milliseconds")
        noted = [Noted(at, event) for event in events]
        records = self.redactor.value([encoded(one) for one in noted])[0]
        forged = self.forged_paths()
        running = self.running() if forged else ()
        self._journal.append(*records)
        for one, record in zip(noted, records, strict=True):
            self.state.take(one)
            if self.checkpoints is not None:
                self.checkpoints.take(one)
            self._tell(one, self.state)
            logged = {name: value for name, value in record.items() if name not in {"at", "event", "facts"}}
            info(record["event"], run=self.run.id, **logged)
        if forged:
            self.note_tampering(Unattributed(forged, running, harm=True))

    def settle(self, ticket: Ticket, verdict: Verdict | None, reason: str, by: SettledBy) -> None:
        """Note a verdict, where it or its reason is new."""
        worker = self.of(ticket)
        if (worker.verdict, worker.reason) != (verdict, reason):
            self.note(VerdictSettled(ticket.worker, verdict, reason, by))

    def note_tampering(self, found: Unattributed) -> None:
        """Note tampering, for the answer of the command as well."""
        self.tampered.append(found)
        self.note(found)

    def _warn(self, reason: str) -> None:
        self.note(RuntimeWarned(reason))

    def running(self) -> tuple[str, ...]:
        """Return the workers that were started and are not judged, in order."""
        workers = self.state.workers.items()
        return tuple(sorted(name for name, one in workers if one.started and not one.ended))

    def forged_paths(self) -> tuple[str, ...]:
        """Return the journal's path, once, where another process wrote into it."""
        if not self._journal.was_disturbed():
            return ()
        return (f"{self.run.relative(self.run.path)}/{JOURNAL}",)

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
        """Return a ticket with its current agent: a fallback differs from its template's."""
        return ticket.done_by(self.of(ticket).agent)

    def stop(self) -> None:
        """Start nothing more, and stop every worker of the run within its grace."""
        self.stopping = True
        self.run.stopping_path.parent.mkdir(exist_ok=True)
        self.run.stopping_path.touch()
        for scope in list(self.waits):
            scope.cancel()

    def stop_at_once(self) -> None:
        """Kill the workers and checks that are being stopped, without more grace."""
        for folder in ("shims", "checks"):
            for started in (self.run.path / folder).glob("*.started.json"):
                kill_at_once(started)

    @property
    def is_all_cancelled(self) -> bool:
        """Return whether the lead has cancelled the whole run."""
        return ALL in self._cancelled

    def is_cancelled(self, ticket: Ticket) -> bool:
        """Return whether the lead has cancelled a ticket's worker, or the whole run."""
        return not self._cancelled.isdisjoint((ALL, ticket.worker))

    async def watch_cancels(self) -> None:
        """Poll for cancels of the lead as long as this runs; the shims read the same files by themselves."""
        while True:
            self.look_for_cancels()
            await anyio.sleep(CANCEL_LOOK)

    def look_for_cancels(self) -> None:
        """Read the cancels there are, and end the waits of the tickets that they concern."""
        if not (found := set(self.run.cancelled()) - self._cancelled):
            return  # ten thousand may wait
        self._cancelled |= found
        for scope, wait in list(self.waits.items()):
            if found & {ALL, wait.ticket.worker}:
                scope.cancel()

    def of(self, ticket: Ticket) -> WorkerState:
        """Return the state of a ticket's worker."""
        return self.state.workers[ticket.worker]


def _site(project: Project, run: RunDir, environments: Environments, manifest: Manifest) -> Site:
    """Return what all jobs of a run have in common."""
    worker = manifest.phase_worker
    settings, fence = project.settings, fence_in_force(project.settings.fence.level)
    return Site(
        run,
        project.repository,
        project.environ,
        fence,
        settings.trust_repository,
        runtime=os.urandom(6).hex(),
        stops_with_runtime=settings.on_runtime_death == "stop",
        environments=environments,
        variables=settings.checks.env,
        readable=(
            *project_reads(
                project.repository.root,
                Path(project.environ.get("HOME") or "/nonexistent"),
                (*settings.worktree.link, *map(str, environments.folders)),
                settings.fence.read,
            ),
            *(settings_above(run) if fence.level == "landlock" else ()),
        ),
        messages=Messages(manifest.phase, worker and worker.worker, *manifest.messages),
    )
