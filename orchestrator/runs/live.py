"""The running workers, from files alone: any process can read them, with or without a living runtime."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from orchestrator.redaction import printable
from orchestrator.runs.state import JOURNAL, RunState, read_roster, unreadable
from orchestrator.runs.worker_state import WorkerState
from tickets.problems import Problem
from tickets.value import Value
from workers.files.exit_record import is_held, read_exit
from workers.files.journal import JournalReader
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir, runs_of

NOBODY: Mapping[str, str] = {}
NEXT = 5
"""How many waiting workers are named; there may be thousands."""

Doing = Literal[
    "waiting", "waiting: another attempt", "starting", "running", "paused", "stopping", "stopped",
    "ended, not judged", "ended", "lost",
]  # fmt: skip
"""The state of a worker; `paused`: it waits for an answer; `lost`: its shim is gone and left no record."""
SHORT = {"waiting: another attempt": "to retry", "ended, not judged": "not judged"}
"""The same in a word, for a column."""


class Row(Value):
    """A worker that was started and has no outcome yet. `last` is its last message, on one line."""

    run: str
    worker: str
    ticket: str
    agent: str
    title: str
    state: Doing
    attempt: int
    seconds: float
    last: str
    asks: str | None
    """The title, or first line, of the newest message by which it waits for an answer."""


class Waiting(Value):
    """A worker that was not started yet, and what it waits for: a slot, a ticket, or a runtime."""

    run: str
    worker: str
    ticket: str
    title: str
    waits_for: str


class QueueCounts(Value):
    """The waiting workers, counted by what they wait for, and the first few of them."""

    total: int
    slot: int
    dependency: int
    provider: int
    """Those whose agent's provider is parked."""
    held: int
    """Those that have their turn, but no budget or no memory."""
    first: tuple[Waiting, ...]


STAGES = {
    "gate": "all tickets have ended, the gate runs on their work",
    "integration": "all tickets have ended, their work is integrated",
}
"""The stage of a run in which no worker runs, in words."""


class LiveRun:
    """One run by its files, read again and again."""

    def __init__(self, state: RunState) -> None:
        """Accept a run of which nothing was read yet, or one that a runtime updates itself."""
        self.state = state
        self._reader = JournalReader(state.run.path / JOURNAL)
        self._said: dict[tuple[str, int], str] = {}

    @property
    def cursor(self) -> int:
        """Return the offset up to which the journal was read, in bytes."""
        return self._reader.offset

    @property
    def is_running(self) -> bool:
        """Return whether a runtime works on it."""
        return is_locked(self.state.run.path / "run.lock")

    @property
    def is_going(self) -> bool:
        """Return whether it has a runtime, or workers that have outlived theirs."""
        if self.is_running:
            return True
        names = [name for name, worker in self.state.workers.items() if worker.started]
        return any(doing_of(self.state, name, lives=False) == "running" for name in names)

    def read(self) -> None:
        """Read new records of the journal, and fold them in; at first it may be long."""
        self.state.take_all(self._reader.records())
        self.state.cursor = self._reader.offset

    def look(self) -> list[dict[str, Any]]:
        """Read new records of the journal, fold them in, and return them."""
        records = self._reader.read()
        self.state.take_all(records)
        self.state.cursor = self._reader.offset
        return records

    def since(self, offset: int) -> list[dict[str, Any]]:
        """Return again the records since an offset in the journal."""
        return JournalReader(self.state.run.path / JOURNAL, offset).read(until=self.cursor)

    def rows(self, now: datetime, parked: Mapping[str, str] = NOBODY) -> list[Row]:
        """Return the started workers without an outcome; `parked` as for `queue`."""
        workers = self.state.workers.items()
        going = [name for name, worker in workers if worker.started and not worker.ended]
        if not going:
            return []
        lives, cancelled = self.is_running, set(self.state.run.cancelled())
        parked = {**_parked(self.state.parked, now), **parked}
        return [
            self._row(name, now, parked, lives=lives, stops=bool(cancelled & {name, "all"})) for name in going
        ]

    def queue(
        self, now: datetime, parked: Mapping[str, str] = NOBODY, ready: Collection[tuple[str, str]] = ()
    ) -> QueueCounts:
        """Count the waiting workers, and return what the first of them wait for.

        `parked` are the agents whose providers are parked, with the reason; `ready` the runs and workers that
        have a slot.
        """
        workers = self.state.workers
        lives = self.is_running
        parked = {**_parked(self.state.parked, now), **parked}
        counted = dict.fromkeys(("slot", "dependency", "provider", "held"), 0)
        first: list[Waiting] = []
        for name, worker in workers.items():
            if worker.started or worker.ended:
                continue
            before = [one for one in self.state.waits_for.get(name, ()) if not workers[one].ended]
            if before:
                kind, why = "dependency", workers[before[0]].ticket
            elif not lives:
                kind, why = "slot", "a runtime"
            elif worker.agent in parked:
                kind, why = "provider", parked[worker.agent]
            elif worker.held:
                kind, why = "held", worker.held
            elif (self.state.run.id, name) in ready:
                kind, why = "slot", "its start: agents start one after the other"
            else:
                kind, why = "slot", "a slot"
            counted[kind] += 1
            if len(first) < NEXT:
                title = self.state.titles[name]
                first.append(Waiting(self.state.run.id, name, worker.ticket, title, why))
        return QueueCounts(sum(counted.values()), **counted, first=tuple(first))

    def _row(self, name: str, now: datetime, parked: Mapping[str, str], *, lives: bool, stops: bool) -> Row:
        worker = self.state.workers[name]
        doing = doing_of(self.state, name, lives=lives)
        asked = self.state.inbox.asked_by(name)
        if doing == "running" and asked is not None and asked.pauses:
            doing = "paused"
        if doing in ("running", "paused") and stops:
            doing = "stopping"
        began = datetime.fromisoformat(worker.started_at)
        seconds = (now - began).total_seconds()
        if doing in ("stopped", "ended, not judged"):
            ended = read_exit(self.state.run.attempt(name, worker.attempts).exit)
            seconds = ended.seconds if ended is not None else seconds
        waits_for = (parked.get(worker.agent) or worker.held) if worker.retrying else ""
        return Row(
            run=self.state.run.id,
            worker=name,
            ticket=worker.ticket,
            agent=worker.agent,
            title=self.state.titles[name],
            state=doing,
            attempt=worker.attempts,
            seconds=max(0.0, round(seconds, 1)),
            last=f"waits for {waits_for}" if waits_for else self._last(worker),
            asks=asked.title if asked else None,
        )

    def _last(self, worker: WorkerState) -> str:
        from workers.agents.follow import last_said  # noqa: PLC0415 - for start-up time: most runs have ended

        key = (worker.worker, worker.attempts)
        # Before a line is cut: half of a secret is not known as one.
        said = printable(last_said(worker.agent, self.state.run.attempt(*key).stdout))
        # In the middle of a record that is longer than the part that is read, nothing can be parsed.
        self._said[key] = said or self._said.get(key, "")
        return self._said[key]


def parked_text(agent: str, until: datetime, now: datetime) -> str:
    """Describe until when a provider is parked, in the reader's local time."""
    return f"{agent}, parked until {clock(until, now)}"


def clock(time: datetime, now: datetime) -> str:
    """Return a time of the reader's local clock, with its day where that is another one."""
    time, now = time.astimezone(), now.astimezone()
    return f"{time:%H:%M:%S}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M}"


def _parked(known: Mapping[str, str], now: datetime) -> dict[str, str]:
    times = ((agent, datetime.fromisoformat(until)) for agent, until in known.items())
    return {agent: parked_text(agent, until, now) for agent, until in times if until > now}


def doing_of(state: RunState, name: str, *, lives: bool) -> Doing:
    """Return the state of a worker; `lives` is whether its run has a runtime."""
    worker = state.workers[name]
    if worker.ended:
        return "ended"
    if not worker.started:
        return "waiting"
    if worker.retrying:
        return "waiting: another attempt"
    files = state.run.attempt(name, worker.attempts)
    if is_held(files.started):
        return "running"
    # Read after the lock: a shim writes its record before it releases the lock.
    ended = read_exit(files.exit)
    if ended is not None:
        return "stopped" if ended.end == "cancelled" else "ended, not judged"
    return "starting" if lives else "lost"


def live_run(run: RunDir, problems: list[Problem] | None = None) -> LiveRun | None:
    """Read a run as it is now; None where it cannot be read, with the reason among `problems`."""
    state = read_roster(run, problems)
    if state is None:
        return None
    found = LiveRun(state)
    try:
        found.read()
    except OSError as error:
        if problems is not None:
            problems.append(unreadable(run, JOURNAL, error))
        return None
    return found


def live_runs(
    root: Path, besides: Collection[str] = (), problems: list[Problem] | None = None
) -> list[LiveRun]:
    """Read the runs in which something may still happen, oldest first, besides those with certain ids."""
    found = (live_run(run, problems) for run in runs_of(root, closed=False) if run.id not in besides)
    return [one for one in found if one is not None and one.state.is_unfinished]
