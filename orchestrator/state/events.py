"""The closed union of what a state file can show. Plain values; `at` is always UTC."""

from datetime import datetime
from typing import Literal

from tickets.types import Outcome, Verdict
from tickets.value import Value


class RosterEntry(Value):
    """One worker that has been sent out."""

    worker: str
    title: str
    scope: tuple[str, ...]
    """Patterns as the ticket states them; empty for a ticket that owns nothing."""


Decider = Literal["lead", "gate", "conflict", "rule"]


class Completion(Value):
    """One worker whose run has been integrated."""

    worker: str
    title: str
    outcome: Outcome
    verdict: Verdict | None
    """None for a skipped one."""
    reason: str
    files: tuple[str, ...]
    """Paths landed."""
    decider: Decider = "rule"
    """Who or what settled the verdict; `rule` is not worth an entry in the decision log."""
    said: str = ""
    """Why the lead decided so, in the lead's words; empty where no reason was given."""
    finding: str = ""
    """What speaks against the worker, whatever was decided; empty where nothing does."""
    left_out: tuple[str, ...] = ()
    """Paths that it changed and that did not land."""


class RunDeployed(Value):
    """A run has started: its workers stand on the roster."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[RosterEntry, ...]


class RunIntegrated(Value):
    """Verdicts of a run. It may be recorded again when pending verdicts are settled."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[Completion, ...]
    landing: str | None
    """Sha of the landing commit, if anything landed."""
    is_settled: bool = False
    """Whether verdicts of this run were recorded before."""


class RunClosed(Value):
    """A run ended without integration (cancelled, refused): its workers leave the roster."""

    run: str
    at: datetime
    lead: str
    status: Literal["cancelled", "interrupted"]


Grade = Literal["P0", "P1", "P2"]


class TodoAdded(Value):
    """New items on the TODO list; one that is open there already is not added again."""

    items: tuple[str, ...]
    grade: Grade
    at: datetime
    lead: str


class TodoDone(Value):
    """An item of the TODO list is done. `text` is the whole item, as it reads."""

    text: str
    grade: Grade
    at: datetime
    lead: str


class TodoMoved(Value):
    """An item has another priority; `to` None takes it off the list, into the backlog."""

    text: str
    grade: Grade
    to: Grade | None
    at: datetime
    lead: str


class Decision(Value):
    """One decision in the words of who made it; `supersedes` are headings of earlier entries."""

    title: str
    context: str
    decision: str
    alternatives: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()


class Decided(Value):
    """Decisions of the lead."""

    decisions: tuple[Decision, ...]
    at: datetime
    lead: str


class DeliverableChanged(Value):
    """A deliverable was begun, finished or is stuck. `phase` is the phase's heading."""

    phase: str
    name: str
    status: Literal["IN PROGRESS", "COMPLETE", "BLOCKED"]
    owner: str
    """Empty: as it was, or nobody's."""
    reason: str
    """Why it is stuck; empty otherwise."""
    tests: str
    """What the project's tests said; empty where they were not run."""
    at: datetime
    lead: str
    impact: str = ""
    mitigation: str = ""
    priority: str = ""
    """What a report says of it while it is stuck; each may be empty."""


class CriterionMet(Value):
    """An acceptance criterion is met, or after all is not. `section` is the heading that it stands under."""

    section: str
    text: str
    met: bool
    at: datetime
    lead: str
    tests: str = ""


class MilestoneReached(Value):
    """The milestone of a phase is reached."""

    phase: str
    milestone: str
    at: datetime
    lead: str
    tests: str = ""


class PhaseMoved(Value):
    """The project goes from one phase to the next. Both are headings of the plan."""

    ended: str | None
    """None where a phase is only begun."""
    begun: str | None
    """None where the last one has ended."""
    gate: str
    """The approval that lets it; empty where none is needed."""
    tests: str
    at: datetime
    lead: str
    left_open: tuple[str, ...] = ()
    """What the phase that ends owed and did not bring."""
    reason: str = ""
    """Why it ends all the same; empty where nothing is left open."""


class PhaseAdded(Value):
    """The plan has one more phase. `number` is the one that it gets."""

    number: str
    name: str
    milestone: str
    criteria: tuple[str, ...]
    deliverables: tuple[str, ...]
    gate: str
    """The approval that lets it; empty where the plan is not agreed on yet."""
    at: datetime
    lead: str


class DeliverableAdded(Value):
    """A phase is to bring one thing more. `phase` is its heading."""

    phase: str
    name: str
    next: bool
    """It is what is worked on next."""
    at: datetime
    lead: str


class CriterionAdded(Value):
    """One more criterion. `section` is the heading that it goes under."""

    section: str
    text: str
    at: datetime
    lead: str


class GateAnswered(Value):
    """The user's answer to a request for approval."""

    gate: str
    by: str
    answer: Literal["approved", "rejected"]
    condition: str
    about: str
    """What is asked for, in words."""
    at: datetime
    lead: str


class EditsAcknowledged(Value):
    """Old decisions that were mended by hand, and that is known: (heading, what its text is now)."""

    edits: tuple[tuple[str, str], ...]
    at: datetime
    lead: str


LeadEvent = (
    TodoAdded | TodoDone | TodoMoved | Decided | DeliverableChanged | CriterionMet | MilestoneReached
    | PhaseMoved | PhaseAdded | DeliverableAdded | CriterionAdded | GateAnswered | EditsAcknowledged
)  # fmt: skip
Event = RunDeployed | RunIntegrated | RunClosed | LeadEvent
