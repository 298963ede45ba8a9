"""The interface of an agent module, and the values that it exchanges with its callers.

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
"""The kind of a failure, where the stream names it; any other failure is known by its text alone."""

FenceWanted = Literal["auto", "required", "landlock", "off"]
"""`fence` in `orchestrate.toml`; defined here for readers of settings that start no worker."""


class AgentSettings(Value):
    """`[agents.NAME]` of `orchestrate.toml`."""

    enabled: bool | None = None
    """None: as AGENTS.md states."""
    executable: str | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    env: tuple[str, ...] = ()
    """Names of variables passed through beside the allow-list."""
    network: Literal["open", "none"] = "open"
    """`none`: no network at all; only for command workers and checks."""


SERVER = "orchestrate"
"""The name of our MCP server, as the CLIs and their models see it."""


class Mail(Value):
    """The programs by which the messages of its run reach a worker: an MCP server, and two hooks."""

    server: tuple[str, ...]
    """The command line of the server, which the CLI starts; `--deadline` and a number follow."""
    after_tool: str
    """The shell command that the CLI runs after each tool call."""
    before_stop: str
    """The shell command that it runs at the end of a turn."""
    deadline: int
    """When the attempt ends at the latest, in epoch seconds: no call waits longer."""
    tool_seconds: int
    """The longest that a call of the server may take: a paused worker waits in one for its answer."""
    variables: tuple[str, ...] = ()
    """The names of the variables that the server needs; some CLIs pass none on by themselves."""


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
    """The runtime's own environment, from which an agent takes variables by allow-list."""
    instructions: tuple[str, ...] = ()
    """The repository's instruction files that exist: of AGENTS.md, CLAUDE.md, GEMINI.md."""
    trust_repository: bool = False
    variables: tuple[str, ...] = ()
    """The names of the variables that it sees besides those of its invocation."""
    fenced: bool = False
    """Whether a fence of ours is in force, so that the CLI's own sandbox may be switched off."""
    command: tuple[str, ...] | None = None
    budget_usd: float | None = None
    thread: str | None = None
    """The thread of an earlier attempt to resume; `prompt` is then the next message to it.

    It resumes in the same `home` and `worktree`, or where its files were put (`Agent.thread_files`).
    """
    mail: Mail | None = None
    """None: the worker gets no messages while it runs."""


class Invocation(Value):
    """The command line and environment that start one worker."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The agent's additions to the common environment (`workers.engine.launch.common_environment`)."""
    files: dict[str, bytes]
    """Files to create below `InvocationRequest.home` first, by relative path."""


class ModelUse(Value):
    """The part of a worker's tokens that one model used; `input_tokens` include cached ones."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Usage(Value):
    """The tokens and the cost of a worker, as far as its CLI reports them. Tokens include cached ones; USD.

    Of one attempt; where an agent has `SUMS_THREAD_USAGE`, that of a resumed thread is the sum of the whole
    thread, and `orchestrator.execute.evidence` subtracts what earlier attempts have used.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    models: tuple[ModelUse, ...] = ()
    """The same tokens by model, where the stream names them: a CLI may choose and change its model."""


class Progress(NamedTuple):
    """One message of a stream that is shown to a person while it runs."""

    kind: Literal["session", "text", "tool", "tool_end", "retry", "error", "end", "question"]
    """`question`: a tool call that waits for its user, and so is no work in progress."""
    text: str = ""
    """Text that may be shown on a terminal; of kind `text` with the agent's line breaks."""
    delay: float | None = None
    """Seconds until a failed request is made again, where the stream names them (`retry`)."""
    status: int | None = None
    """The HTTP status of that request, where the stream names it (`retry`)."""
    part: str = ""
    """Of a message that comes in parts: the next one with its line breaks (`text`)."""


class Answer(Value):
    """The result of a whole stream."""

    ended: Literal["success", "error", "none"]
    """The result in the terminal record; `none`: there was no terminal record (cut, killed, silent)."""
    text: str
    """The final answer, as the CLI printed it."""
    error: str = ""
    """One plain line, where the stream holds an error."""
    failure: Failure | None = None
    thread: str | None = None
    """The id by which the CLI can resume (`thread_id`, `session_id`)."""
    usage: Usage | None = None
    flags: tuple[str, ...] = ()
    """Further facts: `oversize_record`, `cut_record`, `permission_denied`, `silent` …

    `thread_lost`: the CLI does not know the thread that was to be resumed; restart.
    """
    status: Literal["complete", "blocked", "needs_clarification", "skipped"] | None = None
    """The status in a command worker's own result line, where it has one."""
    question: str = ""
    """The open question: a permission or an answer that nobody can give it.

    A report's own status outweighs it: the refused work may have been done in another way.
    """
    retry_after: float | None = None
    """Seconds from the end of the attempt, where the failure names them; more than 0, 7 days at most."""
    resets_at: float | None = None
    """Epoch seconds, where the failure names a time; later than the attempt's end, by 7 days at most."""
    last: str = ""
    """The last line that a command worker printed."""


class Reader(Protocol):
    """Reads one worker's standard output, record by record."""

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end; noise is ignored."""

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream after its end. `exit_code` is None where a signal ended the worker.

        `now` is the time of the end, in epoch seconds; without it no time of day is read.
        """


class Login(Value):
    """The place of the user's own login for a CLI."""

    folders: tuple[str, ...] = ()
    """Files and folders below the user's home that the CLI writes when no key is set."""
    locked: tuple[str, ...] = ()
    """Names in them that a fence keeps read-only: their content would later run as the user."""


NO_LOGIN = Login()


class Agent(Protocol):
    """A plain module that satisfies this is an agent: all facts about its CLI are its attributes."""

    NAME: AgentName
    KEYS: tuple[str, ...]
    """Environment variables that hold this agent's credentials; other agents never see them."""
    BASE_URL: str | None
    """The variable that names another server; None: it has none."""
    NOT_HEARD: tuple[str, ...]
    """Variables that are often set for that, and that neither the CLI nor we read."""
    WITHOUT_MODEL: str
    """What it costs to leave the model to the CLI; empty: nothing."""
    LOGIN: Login
    CONFIG_VARIABLE: str | None
    """The variable that names the CLI's configuration directory, to replace the user's."""
    INSTRUCTION_FILES: tuple[str, ...]
    """Files at the root of a repository that the CLI reads as instructions."""
    IMPORTS: str
    """The line of the first of these by which it imports another file, `{path}`; empty: it imports none."""
    STOPS_AT_BUDGET: bool
    """Whether it accepts an amount in USD and stops there; others report their use only at their end."""
    REPORTS_COST: bool
    """Whether its stream names the cost in USD."""
    REPORTS_MODELS: bool
    """Whether its stream names the models that did the work, also where none was asked for."""
    SUMS_THREAD_USAGE: bool
    """Whether the reported use of a resumed thread is the sum of the whole thread."""
    HOOKS_NEED_KEY: bool
    """Whether our hooks run only in a configuration directory of ours, which a worker has only with a key."""
    MOVES_THREADS: bool
    """Whether it can resume a thread in another worktree of the repository."""
    SEARCHES_TOOLS: bool
    """Whether its model has to search for the tools of a server before it can call one."""
    STDERR_RETRY: bytes
    """Part of a line on standard error that announces a repeated request; empty: the stream has it."""

    def locate(self, settings: AgentSettings, path: str) -> str | None:
        """Find the executable on `path` (a PATH string): an absolute path, or None."""

    def invocation(self, request: InvocationRequest) -> Invocation:
        """Build the command line, environment and files. Raises WorkerError."""

    def new_reader(self) -> Reader:
        """Return a reader for one attempt."""

    def thread_files(self, home: Path, thread: str, worktree: Path) -> Iterable[tuple[Path, str]]:
        """Return the files of a thread in an earlier worker's home, and their names in that of the next.

        The next one resumes it in `worktree`.
        """


def agent_named(name: AgentName) -> Agent:
    """Return the module of an agent; imported late, since `plan` and `status` need none of them."""
    module: Agent = import_module(f"workers.agents.{name}")  # a module satisfies it
    return module


def find_agent(name: AgentName, settings: AgentSettings, environ: Mapping[str, str]) -> str | None:
    """Return an agent's executable from the worker's own PATH; None where it is not installed."""
    return agent_named(name).locate(settings, environ.get("PATH", os.defpath))


def hooks_run(agent: Agent, environ: Mapping[str, str]) -> bool:
    """Return whether our hooks run in an agent's workers; without them messages come with its tools."""
    return not agent.HOOKS_NEED_KEY or bool(variables_set(agent.KEYS, environ))


def find_executable(default: str, settings: AgentSettings, path: str) -> str | None:
    """Return the executable that the settings name, else `default`, from `path`: absolute, or None."""
    import shutil  # noqa: PLC0415 - for start-up time: `ps` reads streams, and finds no executables

    wanted = os.path.expanduser(settings.executable or default)  # noqa: PTH111  # Path raises without a home
    found = shutil.which(wanted, path=path)
    return None if found is None else str(Path(found).absolute())


def variables_set(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `names` that are set and not empty."""
    return {name: environ[name] for name in names if environ.get(name)}
