"""Heron, a CLI that only tests know: one `word text` a line, closed by `done` with its use."""

from tickets.types import AgentName
from workers.agents.agent import (
    AgentSettings,
    Answer,
    Invocation,
    InvocationRequest,
    Login,
    Progress,
    Usage,
    find_executable,
    variables_set,
)
from workers.agents.stream import printable

NAME: AgentName = "heron"
KEYS = ("HERON_KEY",)
BASE_URL = None
NOT_HEARD = ()
WITHOUT_MODEL = ""
LOGIN = Login((".heron",), ("hooks",))
CONFIG_VARIABLE = "HERON_HOME"
INSTRUCTION_FILES = ("HERON.md",)
STOPS_AT_BUDGET = False
REPORTS_COST = True
REPORTS_MODELS = False
SEARCHES_TOOLS = False
SUMS_THREAD_USAGE = False
HOOKS_NEED_KEY = False
STDERR_RETRY = b""


def locate(settings: AgentSettings, path: str) -> str | None:
    """Find heron on `path`."""
    return find_executable("heron", settings, path)


def invocation(request: InvocationRequest) -> Invocation:
    """Build the command line: `heron work`, with the instruction files that it is to read."""
    keys = variables_set(KEYS, request.environ)
    own = {CONFIG_VARIABLE: str(request.home)} if keys else {}
    return Invocation((request.executable, "work", *request.instructions), {**keys, **own}, {})


def new_reader() -> "HeronReader":
    """Return a reader for one attempt."""
    return HeronReader()


class HeronReader:
    """Reads lines of `word text`."""

    def __init__(self) -> None:
        self._text = ""
        self._thread: str | None = None
        self._usage: Usage | None = None

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end."""
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        match word:
            case "flight":
                self._thread = rest
                return Progress("session", rest)
            case "say":
                self._text = rest
                return Progress("text", printable(rest))
            case "done":
                taken, given, cost = rest.split()
                self._usage = Usage(int(taken), int(given), cost_usd=float(cost))
                return Progress("end")
        return None

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream once it has ended."""
        del now
        if self._usage is None or exit_code != 0:
            return Answer("none", self._text, printable(stderr_tail), thread=self._thread)
        return Answer("success", self._text, thread=self._thread, usage=self._usage)
