"""The checkpoints of a run while it is on: what its journal tells of each agent's worker, in docs/progress/.

They follow the journal, a moment later: several facts are one change, and no worker waits for it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import anyio
import anyio.to_thread

from orchestrator.execute.runtime import Runtime
from orchestrator.execute.runtime_lifecycle import record
from orchestrator.runs.checkpoint_place import place_in_the_way
from orchestrator.runs.cut_off import has_new_changes
from orchestrator.runs.events import CheckpointTold, Noted, WorkerEnded, WorkerStarted
from orchestrator.runs.stages import OwnLine, Stages, own_line
from orchestrator.runs.worker_state import CUT_OFF, WorkerState
from orchestrator.state.checkpoints.names import FOLDER
from orchestrator.state.events import CheckpointWritten
from tickets.problems import Problem, ProblemError
from tickets.report import read_report
from tickets.ticket import Ticket
from tickets.value import Value
from workers.agents.follow import last_said
from workers.files.read import read_whole

EVERY = 0.5
"""Seconds between two looks for what is new."""
TOGETHER = 10.0
"""Seconds within which the last of a worker's own lines counts."""
_MOST = 1 << 20


def stages_of(runtime: Runtime, ticket: Ticket) -> Stages:
    """Return the stages of a ticket of a run."""
    continued = runtime.manifest.continues.get(ticket.id)
    return Stages(runtime.run.id, ticket, runtime.manifest.phase, continued)


class _Said(Value):
    since: float
    """When the first of the lines came that it stands for; seconds of the event loop's clock."""
    attempt: int
    line: OwnLine
    at: datetime


class Checkpoints:
    """Takes in the events of a run, and writes what they mean for the checkpoints of its workers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._frequency = runtime.settings.checkpoints.frequency
        self._tickets = {ticket.worker: ticket for ticket in runtime.manifest.tickets}
        self._waiting: list[CheckpointWritten] = []
        self._said: dict[str, _Said] = {}
        """The newest line of each worker that is not written yet."""
        self._told: list[CheckpointTold] = []
        """Such lines that are still to be noted."""
        self.problems: list[Problem] = []
        """What has kept one from being written, each once."""

    def take(self, noted: Noted) -> None:
        """Take in an event that was noted; what it means is written soon."""
        event = noted.event
        if not isinstance(event, WorkerStarted | WorkerEnded):
            return
        ticket = self._tickets[event.worker]
        if ticket.agent == "command":
            return
        self._take_said(event.worker)
        at, worker = datetime.fromisoformat(noted.at), self._runtime.of(ticket)
        stages = self._stages(event.worker)
        made: CheckpointWritten | None = None
        if isinstance(event, WorkerEnded):
            is_new = has_new_changes(self._runtime.run, worker)
            last, needs = self._last(worker), self._needs(worker)
            made = stages.ended(worker, at, last=last, needs=needs, is_new=is_new)
        elif self._frequency == "every-step" or (self._frequency == "milestones" and event.attempt <= 1):
            made = stages.started(event, worker, at)
        if made is not None:
            self._waiting.append(made)

    def said(self, worker: str, attempt: int, line: str) -> None:
        """Take in a line in which a worker says how far it has come.

        Of several within ten seconds the last counts. A runtime that takes over reads its whole output
        again: what was noted last is not noted twice.
        """
        found = own_line(line) if self._frequency == "every-step" else None
        if found is None:
            return
        text = self._runtime.redactor.clean(found.text)
        if text == self._runtime.state.workers[worker].told:
            self._said.pop(worker, None)
            return
        since = self._said[worker].since if worker in self._said else anyio.current_time()
        self._said[worker] = _Said(since, attempt, found._replace(text=text), self._runtime.clock())

    async def follow(self) -> None:
        """Write what comes, until it is cancelled."""
        while True:
            await anyio.sleep(EVERY)
            await self.write()

    async def write(self) -> None:
        """Write what is known, as one change. What cannot be written fails no worker."""
        now = anyio.current_time()
        for worker in [name for name, one in self._said.items() if now - one.since >= TOGETHER]:
            self._take_said(worker)
        told, self._told = self._told, []
        self._runtime.note(*told)
        if not self._waiting:
            return
        events, self._waiting = self._waiting, []
        with anyio.CancelScope(shield=True):
            found = await anyio.to_thread.run_sync(self._record, events)
        self.problems += [one for one in found if one not in self.problems]

    def _record(self, events: Sequence[CheckpointWritten]) -> list[Problem]:
        """Record events; return what prevents it, as a full disk does."""
        if blocked := place_in_the_way(self._runtime.repository.root):
            return blocked
        try:
            return record(self._runtime, *events)
        except (ProblemError, OSError) as error:
            said = (error.strerror or "") if isinstance(error, OSError) else str(error)
            why = said[:1].lower() + said[1:] or "the reason is not known"
            do = "`orchestrate checkpoint write` notes how the work stands"
            return [Problem(FOLDER, f"checkpoints were not written: {why}", do, "warning")]

    def look_at_place(self) -> None:
        """Note what kept the checkpoint of a worker away that is written with its verdict."""
        wanted = any(one.ended and not one.lands for one in self._runtime.state.workers.values())
        blocked = place_in_the_way(self._runtime.repository.root) if wanted else []
        self.problems += [one for one in blocked if one not in self.problems]

    def _take_said(self, worker: str) -> None:
        """Let the newest line of a worker be written next, where there is one."""
        one = self._said.pop(worker, None)
        if one is None:
            return
        line = one.line
        self._told.append(CheckpointTold(worker, one.attempt, line.stage, line.standing, line.text))
        self._waiting.append(self._stages(worker).said(line, one.at))

    def _stages(self, worker: str) -> Stages:
        return stages_of(self._runtime, self._tickets[worker])

    def _last(self, worker: WorkerState) -> str:
        """Return what a worker that was cut off did last."""
        if worker.outcome not in CUT_OFF:
            return ""
        files = self._runtime.run.attempt(worker.worker, max(1, worker.attempts))
        return last_said(worker.agent, files.stdout, is_work=True)

    def _needs(self, worker: WorkerState) -> str:
        """Return what a blocked worker reports to need."""
        if worker.outcome != "blocked":
            return ""
        files = self._runtime.run.attempt(worker.worker, max(1, worker.attempts))
        try:
            report = read_report(read_whole(files.text, _MOST).decode("utf-8", "replace"))
        except OSError:
            return ""
        return report.blocked.needs if report.blocked else ""


@asynccontextmanager
async def checkpointing(runtime: Runtime) -> AsyncIterator[Checkpoints]:
    """Write the checkpoints of a run, whose lock is held, for the block."""
    checkpoints = Checkpoints(runtime)
    runtime.checkpoints = checkpoints
    try:
        yield checkpoints
        await checkpoints.write()
    finally:
        runtime.checkpoints = None
