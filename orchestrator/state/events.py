"""The closed union of events that a state file can show. Plain values; `at` is always UTC."""

from datetime import datetime
from typing import Literal

from tickets.types import BlockerMode, Outcome, Verdict
from tickets.value import Value


class RosterEntry(Value):
    """One worker that has been started."""

    worker: str
    title: str
    scope: tuple[str, ...]
    """Patterns as in the ticket; empty for a ticket that owns nothing."""


Decider = Literal["lead", "gate", "conflict", "rule"]


class Completion(Value):
    """One worker whose run has been integrated."""

    worker: str
    title: str
    outcome: Outcome
    verdict: Verdict | None
    """None for a skipped worker."""
    reason: str
    files: tuple[str, ...]
    """Landed paths."""
    decider: Decider = "rule"
    """What settled the verdict; `rule` gets no entry in the decision log."""
    said: str = ""
    """The lead's reason, in the lead's words; empty where none was given."""
    finding: str = ""
    """The findings against the worker, independent of the verdict; empty where there are none."""
    left_out: tuple[str, ...] = ()
    """Paths that it changed and that did not land."""
    result: str = ""
    """Its result on one line, in its own words, where it was accepted."""
    was_rejected: bool = False
    """Whether it was rejected by the verdict that was recorded before."""
    ticket: str = ""
    """The id of its ticket; empty where it is not known any more."""

    @property
    def is_done(self) -> bool:
        """Whether its work is accepted, wholly or in part: what failed stands in the run."""
        return self.verdict in ("accepted", "partial")


class RunDeployed(Value):
    """A run has started: its workers are on the roster."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[RosterEntry, ...]


class RunIntegrated(Value):
    """The verdicts of a run. Recorded again when pending verdicts are settled."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[Completion, ...]
    landing: str | None
    """Sha of the landing commit, if anything landed."""
    is_settled: bool = False
    """Whether verdicts of this run were recorded before."""
    left_out: tuple[str, ...] = ()
    """The tickets of the phase that were not chosen, and are not done: the phase has not been run."""
    tests: str = ""
    """The figure of the gate's tests on what landed; empty where it is not known, or others give it."""
    can_resume: tuple[str, ...] = ()
    """Workers that an answer would resume: the blockers of such a phase worker stay open."""
    chat: "tuple[ChatMessage, ...]" = ()
    """The messages of the run, in their order."""


class RunClosed(Value):
    """A run ended without integration (cancelled, refused): its workers are removed from the roster."""

    run: str
    at: datetime
    lead: str
    status: Literal["cancelled", "interrupted"]
    phase: str = ""
    """Empty where nothing tells it any more."""


class ChatMessage(Value):
    """One message of a run, as the chat log keeps it."""

    id: str
    at: str
    sender: str
    to: str
    type: str
    phase: str | None
    plan: str | None
    re: str | None
    body: str
    stands: str
    answered_by: tuple[str, ...] = ()


Grade = Literal["P0", "P1", "P2"]


class TodoAdded(Value):
    """New items on the TODO list; an item that is open there already is not added again."""

    items: tuple[str, ...]
    grade: Grade
    at: datetime
    lead: str


class TodoDone(Value):
    """An item of the TODO list is done. `text` is the whole item."""

    text: str
    grade: Grade
    at: datetime
    lead: str


class TodoMoved(Value):
    """An item gets another priority; `to` None moves it off the list, into the backlog."""

    text: str
    grade: Grade
    to: Grade | None
    at: datetime
    lead: str


class Decision(Value):
    """One decision in its author's words; `supersedes` are headings of earlier entries."""

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
    """A deliverable was started, finished or blocked. `phase` is the phase's heading."""

    phase: str
    name: str
    status: Literal["IN PROGRESS", "COMPLETE", "BLOCKED"]
    owner: str
    """Empty: unchanged, or no owner."""
    reason: str
    """Why it is blocked; empty otherwise."""
    tests: str
    """The result of the project's tests; empty where they were not run."""
    at: datetime
    lead: str
    impact: str = ""
    mitigation: str = ""
    priority: str = ""
    """What a report says of it while it is blocked; each may be empty."""


class CriterionMet(Value):
    """An acceptance criterion is met, or open again. `section` is the heading that it is under."""

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
    """The project moves from one phase to the next. Both are headings of the plan."""

    ended: str | None
    """None where a phase is only started."""
    begun: str | None
    """None where the last one has ended."""
    gate: str
    """The approval gate of the transition; empty where none is needed."""
    tests: str
    at: datetime
    lead: str
    left_open: tuple[str, ...] = ()
    """The open work of the phase that ends."""
    reason: str = ""
    """Why it ends nevertheless; empty where no work is open."""


class PhaseAdded(Value):
    """The plan gets one more phase. `number` is its number."""

    number: str
    name: str
    milestone: str
    criteria: tuple[str, ...]
    deliverables: tuple[str, ...]
    gate: str
    """The approval gate of the addition; empty where the plan is not approved yet."""
    at: datetime
    lead: str


class DeliverableAdded(Value):
    """A phase gets one more deliverable. `phase` is its heading."""

    phase: str
    name: str
    next: bool
    """It is to be worked on next."""
    at: datetime
    lead: str


class CriterionAdded(Value):
    """A new criterion. `section` is the heading that it goes under."""

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
    """What is to be approved."""
    at: datetime
    lead: str
    inside: str = ""
    """The variable that shows that the call came from inside an agent's environment."""


class EditsAcknowledged(Value):
    """Manual edits of old decisions that the lead acknowledges: (heading, current digest or `removed`)."""

    edits: tuple[tuple[str, str], ...]
    at: datetime
    lead: str


PlanState = Literal["not started", "in progress", "complete", "failed"]
TaskState = Literal["todo", "doing", "done", "blocked", "dropped"]


class NewPlan(Value):
    """A plan that a phase gets."""

    id: str
    title: str
    verify: str = ""
    """The command that shows that it is complete; empty: there is none."""
    tasks: tuple[str, ...] = ()


class PhaseTaken(Value):
    """A worker of a run owns the plans of a phase from now on. Recorded again it changes nothing."""

    run: str
    phase: str
    worker: str
    base: str
    """The commit that its ticket starts from."""
    at: datetime
    lead: str
    plans: tuple[NewPlan, ...] = ()
    """From its template: they begin PLAN.md where there is none."""

    @property
    def owner(self) -> str:
        """The worker as a participant."""
        return f"{self.run}.{self.worker}"


class PlanMoved(Value):
    """A plan got another state. `by` is the id of the message, or the coordinator that moved it by itself."""

    phase: str
    plan: str
    to: PlanState
    by: str
    at: datetime
    reason: str = ""
    commit: str | None = None
    """The snapshot of a complete plan."""
    verified: bool = False
    """Whether its check passed on that commit."""
    late: int = 0
    """Seconds between the message and the snapshot, where no runtime lived meanwhile."""


class TaskMoved(Value):
    """A task of a plan was reported."""

    phase: str
    plan: str
    task: str
    to: TaskState
    by: str
    at: datetime


class BlockerRaised(Value):
    """A task cannot go on. Empty texts are not known."""

    phase: str
    title: str
    by: str
    at: datetime
    mode: BlockerMode
    plan: str = ""
    task: str = ""
    attempted: str = ""
    needs: str = ""
    body: str = ""


class BlockerAnswered(Value):
    """A blocker was answered. `blocker` is the id of the message that raised it; the first answer counts."""

    phase: str
    blocker: str
    answer: str
    by: str
    at: datetime


class BlockerClosed(Value):
    """A blocker needs no answer any more. `blocker` is the id of the message that raised it."""

    phase: str
    blocker: str
    at: datetime


class PhaseNoted(Value):
    """Context or a decision of a phase; without a phase, context of the whole project.

    `by` is the id of a message; empty where the lead noted it by command.
    """

    phase: str
    at: datetime
    by: str = ""
    text: str = ""
    """A line of context."""
    decision: Decision | None = None
    removed: str = ""
    """A line of context, as it reads, that goes."""
    lead: str = ""
    """Who noted it by command; empty for a message."""


class PhaseReported(Value):
    """All plans of a phase are complete, as its worker reports."""

    phase: str
    by: str
    at: datetime
    summary: str


class PlanAdded(Value):
    """A phase gets one more plan."""

    phase: str
    plan: NewPlan
    at: datetime
    lead: str


Stage = Literal["research", "design", "review", "implementation", "testing"]
Standing = Literal["in_progress", "blocked", "awaiting_review", "complete"]
"""Of a checkpoint: goes on by itself, needs somebody, is judged next, done."""


class CheckpointWritten(Value):
    """An agent has come to a point from which its work can go on. Recorded again it changes nothing."""

    feature: str
    agent: str
    status: Standing
    action: str
    """What was done last; also the first note."""
    at: datetime
    team: str = ""
    """The phase as its template spells it; empty: unchanged."""
    stage: Stage | None = None
    """None: unchanged."""
    notes: tuple[str, ...] = ()
    """Further notes."""
    is_run: bool = False
    """Whether a run writes it: a file that it cannot edit is left alone, and the next free name taken."""
    begins: bool = True
    """Whether there is to be a checkpoint where there is none."""


class ContextSynced(Value):
    """A lead has brought the active context up to date; facts are what no state file holds."""

    at: datetime
    lead: str
    texts: tuple[tuple[str, str], ...] = ()
    """What the runtime's keys read."""
    once: tuple[tuple[str, str], ...] = ()
    """What keys read that their author has not set."""
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The runtime's items of keys, each with its source."""
    blocked: tuple[str, ...] = ()
    """The items about blocked checkpoints."""
    sets: tuple[tuple[str, str], ...] = ()
    adds: tuple[tuple[str, str], ...] = ()
    drops: tuple[tuple[str, str], ...] = ()
    """The lead's own changes, by key or word."""
    begins: bool = False
    """Whether missing sections and keys are added."""
    full: bool = False
    """All of them, and not the mandatory ones alone."""
    is_lost: bool = False
    """Whether there was one before that is missing now."""
    budget: int = 0
    """Tokens that the file may have; 0: no limit."""


class ContextSwitched(Value):
    """A lead turns to another task: the old one's sections are put aside, the new one's return."""

    sync: ContextSynced
    """The synchronization that comes first; of the new task it has what is set once."""
    old: str
    """Empty where no task was current."""
    to: str
    """Empty: no task is current then."""
    reason: str
    at: datetime
    lead: str
    goal: str = ""
    """Of a new task."""


class ContextArchived(Value):
    """A task is done: its sections are put aside for good, and the memory keeps what outlives it."""

    switch: ContextSwitched
    finished: datetime
    goal: str
    summary: str
    where: str
    verified: str
    lessons: tuple[str, ...]
    sessions: tuple[str, ...]
    context: str
    """The path of the file that holds its sections."""
    at: datetime
    lead: str


class SessionBegun(Value):
    """A lead begins a session. The store names its file, and makes `SessionStarted` of it."""

    at: datetime
    lead: str
    task_id: str = ""
    """Empty: that of the active context."""
    busy: tuple[str, ...] = ()
    """The leads of unfinished runs: their sessions are not closed for them."""


class SessionNoted(Value):
    """A lead's own entry in a session. `session` is its id; empty: the lead's open one."""

    text: str
    at: datetime
    lead: str
    title: str = ""
    """Empty: `Note`."""
    summary: str = ""
    for_next: str = ""
    """A note for the next session. Each may be empty."""
    session: str = ""


class SessionEnded(Value):
    """A lead ends a session. `session` is its id; empty: the lead's open one."""

    at: datetime
    lead: str
    summary: str = ""
    session: str = ""
    busy: tuple[str, ...] = ()


class SessionsArchived(Value):
    """Sessions that were not ended are closed, and old ones retire."""

    at: datetime
    busy: tuple[str, ...] = ()


class HandedOver(Value):
    """A lead hands over to the next one."""

    path: str
    """The document for the next lead."""
    at: datetime
    lead: str


class SessionLine(Value):
    """One line of a session's entry."""

    mark: Literal["Changed", "Commit", "Error", "Note"]
    text: str
    """Of an error, what went wrong."""
    subject: str = ""
    """The path or the commit that it is about; empty for a note or an error."""
    resolution: str = ""
    """What became of an error."""


class SessionStarted(Value):
    """A session's file begins; there is none of that name."""

    path: str
    task_id: str
    branch: str
    """Short name; empty where HEAD is detached."""
    commit: str
    """Abbreviated; empty in a repository without a commit."""
    at: datetime
    lead: str


class SessionEntered(Value):
    """A session gets an entry. Recorded again, that of a run changes nothing."""

    path: str
    title: str
    at: datetime
    lines: tuple[SessionLine, ...] = ()
    before: tuple[SessionLine, ...] = ()
    """Commits of others since the entry before it."""
    joins: bool = False
    """Whether its lines go to the newest entry, where that is young enough."""
    once: bool = False
    """Whether an entry of the same title and lines is not written twice."""
    headline: str = ""
    """The runtime's line of the summary; empty: unchanged."""
    said: str = ""
    """The summary in the lead's words; empty: unchanged."""
    for_next: str = ""
    files_changed: int | None = None
    commits: int | None = None
    """As git tells; None: as the changelog tells."""
    closes: bool = False
    """Whether the session is completed."""
    is_late: bool = False
    """Whether it is closed by another one's command: when something was last done in it stays."""


class SessionRetired(Value):
    """The file of an old session goes, as a commit holds it; a line of the memory is what stays of it."""

    path: str
    task_id: str
    files_changed: int
    commits: int
    summary: str
    at: datetime


LeadEvent = (
    TodoAdded | TodoDone | TodoMoved | Decided | DeliverableChanged | CriterionMet | MilestoneReached
    | PhaseMoved | PhaseAdded | DeliverableAdded | CriterionAdded | GateAnswered | EditsAcknowledged
    | PhaseNoted | PlanAdded | CheckpointWritten | ContextSynced | ContextSwitched | ContextArchived
    | SessionBegun | SessionNoted | SessionEnded | HandedOver
)  # fmt: skip
PhaseEvent = (
    PhaseTaken | PlanMoved | TaskMoved | BlockerRaised | BlockerAnswered | BlockerClosed | PhaseNoted
    | PhaseReported | PlanAdded
)  # fmt: skip
"""What happens to the plans of a phase; `phase` is the word of its templates, or its short name."""
SessionEvent = SessionStarted | SessionEntered | SessionRetired | SessionsArchived
"""What becomes of the files of sessions: the store makes them of the other events."""
Event = RunDeployed | RunIntegrated | RunClosed | LeadEvent | PhaseEvent | SessionEvent
