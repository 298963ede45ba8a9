"""A run's state: its roster, and its journal folded into one value."""

import os
import re
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from orchestrator.runs._shapes import Name, UnsoundError, typed
from orchestrator.runs.continued import Continued
from orchestrator.runs.events import (
    AttemptRepeated,
    ChangesLanded,
    CheckpointTold,
    DeliverablesFinished,
    GateBegun,
    GateEnded,
    GateRun,
    GateSeen,
    LandingBlocked,
    LandingLost,
    MessageNoted,
    Noted,
    ProviderParked,
    RunReopened,
    RunStopped,
    StateRecorded,
    Unattributed,
    VerdictSettled,
    WorkerEnded,
    WorkerHeld,
    WorkerReassigned,
    WorkerReopened,
    WorkerSkipped,
    WorkerStarted,
    decoded,
)
from orchestrator.runs.letters import EMPTY, Inbox
from orchestrator.runs.worker_state import HELD_UP, STANDINGS, WENT_WRONG, Standing, WorkerState
from orchestrator.step import Step, step_keys
from tickets.problems import Problem
from tickets.types import AgentName
from tickets.value import Value, as_json
from workers.files.journal import JournalReader
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir, read_json, runs_of
from workers.messages.ids import Ids

JOURNAL = "events.jsonl"
TALK = 3
"""How many of the last messages are kept, to be shown."""
Stage = Literal["workers", "gate", "integration"]
FINAL = ("accepted", "partial", "rejected", None)
_AGAIN = r"(/checks/[\w.-]+?)\.\d+(?=\.std(?:out|err)\b)"


class RosterWorker(Value):
    """One worker in `roster.json`."""

    worker: Name
    """Part of its files' names, so it must not leave the run's folder."""
    ticket: str
    agent: AgentName
    title: str
    skipped: bool
    waits_for: tuple[str, ...] = ()
    """The workers that must have ended before it starts."""
    again: bool = False
    """Its ticket was done before: only `--again` runs it once more."""
    continues: Continued | None = None
    """What it goes on from, where an earlier run has begun its ticket."""


class Roster(Value):
    """`roster.json`: the part of a manifest that `status` and `ps` read, without pydantic."""

    phase: str
    workers: tuple[RosterWorker, ...]


class GateState:
    """The results of the gate so far."""

    result = "none"
    """On one line."""
    fenced = ""
    """What the fence denies it, where that may be why it failed."""
    flaky = ""
    """How one command failed and passed on the same tree, with both outputs; empty if that never happened."""
    unseen = False
    """An unfenced gate was begun, and its changes have not been searched for: its runtime was killed."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int, str], GateRun] = {}
        """Tree, look and command to a run whose result still counts."""
        self.looks: set[tuple[str, int]] = set()
        """Trees and looks since the state files were last updated."""
        self.broken: dict[str, None] = {}
        """Workers that broke it since then, in order."""

    def add(self, run: GateRun) -> None:
        """Add one run of one command."""
        key = run.tree, run.look, run.command
        self.known.pop(key, None)  # so that the newest comes last
        self.known[key] = run
        self.looks.add(key[:2])

    def end(self, ended: GateEnded) -> None:
        """Forget failures: before the gate is run again something has changed, if only on the machine."""
        self.result, self.fenced = ended.result, ended.fenced
        self.flaky = self._looks() if ended.flaky else self.flaky
        self.known = {key: run for key, run in self.known.items() if run.passed}

    def _looks(self) -> str:
        """Describe the two runs of a command that first failed on a tree, and then passed."""
        for (tree, look, command), first in self.known.items():
            second = self.known.get((tree, 2, command))
            if look == 1 and not first.passed and second is not None and second.passed:
                return f"{first.words}, then {second.words}"
        return "see the records of its runs"

    def settle(self, settled: VerdictSettled) -> None:
        """Note by the newest verdict whether a worker breaks it."""
        self.broken.pop(settled.worker, None)
        if (settled.by, settled.verdict) == ("gate", "rejected"):
            self.broken[settled.worker] = None

    def tell(self) -> None:
        """Start a new count: the state files have been updated."""
        self.looks, self.broken = set(), {}


class RunState:
    """The state of a run by its journal; the runtime keeps it in step with its appends."""

    def __init__(self, run: RunDir, roster: Roster) -> None:
        self.run = run
        self.phase = roster.phase
        self.titles: dict[str, str] = {}
        self.waits_for: dict[str, tuple[str, ...]] = {}
        """Worker to the workers that must have ended before it starts, where there are some."""
        self.workers: dict[str, WorkerState] = {}
        self.unavailable: set[str] = set()
        """Workers whose agent is disabled or missing: a warning, not a failure."""
        for one in roster.workers:
            name = one.worker
            self.titles[name] = one.title
            self.workers[name] = WorkerState(name, one.ticket, one.agent)
            if one.again:
                self.workers[name].again = True
            if one.continues is not None:
                self.workers[name].continues = one.continues
            if one.waits_for:
                self.waits_for[name] = one.waits_for
            if one.skipped:
                self.unavailable.add(name)
        self.cursor = 0
        """The offset in the journal up to which it was read; 0 where that is not known."""
        self.landings: dict[str, str | None] = {}
        """Worker to the commit that its work landed in; None where it was not committed."""
        self.landing: str | None = None
        self.blocked = ""
        """What kept the last landing from its end, where that is outside of the workers' work."""
        self.awaits = ""
        """The branch that it waits for, where that is what keeps it."""
        self.state_commit: str | None = None
        self.gate = GateState()
        self.recorded: dict[str, tuple[str | None, ...]] = {}
        """What the state files showed last, by worker."""
        self.finished_deliverables: tuple[str, ...] = ()
        """Those of the phase that were open when the run ended, and all their tickets done."""
        self.closed: str | None = None
        self.inbox: Inbox = EMPTY
        """What waits for its lead, as far as it was read (`InboxReader`)."""
        self.talk: deque[MessageNoted] = deque(maxlen=TALK)
        """The last messages."""
        self.messages = Ids()
        """Those of the messages that the journal has."""
        self.parked: dict[str, str] = {}
        """Agent to the time (UTC) until which its provider was last parked."""

    def take(self, noted: Noted) -> None:
        """Fold in one event; one of a worker that is not on the roster is ignored."""
        event = noted.event
        if isinstance(event, MessageNoted):
            self.messages.add(event.id)
            self.talk.append(event)
            return
        worker = self.workers.get(getattr(event, "worker", ""))
        if worker is not None:
            self._take_of(worker, noted)
            return
        match event:
            case ProviderParked():
                self.parked[event.agent] = event.until
            case GateRun():
                self.gate.add(event)
            case GateEnded():
                self.gate.end(event)
            case GateBegun() | GateSeen():
                self.gate.unseen = isinstance(event, GateBegun)
            case Unattributed() if event.holds:
                for name in event.candidates:
                    if name in self.workers:
                        self.workers[name].harm += (event,)
            case ChangesLanded():
                self.landing = event.commit
                own = event.commits or (event.commit,) * len(event.workers)
                self.landings.update(zip(event.workers, own, strict=False))
            case LandingLost():
                for name in event.workers:
                    self.landings.pop(name, None)
                self.landing = next(reversed(self.landings.values()), None)
                self.recorded, self.state_commit = {}, None
            case LandingBlocked():
                self.blocked, self.awaits = event.reason, event.branch
            case StateRecorded():
                self.state_commit = event.commit or self.state_commit
                self.recorded = {name: _told(told) for name, told in event.told.items()}
                self.gate.tell()
            case DeliverablesFinished():
                self.finished_deliverables = event.names
            case RunStopped():
                self.closed = event.status
            case RunReopened():
                self.closed = None

    def _take_of(self, worker: WorkerState, noted: Noted) -> None:
        event = noted.event
        match event:
            case WorkerStarted():
                worker.started, worker.retrying, worker.held = True, False, ""
                worker.attempts, worker.base, worker.started_at = event.attempt, event.base, noted.at
                worker.fence, worker.kind = event.fence, event.kind
                worker.agent = event.agent or worker.agent
            case WorkerEnded():
                _end(worker, event)
            case WorkerSkipped():
                worker.outcome, worker.reason, worker.verdict = "skipped", event.reason, None
                worker.ended = True
            case AttemptRepeated():
                worker.retrying, worker.begin = True, event.begin
                worker.retries += event.event == "retry"
                worker.tries += (event.tried,) if event.tried else ()
            case WorkerReopened():
                worker.reopen(event)
            case WorkerReassigned():
                worker.agent = event.agent
            case CheckpointTold():
                worker.told = event.text
            case WorkerHeld():
                if not _is_same_wait(worker.held, event.reason):
                    worker.held_news += (noted.at,)
                worker.held = event.reason
            case VerdictSettled():
                worker.verdict, worker.reason, worker.settled_by = event.verdict, event.reason, event.by
                self.gate.settle(event)
                if (event.verdict, event.by) == ("pending", "rule"):
                    worker.doubted = event.reason
                if event.verdict == "pending" and event.by in HELD_UP:
                    worker.held_up = event.reason
                if event.by == "lead":
                    worker.lead_said = event.verdict, event.reason
                    if event.verdict != "rejected":
                        worker.despite = worker.despite.union(*(one.paths for one in worker.harm))
                    worker.harm = ()

    def take_all(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Fold in records of a journal, and skip malformed ones."""
        said: deque[Mapping[str, Any]] = deque(maxlen=TALK)
        for record in records:
            # Of tens of thousands of messages only the last are ever shown.
            if record.get("event") == "message" and isinstance(id_ := record.get("id"), str):
                self.messages.add(id_)
                said.append(record)
                continue
            # After a full disk half a record may be on a line of its own: its content is lost.
            if (noted := decoded(record)) is not None:
                self.take(noted)
        for noted in filter(None, map(decoded, said)):
            self.take(noted)

    @property
    def has_ended(self) -> bool:
        """Return whether every worker has an outcome."""
        return all(worker.ended for worker in self.workers.values())

    def forgotten(self) -> list[str]:
        """Return the workers with an attempt that the journal does not know: its records are lost."""
        # Listed once: of ten thousand workers most have not begun, and each would need a system call.
        there = self.run.started_attempts()
        return [
            name
            for name, worker in self.workers.items()
            if there.get(name, 0) > (worker.attempts if worker.started else 0)
        ]

    @property
    def is_integrated(self) -> bool:
        """Return whether every verdict is final, landed if it is to land, and shown in the state files."""
        return self.has_ended and all(
            worker.verdict in FINAL
            and self.recorded.get(name) == shown_of(worker)
            and (name in self.landings or not self.is_to_land(name))
            for name, worker in self.workers.items()
        )

    @property
    def has_failures(self) -> bool:
        """Return whether a worker's work was not accepted; without work or an agent it is no failure."""
        return any(
            not (worker.lands or worker.had_nothing_to_do or worker.is_done_since or name in self.unavailable)
            for name, worker in self.workers.items()
        )

    @property
    def counts(self) -> dict[Standing, int]:
        """Count the workers by what became of their work."""
        found = dict.fromkeys(STANDINGS, 0)
        lives = is_locked(self.run.path / "run.lock")
        for name, worker in self.workers.items():
            word = worker.standing
            found["stopped" if word == "running" and not (lives or self.outlives(name)) else word] += 1
        return found

    def outlives(self, name: str) -> bool:
        """Return whether the newest attempt of a worker goes on, although it may have no runtime."""
        worker = self.workers[name]
        return not worker.retrying and is_locked(self.run.attempt(name, worker.attempts).started)

    @property
    def stage(self) -> Stage | None:
        """What its runtime does; None where it has none."""
        if not is_locked(self.run.path / "run.lock"):
            return None
        if not self.has_ended:
            return "workers"
        gates = self.run.path.glob("checks/gate-*.started.json")
        return "gate" if any(map(is_locked, gates)) else "integration"

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the workers that were started and failed: their output shows why."""
        return tuple(
            name for name, worker in self.workers.items() if worker.started and worker.outcome in WENT_WRONG
        )

    @property
    def to_examine(self) -> tuple[str, ...]:
        """Return those of them whose work the lead has not accepted nevertheless."""
        return tuple(name for name in self.failed if not self.workers[name].lands)

    @property
    def pending(self) -> tuple[str, ...]:
        """Return the workers with a pending verdict."""
        return tuple(name for name, worker in self.workers.items() if worker.verdict == "pending")

    @property
    def is_unfinished(self) -> bool:
        """Return whether more can happen: an interrupted run can continue, a cancelled one cannot."""
        return not self.is_integrated and self.closed != "cancelled"

    def parked_at(self, now: datetime) -> dict[str, str]:
        """Return the agents whose providers are parked, each with the time (UTC) until which."""
        return {agent: until for agent, until in self.parked.items() if datetime.fromisoformat(until) > now}

    def mark_end(self) -> None:
        """Mark whether more can happen in the run, so that a thousand old journals need not be read."""
        if self.is_unfinished:
            self.run.closed_path.unlink(missing_ok=True)
        else:
            self.run.closed_path.touch()

    def is_to_land(self, worker: str) -> bool:
        """Return whether a worker has accepted changes."""
        return self.workers[worker].lands and bool(self.workers[worker].evidence.files)

    def status(self) -> str:
        """Return the status of the run, a value of the documented output."""
        if self.is_integrated:
            return "integrated"
        if is_locked(self.run.path / "run.lock"):
            return "running"
        if self.closed == "cancelled":
            return "cancelled"
        return "finished" if self.has_ended else "interrupted"

    def document(self, next_action: Step) -> dict[str, Any]:
        """Return the run in the form of the documented output."""
        return {
            "schema": 1,
            "run": self.run.id,
            "phase": self.phase,
            "status": self.status(),
            "counts": self.counts,
            "workers": [_shown(worker) for worker in self.workers.values()],
            "commit": {"landing": self.landing, "state": self.state_commit},
            "messages": self.inbox.counts(),
            "problems": [],
            **step_keys(next_action),
        }


def _is_same_wait(before: str, now: str) -> bool:
    """Return whether only the figures of a reason have changed: many wait, and each change is an event."""
    return before.partition(" (")[0] == now.partition(" (")[0]


def shown_of(worker: WorkerState) -> tuple[str | None, ...]:
    """Return what the state files show of a worker: once shown, it is not recorded again."""
    # The path of a check's output is no change: each run of a red gate makes another.
    return _told((worker.outcome, worker.verdict, worker.reason))


def _told(told: Iterable[str | None]) -> tuple[str | None, ...]:
    return tuple(re.sub(_AGAIN, r"\1", one) if one and "/checks/" in one else one for one in told)


def read_run(run: RunDir, problems: list[Problem] | None = None) -> RunState | None:
    """Read a run; None where its files cannot be read, with the reason among `problems`."""
    state = read_roster(run, problems)
    if state is not None:
        try:
            reader = JournalReader(run.path / JOURNAL)
            state.take_all(reader.records())
            state.cursor = reader.offset
        except OSError as error:
            _add(problems, unreadable(run, JOURNAL, error))
            return None
    return state


def read_roster(run: RunDir, problems: list[Problem] | None = None) -> RunState | None:
    """Read the roster of a run, without its journal; None where that cannot be read."""
    try:
        found = read_json(run.roster_path)
        roster = sound_roster(found) if found is not None and found.get("schema") == 1 else None
        if roster is not None:
            return RunState(run, roster)
        why: OSError | str = "it is damaged, or of another version"
    except OSError as error:
        why = error
    # Without a journal it never began: nothing of it is lost.
    if os.path.lexists(run.path / JOURNAL):
        goes_on = f"put it back; `orchestrate resume {run.id}` continues without it"
        _add(problems, unreadable(run, run.roster_path.name, why)._replace(do=goes_on))
    return None


def sound_roster(found: Any) -> Roster | None:
    """Return a roster whose workers can have files of their own, and wait for one another; else None."""
    try:
        roster = typed(Roster, found)
    except UnsoundError:
        return None
    names = {one.worker for one in roster.workers}
    waited_for = {name for one in roster.workers for name in one.waits_for}
    return roster if 0 < len(names) == len(roster.workers) and waited_for <= names else None


def unreadable(run: RunDir, name: str, why: OSError | str) -> Problem:
    """Return the problem of an omitted run, whose workers cannot be known."""
    said = why if isinstance(why, str) else (why.strerror or "unknown reason").lower()
    what = f"cannot be read: {said}; so the state of this run is not known"
    return Problem(f"{run.relative(run.path)}/{name}", what, "restore it, or delete the run's folder")


def unfinished_runs(root: Any, problems: list[Problem] | None = None) -> list[RunState]:
    """List the runs that are not integrated, oldest first; unreadable ones are among `problems`."""
    found = (read_run(run, problems) for run in runs_of(root, closed=False))
    return [state for state in found if state is not None and state.is_unfinished]


def _add(problems: list[Problem] | None, problem: Problem) -> None:
    if problems is not None:
        problems.append(problem)


def _end(worker: WorkerState, event: WorkerEnded) -> None:
    evidence = event.evidence
    worker.ended, worker.outcome, worker.verdict = True, event.outcome, event.verdict
    worker.reason = worker.found = event.reason
    worker.flags, worker.evidence = event.flags, evidence
    # Older records lack what was known before.
    worker.agent = event.agent or worker.agent
    worker.attempts = evidence.attempts or worker.attempts
    worker.fence = evidence.fence or worker.fence
    worker.tries = evidence.tries or worker.tries


def _shown(worker: WorkerState) -> dict[str, Any]:
    evidence = worker.evidence
    return {
        "worker": worker.worker,
        "ticket": worker.ticket,
        "agent": worker.agent,
        "outcome": worker.outcome,
        "reason": worker.reason,
        "verdict": worker.verdict,
        "summary": evidence.summary,
        "flags": list(worker.flags),
        "fence": worker.fence,
        "exit_code": evidence.exit_code,
        "attempts": worker.attempts,
        "seconds": evidence.seconds,
        "files": list(evidence.files),
        "violations": as_json(evidence.violations),
        "usage": as_json(evidence.usage),
        "output": evidence.output,
        "continues": worker.continues and worker.continues.document(),
    }
