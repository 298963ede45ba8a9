"""The events of a run's journal, and how their records are written and read.

`docs/commands.md` documents the records. A record of an unknown event, or of another shape than ours, is
skipped.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from orchestrator.runs._shapes import (
    Amount,
    Count,
    Inside,
    Time,
    Tokens,
    UnsoundError,
    is_time,
    text,
    typed,
    unread,
)
from tickets.types import AgentName, Outcome, Verdict
from tickets.value import Value, as_json

PricedBy = Literal["agent", "table", "unpriced"]
"""The source of the cost; `unpriced`: none, so it is counted in tokens alone."""
Kind = Literal["first", "again", "thread", "asked", "answered"]
"""How an attempt begins. `again`: with the ticket and the earlier attempt's changes; `thread`: in that
attempt's thread; `asked`: for missing parts of its report; `answered`: with the lead's answer to a worker
that had ended."""
ViolationKind = Literal[
    "out_of_scope", "touched_state_file", "read_only_wrote", "git_write", "too_many_files"
]
SettledBy = Literal["lead", "rule", "gate", "hook", "conflict", "dependency", "harm"]
"""`harm`: changes of the user's repository by the gate's commands."""


# Parts of events


class Usage(Value):
    """The use of attempts. Tokens include cached ones; USD are None where they are not reported."""

    input_tokens: Tokens
    output_tokens: Tokens
    cost_usd: Amount | None
    cached_tokens: Tokens = 0
    cost_by: Annotated[PricedBy, text] = "unpriced"


NO_USAGE = Usage(0, 0, None)
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


class Violation(Value):
    """An act of a worker that its ticket did not allow."""

    kind: Annotated[ViolationKind, text]
    path: str


class Begin(Value):
    """How an attempt begins: from nothing, or from the result of the one before it."""

    kind: Kind = "first"
    thread: str | None = None
    reason: str = ""
    """Why the attempt before it ended, or which parts its report lacks."""
    changed: tuple[str, ...] = ()
    """Its changed paths, as far as they are named; `more` counts the rest."""
    more: Count = 0
    said: str = ""
    """Its last message."""
    answer: str = ""
    """The lead's answer to what it had ended with; it holds for all attempts that follow."""

    def elsewhere(self) -> "Begin":
        """Return how another agent begins, which does not know the thread."""
        kind = "again" if self.kind == "thread" else self.kind
        return self._replace(kind=kind, thread=None)


class Try(Value):
    """The record of one attempt."""

    attempt: Count
    usage: Usage
    kind: Annotated[Kind, text] = "first"
    agent: str = ""
    outcome: str = ""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    seconds: Amount = 0.0
    thread: str | None = None
    models: tuple[str, ...] = ()
    version: str = ""
    """What the agent's program says of itself; empty of a command, and where it was replaced meanwhile."""


class Claims(Value):
    """The claims of a worker's report, and where they differ from the files."""

    status: str | None
    files: tuple[str, ...]
    """Paths that it names as affected."""
    not_found: tuple[str, ...]
    """Of these, the unchanged ones."""
    not_said: tuple[str, ...]
    """Paths that it changed and did not name."""


class AcceptanceResult(Value):
    """The result of one acceptance command; `output` is the path of its output."""

    command: str
    passed: bool
    exit_code: int | None
    end: str
    seconds: float
    output: str


class Evidence(Value):
    """The findings about a worker when it had ended. Paths are relative to the project."""

    fence: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    end: str | None = None
    """The end of its process, one of the values of `workers.files.exit_record`."""
    attempts: Count = 0
    seconds: Amount = 0.0
    files: tuple[str, ...] = ()
    """Its changes inside its scope, which may land."""
    violations: tuple[Violation, ...] = ()
    usage: Usage = NO_USAGE
    """Of all its attempts."""
    tries: tuple[Try, ...] = ()
    claims: Annotated[Claims | None, unread] = None
    output: Inside | None = None
    patch: Inside | None = None
    thread: str | None = None
    ignored: tuple[str, ...] = ()
    worktree: str | None = None
    """Its worktree, where that is kept as the only copy of its work."""
    acceptance: Annotated[tuple[AcceptanceResult, ...], unread] = ()
    started_at: str = ""
    ended_at: str = ""
    max_rss_kb: int = 0
    summary: str = ""
    """The result of a complete worker on one line, in its own words."""
    left_out: tuple[str, ...] = ()
    """Of `ignored`, what lies in its scope: git ignores it, so that it does not land."""
    redacted: Mapping[str, int] = {}
    """How many secrets of each kind were replaced in what is kept of it for people."""


NO_EVIDENCE = Evidence()


# The events


class WorkerStarted(Value):
    """`started`: an attempt begins, from a commit."""

    worker: str
    attempt: Count
    base: str
    fence: str | None = None
    kind: Annotated[Kind, text] = "first"
    agent: AgentName | None = None


class WorkerEnded(Value):
    """`ended`: a worker's last attempt was judged; its record, `WORKER.json`, has the same fields."""

    worker: str
    outcome: Annotated[Outcome, text]
    verdict: Verdict | None
    ticket: str = ""
    agent: AgentName | None = None
    reason: str = ""
    flags: tuple[str, ...] = ()
    evidence: Evidence = NO_EVIDENCE

    def as_facts(self) -> dict[str, Any]:
        """Return its fields and those of its evidence as one JSON object."""
        facts: dict[str, Any] = as_json(self)
        evidence = facts.pop("evidence")
        return {**facts, **evidence}


class WorkerSkipped(Value):
    """`skipped`: a ticket ends without a start."""

    worker: str
    reason: str


class AttemptRepeated(Value):
    """`retry`, `afresh`, `asked`, `lost`: an attempt has ended, and another one follows.

    `afresh` is not counted as a retry: no worker is at fault. `asked`: its report lacks a part.
    `lost`: its runtime or its tree is gone.
    """

    event: Literal["retry", "afresh", "asked", "lost"]
    worker: str
    attempt: Count = 0
    reason: str = ""
    tried: Try | None = None
    begin: Begin | None = None
    """How the next attempt begins."""


class WorkerReopened(Value):
    """`reopened`: the lead has answered a worker that had ended, and another attempt follows."""

    worker: str
    re: str
    """The id of the message that was answered."""
    attempt: Count
    """The attempt that had ended with it."""
    begin: Begin


class MessageNoted(Value):
    """`message`: a participant has sent a message."""

    worker: str
    """The worker of this run that it concerns: its sender, else its receiver; empty where it is neither."""
    id: str
    sender: str
    """`from` in the record, as in the message itself."""
    to: str
    type: str
    phase: str | None
    plan: str | None
    re: str | None
    body: str
    """Its first line, or its title."""
    told: bool = False
    """Whether a lead that waits for news is told."""


class MessageUnacknowledged(Value):
    """`unacknowledged`: nobody has acknowledged a message in time."""

    worker: str
    """Its sender."""
    id: str
    to: str


class WorkerReassigned(Value):
    """`moved`: another agent does a ticket from here on."""

    worker: str
    agent: AgentName
    before: str = ""
    reason: str = ""


class WorkerHeld(Value):
    """`held`: a ticket that has its turn does not start."""

    worker: str
    reason: str


class ProviderParked(Value):
    """`parked`: nothing is started with an agent's provider until a time."""

    agent: AgentName
    until: Time
    reason: str = ""
    named: bool = False
    """Whether the provider itself named the time."""
    limit: int | None = None
    """Workers of that agent that may run from now on; None is not limited."""


class CostUnsettled(Value):
    """`unsettled`: the cost of an attempt could not be written into the ledger."""

    worker: str
    attempt: Count = 0
    reason: str = ""


class AcceptanceChecked(Value):
    """`checked`: an acceptance command of a worker has ended."""

    worker: str
    command: str
    passed: bool


class TreeSetUp(Value):
    """`set_up`: a setup command has ended in a worktree, named after a worker or by itself."""

    worker: str
    command: str
    passed: bool
    seconds: Amount = 0.0


class PathsNotLinked(Value):
    """`not_linked`: paths of `[worktree] link` that the user's worktree does not have."""

    worker: str
    paths: tuple[str, ...]


class CheckpointTold(Value):
    """`checkpoint`: a worker has said in a line of its own how far it has come."""

    worker: str
    attempt: Count
    phase: str | None
    """The stage of the work; None: not said."""
    status: str
    text: str


class RuntimeWarned(Value):
    """`warned`: the machine is short of a resource."""

    reason: str


class VerdictSettled(Value):
    """`settled`: a verdict has changed, with what changed it."""

    worker: str
    verdict: Verdict | None
    reason: str
    by: Annotated[SettledBy, text]


class GateBegun(Value):
    """`gate_begun`: an unfenced gate begins, which may kill its runtime."""

    workers: tuple[str, ...] = ()


class GateRun(Value):
    """`gate_run`: one command of the gate on one tree; `look` counts the runs on that tree."""

    tree: str
    look: int
    command: str
    passed: bool
    words: str
    """The result, on one line."""
    last: str = ""
    """The last line of its output."""
    seconds: Amount = 0.0
    output: Inside = ""
    fenced: str = ""
    """What the fence denies it, if it failed, probably because of that."""


class GateStep(Value):
    """`gate_step`: the gate begins to run on one tree, in the search for workers that break it."""

    number: Count
    about: Count
    """How many runs the search needs, as far as can be known."""
    work: str
    """Whose work is on the tree, in words."""


class GateSeen(Value):
    """`gate_seen`: changes of the user's repository by an unfenced gate have been searched for."""


class GateEnded(Value):
    """`gate`: the result of the gate, on one line."""

    result: str
    passed: bool = False
    flaky: bool = False
    """Whether it failed once and passed once on the same tree."""
    fenced: str = ""


class ChangesLanded(Value):
    """`landed`: the work of some has landed; the commit is None where it is only in the user's worktree."""

    commit: str | None
    """The last one."""
    workers: tuple[str, ...]
    commits: tuple[str, ...] = ()
    """That of each worker, where each has its own."""


class LandingLost(Value):
    """`landing_lost`: this clone lacks the commits with the work of some, and the record of the run."""

    workers: tuple[str, ...]


class LandingBlocked(Value):
    """`landing_blocked`: what kept accepted work from landing, or from its record; empty: nothing now."""

    reason: str
    branch: str = ""
    """The branch that it waits for, where the user was on another one: back there it may land."""


class StateRecorded(Value):
    """`recorded`: what the state files show of each worker from here on."""

    commit: str | None
    told: Mapping[str, tuple[str | None, ...]]


class DeliverablesFinished(Value):
    """`deliverables`: the open deliverables of the phase whose tickets are all done by now."""

    names: tuple[str, ...]


class RunStopped(Value):
    """`closed`: the run is `cancelled` for good, or `interrupted` until it is resumed."""

    status: str


class RunReopened(Value):
    """`opened`: an interrupted run continues."""


class Unattributed(Value):
    """`unattributed`: paths changed while several unfenced workers, or the gate, could have done it."""

    paths: tuple[str, ...]
    candidates: tuple[str, ...]
    harm: bool = False
    during: str = ""
    """`gate`, where that ran the work of the candidates; otherwise they ran themselves."""
    holds: str = ""
    """Why the candidates may not land before the lead has decided."""


RunEvent = (
    WorkerStarted | WorkerEnded | WorkerSkipped | AttemptRepeated | WorkerReopened | WorkerReassigned
    | WorkerHeld | ProviderParked | CostUnsettled | AcceptanceChecked | TreeSetUp | PathsNotLinked
    | RuntimeWarned | CheckpointTold | VerdictSettled | GateBegun | GateStep | GateRun | GateSeen | GateEnded
    | ChangesLanded | LandingLost | LandingBlocked | MessageNoted | MessageUnacknowledged | StateRecorded
    | DeliverablesFinished | RunStopped | RunReopened | Unattributed
)  # fmt: skip


class Noted(Value):
    """An event and the time of its note: ISO 8601 with its zone; empty where a record has none."""

    at: str
    event: RunEvent


EVENTS: Mapping[str, type[RunEvent]] = {
    "started": WorkerStarted, "ended": WorkerEnded, "skipped": WorkerSkipped,
    "retry": AttemptRepeated, "afresh": AttemptRepeated, "asked": AttemptRepeated, "lost": AttemptRepeated,
    "reopened": WorkerReopened,
    "moved": WorkerReassigned, "held": WorkerHeld, "parked": ProviderParked, "unsettled": CostUnsettled,
    "checked": AcceptanceChecked, "set_up": TreeSetUp, "not_linked": PathsNotLinked, "warned": RuntimeWarned,
    "checkpoint": CheckpointTold,
    "settled": VerdictSettled, "gate_begun": GateBegun, "gate_step": GateStep, "gate_run": GateRun,
    "gate_seen": GateSeen,
    "gate": GateEnded, "landed": ChangesLanded, "landing_lost": LandingLost,
    "landing_blocked": LandingBlocked, "recorded": StateRecorded,
    "deliverables": DeliverablesFinished, "closed": RunStopped, "opened": RunReopened,
    "unattributed": Unattributed, "message": MessageNoted, "unacknowledged": MessageUnacknowledged,
}  # fmt: skip
"""Events by their names in the journal."""
_NAMES = {kind: name for name, kind in EVENTS.items()}
_WHERE_SO = frozenset(("flaky", "fenced", "during", "holds", "commits", "branch"))
"""Fields that are written only where they have a value."""
_WRITTEN = {"sender": "from"}
"""Fields whose names in the journal are no names in Python."""


def name_of(event: RunEvent) -> str:
    """Return the name of an event in the journal."""
    return event.event if isinstance(event, AttemptRepeated) else _NAMES[type(event)]


def encoded(noted: Noted) -> dict[str, Any]:
    """Return the record of an event for the journal."""
    event = noted.event
    record = {"at": noted.at, "event": name_of(event)}
    if isinstance(event, WorkerEnded):
        return {**record, "worker": event.worker, "facts": event.as_facts()}
    fields = ((name, as_json(value)) for name, value in zip(event._fields, event, strict=True))
    return record | {
        _WRITTEN.get(name, name): value for name, value in fields if value or name not in _WHERE_SO
    }


def decoded(record: Mapping[str, Any]) -> Noted | None:
    """Return the event of a record; None where it is unknown, or has another shape than ours."""
    name = record.get("event")
    kind = EVENTS.get(name) if isinstance(name, str) else None
    at: str = record["at"] if is_time(record.get("at")) else ""
    # A running worker's time is counted from it.
    if kind is None or (kind is WorkerStarted and not at):
        return None
    try:
        if kind is WorkerEnded:
            return Noted(at, _ended(record))
        found = {**record, "sender": record.get("from")} if kind is MessageNoted else dict(record)
        return Noted(at, typed(kind, found))
    except UnsoundError:
        return None


def _ended(record: Mapping[str, Any]) -> WorkerEnded:
    facts, worker = record.get("facts"), record.get("worker")
    # Facts of another worker under its name would settle that one.
    if type(facts) is not dict or facts.get("worker", worker) != worker:
        raise UnsoundError("facts")
    return typed(WorkerEnded, {**facts, "worker": worker, "evidence": facts})
