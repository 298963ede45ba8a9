"""The events of a run's journal: what each says, and how a record of it is written and read.

`docs/commands.md` has the records as the outside sees them. A record of an event that is not known here, or
of another shape than ours, is passed over.
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
"""Who says what it cost; `unpriced`: nobody, so it is counted in tokens alone."""
Kind = Literal["first", "again", "thread", "asked"]
"""How an attempt begins. `again`: with the ticket and what an earlier attempt left; `thread`: on in that
one's thread; `asked`: for what its report lacks."""
ViolationKind = Literal[
    "out_of_scope", "touched_state_file", "read_only_wrote", "git_write", "too_many_files"
]
SettledBy = Literal["lead", "rule", "gate", "hook", "conflict", "dependency", "harm"]
"""`harm`: what the gate's commands did to the user's repository."""


# What events are made of


class Usage(Value):
    """What attempts used. Tokens include cached ones; USD are None where nobody told them."""

    input_tokens: Tokens
    output_tokens: Tokens
    cost_usd: Amount | None
    cached_tokens: Tokens = 0
    cost_by: Annotated[PricedBy, text] = "unpriced"


NO_USAGE = Usage(0, 0, None)


class Violation(Value):
    """Something a worker did that its ticket did not allow."""

    kind: Annotated[ViolationKind, text]
    path: str


class Begin(Value):
    """How an attempt begins: from nothing, or from what the one before it left."""

    kind: Kind = "first"
    thread: str | None = None
    reason: str = ""
    """Why the attempt before it ended, or what its report lacks."""
    changed: tuple[str, ...] = ()
    """What it changed, as far as it is named; `more` counts the rest."""
    more: Count = 0
    said: str = ""
    """Its last words."""

    def elsewhere(self) -> "Begin":
        """Return how another agent begins, which knows nothing of the thread."""
        return self._replace(kind="again", thread=None) if self.kind == "thread" else self


class Try(Value):
    """The account of one attempt."""

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


class Claims(Value):
    """The account in a worker's report, and where the files tell another story."""

    status: str | None
    files: tuple[str, ...]
    """Paths that it names as affected."""
    not_found: tuple[str, ...]
    """Of these, what it did not change."""
    not_said: tuple[str, ...]
    """What it changed and did not name."""


class AcceptanceResult(Value):
    """What became of one acceptance command; `output` is the path of what it printed."""

    command: str
    passed: bool
    exit_code: int | None
    end: str
    seconds: float
    output: str


class Evidence(Value):
    """What was found of a worker when it had ended. Paths are relative to the project."""

    fence: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    end: str | None = None
    """How its process ended, in the words of `workers.files.exit_record`."""
    attempts: Count = 0
    seconds: Amount = 0.0
    files: tuple[str, ...] = ()
    """What may land: its changes inside its scope."""
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
    """Its worktree, where that is kept for holding the only copy of its work."""
    acceptance: Annotated[tuple[AcceptanceResult, ...], unread] = ()
    started_at: str = ""
    ended_at: str = ""
    max_rss_kb: int = 0


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
    """`ended`: a worker's last attempt was judged; the record of a worker, `WORKER.json`, says the same."""

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
    """`skipped`: a ticket ends without having been started."""

    worker: str
    reason: str


class AttemptRepeated(Value):
    """`retry`, `afresh`, `asked`, `lost`: an attempt has ended, and another one is to follow.

    `afresh` counts as no retry: nobody is to blame. `asked`: its report lacks something. `lost`: its runtime
    or its tree is gone.
    """

    event: Literal["retry", "afresh", "asked", "lost"]
    worker: str
    attempt: Count = 0
    reason: str = ""
    tried: Try | None = None
    begin: Begin | None = None
    """How the next attempt begins."""


class WorkerReassigned(Value):
    """`moved`: another agent does a ticket from now on."""

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
    """Whether the provider said itself until when."""
    limit: int | None = None
    """Workers of that agent that may run from now on; None is not limited."""


class CostUnsettled(Value):
    """`unsettled`: what an attempt cost could not be written into the ledger."""

    worker: str
    attempt: Count = 0
    reason: str = ""


class AcceptanceChecked(Value):
    """`checked`: an acceptance command of a worker has ended."""

    worker: str
    command: str
    passed: bool


class TreeSetUp(Value):
    """`set_up`: a setup command has ended in a worktree, which has a worker's name or one of its own."""

    worker: str
    command: str
    passed: bool
    seconds: Amount = 0.0


class PathsNotLinked(Value):
    """`not_linked`: what `[worktree] link` names and the user's worktree does not have."""

    worker: str
    paths: tuple[str, ...]


class RuntimeWarned(Value):
    """`warned`: the machine is short of something."""

    reason: str


class VerdictSettled(Value):
    """`settled`: a verdict has changed, and who changed it."""

    worker: str
    verdict: Verdict | None
    reason: str
    by: Annotated[SettledBy, text]


class GateBegun(Value):
    """`gate_begun`: an unfenced gate begins, which may kill its runtime."""

    workers: tuple[str, ...] = ()


class GateRun(Value):
    """`gate_run`: one command of the gate on one tree; `look` counts how often it is asked on that tree."""

    tree: str
    look: int
    command: str
    passed: bool
    words: str
    """How it went, on one line."""
    last: str = ""
    """The last line that it printed."""
    seconds: Amount = 0.0
    output: Inside = ""
    fenced: str = ""
    """What the fence keeps from it, where it failed and that may be why."""


class GateSeen(Value):
    """`gate_seen`: what an unfenced gate did to the user's repository has been looked for."""


class GateEnded(Value):
    """`gate`: what the gate came to, on one line."""

    result: str
    passed: bool = False
    flaky: bool = False
    """It was red once and green once on the same tree."""
    fenced: str = ""


class ChangesLanded(Value):
    """`landed`: the work of some has landed; the commit is None where it is in the user's worktree alone."""

    commit: str | None
    workers: tuple[str, ...]


class StateRecorded(Value):
    """`recorded`: what the state files show of each worker from now on."""

    commit: str | None
    told: Mapping[str, tuple[str | None, ...]]


class RunStopped(Value):
    """`closed`: the run is `cancelled` for good, or `interrupted` until it is resumed."""

    status: str


class RunReopened(Value):
    """`opened`: an interrupted run goes on."""


class Unattributed(Value):
    """`unattributed`: paths changed while several unfenced workers, or the gate, could have done it."""

    paths: tuple[str, ...]
    candidates: tuple[str, ...]
    harm: bool = False
    during: str = ""
    """`gate`, where that ran the work of the candidates; else they ran themselves."""
    holds: str = ""
    """Why the candidates may not land before the lead has decided."""


RunEvent = (
    WorkerStarted | WorkerEnded | WorkerSkipped | AttemptRepeated | WorkerReassigned | WorkerHeld
    | ProviderParked | CostUnsettled | AcceptanceChecked | TreeSetUp | PathsNotLinked | RuntimeWarned
    | VerdictSettled | GateBegun | GateRun | GateSeen | GateEnded | ChangesLanded | StateRecorded
    | RunStopped | RunReopened | Unattributed
)  # fmt: skip


class Noted(Value):
    """An event and when it was noted: ISO 8601 with its zone; empty where a record does not say it."""

    at: str
    event: RunEvent


EVENTS: Mapping[str, type[RunEvent]] = {
    "started": WorkerStarted, "ended": WorkerEnded, "skipped": WorkerSkipped,
    "retry": AttemptRepeated, "afresh": AttemptRepeated, "asked": AttemptRepeated, "lost": AttemptRepeated,
    "moved": WorkerReassigned, "held": WorkerHeld, "parked": ProviderParked, "unsettled": CostUnsettled,
    "checked": AcceptanceChecked, "set_up": TreeSetUp, "not_linked": PathsNotLinked, "warned": RuntimeWarned,
    "settled": VerdictSettled, "gate_begun": GateBegun, "gate_run": GateRun, "gate_seen": GateSeen,
    "gate": GateEnded, "landed": ChangesLanded, "recorded": StateRecorded, "closed": RunStopped,
    "opened": RunReopened, "unattributed": Unattributed,
}  # fmt: skip
"""Event as the journal names it."""
_NAMES = {kind: name for name, kind in EVENTS.items()}
_WHERE_SO = frozenset(("flaky", "fenced", "during", "holds"))
"""Fields that are written only where they say something."""


def name_of(event: RunEvent) -> str:
    """Return the word for an event in the journal."""
    return event.event if isinstance(event, AttemptRepeated) else _NAMES[type(event)]


def encoded(noted: Noted) -> dict[str, Any]:
    """Return the record of an event as the journal keeps it."""
    event = noted.event
    record = {"at": noted.at, "event": name_of(event)}
    if isinstance(event, WorkerEnded):
        return {**record, "worker": event.worker, "facts": event.as_facts()}
    fields = ((name, as_json(value)) for name, value in zip(event._fields, event, strict=True))
    return record | {name: value for name, value in fields if value or name not in _WHERE_SO}


def decoded(record: Mapping[str, Any]) -> Noted | None:
    """Return the event of a record; None where it is not known, or has another shape than ours."""
    name = record.get("event")
    kind = EVENTS.get(name) if isinstance(name, str) else None
    at: str = record["at"] if is_time(record.get("at")) else ""
    # While a worker runs, its time is counted from there.
    if kind is None or (kind is WorkerStarted and not at):
        return None
    try:
        return Noted(at, _ended(record) if kind is WorkerEnded else typed(kind, record))
    except UnsoundError:
        return None


def _ended(record: Mapping[str, Any]) -> WorkerEnded:
    facts, worker = record.get("facts"), record.get("worker")
    # Facts of another worker under its name would settle that one.
    if type(facts) is not dict or facts.get("worker", worker) != worker:
        raise UnsoundError("facts")
    return typed(WorkerEnded, {**facts, "worker": worker, "evidence": facts})
