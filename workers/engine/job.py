"""The input and output of an engine, as plain data: a job, its tree, its events, its result.

An engine runs one attempt of one worker. `workers.engine.local` does it on this machine; an engine for other
machines takes and returns the same values.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from tickets.redact import Redactor
from tickets.ticket import Ticket
from workers.agents.agent import AgentSettings, Answer
from workers.fence.probe import OPEN, Fence
from workers.files.exit_record import Exit
from workers.files.run_dir import RunDir
from workers.git.run import Repository
from workers.shim.spec import Limits
from workers.worktree.changes import Found
from workers.worktree.checkout import Furniture
from workers.worktree.environments import Environments
from workers.worktree.worktree import Place

NO_ANSWER = Answer("none", "")


class Messages(NamedTuple):
    """What the workers of a run report to its coordinator, and what a blocked one does."""

    phase: str = ""
    phase_worker: str | None = None
    """The worker that owns the plans of the phase."""
    events: Literal["transitions", "milestones"] = "transitions"
    on_blocker: Literal["skip", "pause"] = "skip"
    pause_limit: float = 1800.0
    """Seconds that a paused worker waits for an answer."""
    ack_limit: float = 900.0
    """Seconds without a receipt after which a message is reported as unacknowledged."""


class Site(NamedTuple):
    """The facts that all jobs of a run share on this machine."""

    run: RunDir
    repository: Repository
    environ: Mapping[str, str]
    """The runtime's own environment; a worker sees the allowed part of it."""
    fence: Fence = OPEN
    trust_repository: bool = False
    stops_with_runtime: bool = False
    runtime: str = ""
    """Unique to this runtime among all of the run: a part of the marks of what it launches."""
    environments: Environments = Environments()
    variables: Mapping[str, str] = {}  # it is never changed
    """Further variables for all of them, from the settings."""
    readable: tuple[Path, ...] = ()
    """What workers and checks may read behind a fence, besides what each of them needs."""
    redactor: Redactor = Redactor()
    """For the words of an output that are cut, and after that not known as a secret."""
    messages: Messages = Messages()


class SetUp(NamedTuple):
    """The setup of a fresh tree: extra files, then commands."""

    furniture: Furniture = Furniture()
    commands: tuple[str, ...] = ()
    """Of all tickets, run in the tree's root."""
    own: tuple[str, ...] = ()
    """Of one ticket, after those, with its `env` and in its `cwd`."""
    env: Mapping[str, str] = {}  # as above
    cwd: str = ""
    limits: Limits = Limits()
    """Of each command."""
    network: bool = True
    """Whether the commands have one."""

    @property
    def changes_tree(self) -> bool:
        """Whether a tree that is set up may hold more than its commit."""
        return bool(self.commands or self.own or self.furniture.copied or self.furniture.linked)


class TreePlan(NamedTuple):
    """The worktree of a job, and how to make it."""

    base: str
    """The commit that it is made from."""
    set_up: SetUp = SetUp()
    is_shared: bool = False
    """Whether read-only workers of the same base share one tree."""
    is_kept: bool = False
    """Whether an earlier attempt has worked in it: it is used as it is, and made only if it is gone."""
    patch: Path | None = None
    """The work of an earlier attempt, which a tree that has to be made again is given."""


class EarlierWork(NamedTuple):
    """What the first attempt is given of an earlier run, besides the files of its tree."""

    home: Path | None = None
    """The home of the worker whose thread it resumes."""
    patch: Path | None = None
    """Changes that do not fit the tree, to be read: `earlier.patch` in its TMPDIR."""


class Job(NamedTuple):
    """One attempt of a ticket's worker: the process, its tree, and its limits."""

    ticket: Ticket
    """With its current agent."""
    number: int
    """Of the attempt, from one."""
    tree: TreePlan
    settings: AgentSettings
    limits: Limits
    prompt: Path
    """The file that is its standard input."""
    thread: str | None = None
    """The thread of an earlier attempt to resume."""
    earlier: EarlierWork | None = None
    budget_usd: float | None = None
    """The most that it may spend, where that is less than in the ticket."""
    deadline: float = float(2**40)
    """When its time ends, in epoch seconds, as far as is known before it starts."""
    patch_cap: int = 256 << 20
    """Bytes that its changes may have."""
    lock_fds: tuple[int, ...] = ()
    """Descriptors of the locked files of its slot; the shim holds them from here on."""
    is_adopted: bool = False
    """Whether an earlier runtime has started it: it is waited for and never started again."""


class Ended(NamedTuple):
    """The end of an attempt's process, and the result of its output."""

    exit: Exit
    answer: Answer


class Result(NamedTuple):
    """The result of an attempt."""

    exit: Exit
    answer: Answer = NO_ANSWER
    tree: Place | None = None
    """None where it was never made, or is gone."""
    is_shared: bool = False
    """Other workers read the tree, too; changes there are found when the last one has gone."""
    found: Found | None = None
    """None where its tree was not read: it is gone, another attempt continues in it, or `error` is set."""
    error: str = ""
    """Why its changes cannot be read, or are more than may be kept."""
    patch: Path | None = None
    """The patch of its changes, where there are any."""
    left_base: str | None = None
    """Its changes of the git metadata of its own tree."""


class TreeReady(NamedTuple):
    """The tree of a job is ready, and its worker is started next."""

    base: str


class PathsMissing(NamedTuple):
    """Paths that are to be linked into a tree and do not exist in the user's worktree."""

    tree: str
    paths: tuple[str, ...]


class SetUpRan(NamedTuple):
    """A setup command has ended in a tree."""

    tree: str
    command: str
    passed: bool
    seconds: float


class FirstAnswer(NamedTuple):
    """The provider of an agent has answered the worker for the first time: its login works."""


class Throttled(NamedTuple):
    """The worker waits for its provider."""

    seconds: float
    """0 where the provider names no time."""
    message: str


class CheckpointSaid(NamedTuple):
    """The worker has said in a line of its own how far it has come."""

    line: str


class PatchDue(NamedTuple):
    """The patch of the worker's changes is written next."""

    path: Path


EngineEvent = TreeReady | PathsMissing | SetUpRan | FirstAnswer | Throttled | CheckpointSaid | PatchDue
Emit = Callable[[EngineEvent], None]
"""Accepts the events of a job, in their order, while it runs."""
