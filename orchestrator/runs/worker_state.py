"""The state of one worker by a run's journal."""

from typing import Literal, get_args

from orchestrator.runs.continued import Continued
from orchestrator.runs.events import (
    NO_EVIDENCE,
    Begin,
    Evidence,
    Kind,
    SettledBy,
    Try,
    Unattributed,
    WorkerReopened,
)
from tickets.types import AgentName, Outcome, Verdict

LANDS = ("accepted", "partial")
"""Verdicts with which a worker's changes land."""
Standing = Literal["accepted", "pending", "rejected", "failed", "skipped", "running", "stopped", "waiting"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
"""In the order in which they are told.

`failed` are those that did not end well, whatever was decided; `stopped` those that have no outcome, and that
nobody works on.
"""
WENT_WRONG = ("failed", "timed_out", "blocked", "needs_clarification", "rate_limited", "interrupted")
"""Outcomes that the lead examines before the ticket is rerun."""
CUT_OFF = ("timed_out", "rate_limited", "interrupted")
"""Outcomes of a worker that can go on by itself."""
HELD_UP = ("gate", "hook", "conflict", "dependency")
"""What may delay a verdict that the rule, or the lead, had already decided."""
DONE_SINCE = "done since by run "
"""The beginning of the reason of a ticket that a later run has done."""


MOST_ANSWERS = 5
"""How often a ticket goes on with an answer: two that answer each other without end cost money."""


class WorkerState:
    """One worker, as `RunState` folds it from the journal.

    Values equal to the class's are not in the instance: of ten thousand tickets most wait.
    """

    outcome: Outcome | None = None
    reason: str = ""
    """The reason of its verdict."""
    verdict: Verdict | None = None
    flags: tuple[str, ...] = ()
    evidence: Evidence = NO_EVIDENCE
    found: str = ""
    """The reason of its end, whatever was decided since."""
    started: bool = False
    ended: bool = False
    """Whether it has an outcome."""
    attempts: int = 0
    """The newest attempt; they are numbered from one."""
    kind: Kind = "first"
    again: bool = False
    """Whether its ticket was done before: only `--again` runs it once more."""
    continues: Continued | None = None
    """What it goes on from, where an earlier run has begun its ticket."""
    base: str = ""
    """The commit that its newest attempt started from."""
    fence: str | None = None
    started_at: str = ""
    """When its newest attempt began; ISO 8601."""
    retries: int = 0
    """Attempts that count against `retries` of its ticket."""
    retrying: bool = False
    """Whether an attempt has ended, and the next one has not started."""
    begin: Begin | None = None
    """How the next attempt was to begin, by the last decision."""
    answered: tuple[str, ...] = ()
    """Ids of the messages that the lead has answered after its end, so that it goes on."""
    tries: tuple[Try, ...] = ()
    told: str = ""
    """The line in which it has said last how far it has come."""
    held: str = ""
    """Why it does not start although it has its turn."""
    held_news: tuple[str, ...] = ()
    """Times of the `held` events with something new."""
    settled_by: SettledBy | Literal[""] = ""
    held_up: str = ""
    """What kept accepted work from landing last: a gate, a hook, a conflict, a dependency."""
    doubted: str = ""
    """Why a rule left its last verdict to the lead."""
    lead_said: tuple[Verdict | None, str] | None = None
    """The verdict and the reason of the lead's last decision."""
    harm: tuple[Unattributed, ...] = ()
    """The gate's tampering, oldest first, because of which it waits for the lead's decision."""
    despite: frozenset[str] = frozenset()
    """The paths of such tampering despite which the lead has accepted it."""

    def __init__(self, worker: str, ticket: str, agent: AgentName) -> None:
        self.worker = worker
        self.ticket = ticket
        self.agent = agent
        """The agent that does it now: another one than its template's may have taken over."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerState) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def reopen(self, event: WorkerReopened) -> None:
        """Go on after the lead's answer: what its last attempt ended with is no result any more."""
        self.ended, self.outcome, self.verdict, self.reason = False, None, None, ""
        self.flags, self.settled_by, self.lead_said = (), "", None
        self.retrying, self.begin = True, event.begin
        self.answered += (event.re,)

    def why_not_answered(self, *, asks: bool) -> str:
        """Return why it, having ended, does not go on with an answer of the lead's; empty where it does.

        `asks`: it has put a question to the lead that nobody has answered.
        """
        waits = self.outcome in ("blocked", "needs_clarification") or asks
        if not waits or self.lands or self.outcome in ("cancelled", "skipped"):
            return f"it has ended: {self.outcome}"
        if len(self.answered) >= MOST_ANSWERS:
            return f"it has been answered {MOST_ANSWERS} times, the most for one ticket"
        return ""

    @property
    def was_cut_off_before(self) -> bool:
        """Whether an earlier attempt was cut off, in this run or in the one that it goes on from."""
        here = any(one.outcome in CUT_OFF for one in self.tries[:-1])
        return here or (self.continues is not None and self.continues.was_cut_off)

    @property
    def ended_as(self) -> Outcome:
        """The outcome of one that has ended."""
        assert self.outcome is not None  # noqa: S101 - the caller has asked `ended`
        return self.outcome

    @property
    def lands(self) -> bool:
        """Whether its changes are accepted, wholly or in part."""
        return self.verdict in LANDS

    @property
    def had_nothing_to_do(self) -> bool:
        """Whether it has found that there is nothing to do: no failure, and nobody waits in vain for it."""
        return self.started and self.outcome == "skipped" and not self.is_done_since

    @property
    def is_done_since(self) -> bool:
        """Whether a later run has done its ticket: no failure either, but its dependents lack that work."""
        return self.outcome == "skipped" and self.reason.startswith(DONE_SINCE)

    @property
    def standing(self) -> Standing:
        """What became of its work, for a count; `running` is to be told from `stopped` by the run's files."""
        if self.lands:
            return "accepted"
        if not self.ended:
            return "running" if self.started else "waiting"
        if self.verdict == "pending":
            return "pending"
        if self.outcome == "skipped":
            return "skipped"
        return "rejected" if self.outcome == "complete" else "failed"
