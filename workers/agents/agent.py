"""What an agent module provides, and the values that it and its callers exchange.

`tickets.types.AGENTS` lists the agents. To add one, write a module that satisfies `Agent`, and add a line
there.
"""

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from tickets.types import AgentName, Mode
from tickets.value import Value

Failure = Literal["rate_limited", "overloaded", "login", "provider", "budget", "refused", "interrupted"]
"""Why a stream says that it failed, where it says so; anything else is told by its text alone."""

FenceWanted = Literal["auto", "required", "landlock", "off"]
"""`fence` in `orchestrate.toml`; here, for what reads settings and starts nobody."""


class AgentSettings(Value):
    """`[agents.NAME]` of `orchestrate.toml`."""

    enabled: bool | None = None
    """None: as AGENTS.md says."""
    executable: str | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    env: tuple[str, ...] = ()
    """Names of variables passed through beside the allow-list."""
    network: Literal["open", "none"] = "open"
    """`none`: no network at all; only for command workers and checks."""


class InvocationRequest(Value):
    """What an agent needs to know to build its command line."""

    worker: str
    mode: Mode
    executable: str
    """Absolute path, as `locate` found it."""
    settings: AgentSettings
    model: str | None
    worktree: Path
    prompt: Path
    """The rendered ticket; it is the worker's standard input."""
    home: Path
    """A private directory of this worker, writable, not below its scratch directory."""
    environ: Mapping[str, str]
    """The runtime's own environment, from which an agent takes by allow-list."""
    instructions: tuple[str, ...] = ()
    """The repository's instruction files that exist: of AGENTS.md, CLAUDE.md, GEMINI.md."""
    trust_repository: bool = False
    fenced: bool = False
    """A fence of ours is in force, so the CLI's own sandbox may be switched off."""
    command: tuple[str, ...] | None = None
    budget_usd: float | None = None
    thread: str | None = None
    """The thread of an earlier attempt that is to go on; `prompt` is then what is said to it.

    It goes on in the same `home` and `worktree`: no CLI promises to find it from elsewhere.
    """


class Invocation(Value):
    """How to start one worker."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """What the agent adds to the common environment (`workers.engine.launch.common_environment`)."""
    files: dict[str, bytes]
    """Files to create below `InvocationRequest.home` first, by relative path."""
    capture: Literal["file", "pipe"] = "file"


class ModelUse(Value):
    """What of a worker's tokens one model took and gave; `input_tokens` include cached ones."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Usage(Value):
    """What a worker used, as far as its CLI tells. Tokens include cached ones; USD.

    Of one attempt; where an agent has `SUMS_THREAD_USAGE`, that of a resumed thread is the sum of the whole
    thread, and `orchestrator.execute.evidence` subtracts what earlier attempts have used.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    models: tuple[ModelUse, ...] = ()
    """The same tokens by model, where the stream names them: a CLI may choose, and turn to another one."""


class Progress(NamedTuple):
    """One thing a stream said that a person may want to see while it runs."""

    kind: Literal["session", "text", "tool", "tool_end", "retry", "error", "end", "question"]
    """`question`: a tool call that waits for its user, and so no work that is going on."""
    text: str = ""
    """What a terminal may be shown; of kind `text` with line breaks, where the agent made some."""
    delay: float | None = None
    """Seconds until a failed request is made again, where they are told (`retry`)."""
    status: int | None = None
    """The HTTP status of that request, where it is told (`retry`)."""


class Answer(Value):
    """What a whole stream amounts to."""

    ended: Literal["success", "error", "none"]
    """What the terminal record says; `none`: there was no terminal record (cut, killed, silent)."""
    text: str
    """The final answer, as the CLI gave it."""
    error: str = ""
    """One plain line, where the stream holds an error."""
    failure: Failure | None = None
    thread: str | None = None
    """What the CLI can resume (`thread_id`, `session_id`)."""
    usage: Usage | None = None
    flags: tuple[str, ...] = ()
    """Facts worth keeping: `oversize_record`, `cut_record`, `permission_denied`, `silent` …

    `thread_lost`: the CLI does not know the thread that was to go on; begin afresh.
    """
    status: Literal["complete", "blocked", "needs_clarification"] | None = None
    """What a command worker's own result line says, where it has one."""
    question: str = ""
    """What it waits for: a permission or an answer that nobody can give it.

    A report's own status outweighs it: what was refused may have been done in another way.
    """
    retry_after: float | None = None
    """Seconds from the end of the attempt, where the failure names them; more than 0, 7 days at most."""
    resets_at: float | None = None
    """Epoch seconds, where the failure names a time; later than the attempt's end, by 7 days at most."""


class Reader(Protocol):
    """Reads one worker's standard output, record by record."""

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end; noise is ignored."""

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream once it has ended. `exit_code` is None where a signal ended the worker.

        `now` is when it ended, in epoch seconds; without it no time of day is understood.
        """


class Login(Value):
    """Where a CLI keeps the user's own login."""

    folders: tuple[str, ...] = ()
    """Files and folders below the user's home that the CLI writes when no key is set."""
    locked: tuple[str, ...] = ()
    """Names in them that a fence keeps read-only: what they hold would run as the user later."""


NO_LOGIN = Login()


class Agent(Protocol):
    """A plain module that satisfies this is an agent: all facts about its CLI are attributes of it."""

    NAME: AgentName
    KEYS: tuple[str, ...]
    """Environment variables that hold this agent's credentials; other agents never see them."""
    LOGIN: Login
    CONFIG_VARIABLE: str | None
    """The variable that names the CLI's configuration directory, where that is not to be the user's."""
    INSTRUCTION_FILES: tuple[str, ...]
    """Files at the root of a repository that the CLI reads as instructions."""
    STOPS_AT_BUDGET: bool
    """It accepts an amount in USD and stops there; others report their use only when they end."""
    REPORTS_COST: bool
    """Its stream names the cost in USD."""
    REPORTS_MODELS: bool
    """Its stream names the models that did the work, also where none was asked for."""
    SUMS_THREAD_USAGE: bool
    """The use that it reports when a thread is resumed is the sum of the whole thread."""
    STDERR_RETRY: bytes
    """Part of a line on standard error by which a repeated request is known; empty: the stream has it."""

    def locate(self, settings: AgentSettings, path: str) -> str | None:
        """Find the executable on `path` (a PATH string): an absolute path, or None."""

    def invocation(self, request: InvocationRequest) -> Invocation:
        """Build the command line, environment and files. Raises WorkerError."""

    def new_reader(self) -> Reader:
        """Return a reader for one attempt."""


def agent_named(name: AgentName) -> Agent:
    """Return the module of an agent; imported late, since `plan` and `status` need none of them."""
    module: Agent = import_module(f"workers.agents.{name}")  # a module satisfies it
    return module


def find_agent(name: AgentName, settings: AgentSettings, environ: Mapping[str, str]) -> str | None:
    """Find an agent's executable as the worker's own PATH says; None where it is not installed."""
    return agent_named(name).locate(settings, environ.get("PATH", os.defpath))


def find_executable(default: str, settings: AgentSettings, path: str) -> str | None:
    """Find the executable that the settings name, else `default`, on `path`: absolute, or None."""
    import shutil  # noqa: PLC0415 - for start-up time: `ps` reads streams, and finds no executables

    wanted = os.path.expanduser(settings.executable or default)  # noqa: PTH111  # Path raises without a home
    found = shutil.which(wanted, path=path)
    return None if found is None else str(Path(found).absolute())


def variables_set(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `names` that are set and not empty."""
    return {name: environ[name] for name in names if environ.get(name)}
