"""Any program as a worker: an argument list, the ticket on standard input, the exit code as the result."""

import json
from pathlib import Path
from typing import Literal

from tickets.types import AgentName
from workers.agents._failures import last_words
from workers.agents.agent import NO_LOGIN, AgentSettings, Answer, Invocation, InvocationRequest, Progress
from workers.agents.stream import MAX_RECORD, printable, text_at
from workers.errors import WorkerError

NAME: AgentName = "command"
KEYS = ()
BASE_URL = None
NOT_HEARD = ()
WITHOUT_MODEL = ""
LOGIN = NO_LOGIN
CONFIG_VARIABLE = None
INSTRUCTION_FILES = ()
IMPORTS = ""
STOPS_AT_BUDGET = False
REPORTS_COST = False
REPORTS_MODELS = False
MOVES_THREADS = False
SEARCHES_TOOLS = False
SUMS_THREAD_USAGE = False
HOOKS_NEED_KEY = False
STDERR_RETRY = b""
RESULT = "ORCHESTRATE-RESULT"

_Status = Literal["complete", "blocked", "needs_clarification", "skipped"]
_STATUSES: tuple[_Status, ...] = ("complete", "blocked", "needs_clarification", "skipped")
_SHOWN = 200


def locate(settings: AgentSettings, path: str) -> str | None:  # noqa: ARG001
    """Return a fixed name: each ticket brings its own program."""
    return "command"


def invocation(request: InvocationRequest) -> Invocation:
    """Return the ticket's own argument list. Raises WorkerError where it has none."""
    if not request.command or not request.command[0]:
        raise WorkerError(
            f"{request.worker}: a command worker without a command;"
            " give `command` in the ticket's front matter"
        )
    if any("\0" in part for part in request.command):
        raise WorkerError(f"{request.worker}: a null character in `command`; no program can be given one")
    return Invocation(
        argv=(*request.command, *request.settings.args),
        env={"ORCHESTRATE_TICKET": str(request.prompt)},
        files={},
    )


def thread_files(home: Path, thread: str, worktree: Path) -> tuple[()]:  # noqa: ARG001
    """Return nothing: a command has no thread."""
    return ()


def new_reader() -> "CommandReader":
    """Return a reader for one attempt."""
    return CommandReader()


class CommandReader:
    """Reads any program's output, and keeps only its last line."""

    def __init__(self) -> None:
        self._silent = True
        self._status: _Status | None = None
        self._summary = ""
        self._last = ""
        self._flags: tuple[str, ...] = ()

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end; only the last non-blank line can be the result."""
        if not line.strip():
            return None
        self._silent, self._status, self._summary = False, None, ""
        self._flags = ("oversize_record",) if len(line) > MAX_RECORD else ()
        text = printable(
            line[: MAX_RECORD if line.lstrip().startswith(RESULT.encode()) else 4096].decode(
                "utf-8", "replace"
            )
        )
        if any(character.isalnum() for character in text):
            self._last = text[:_SHOWN]
        if text.startswith(RESULT):
            self._result(text.removeprefix(RESULT).strip())
            return Progress("end", self._summary[:_SHOWN])
        return Progress("text", text[:_SHOWN])

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:  # noqa: ARG002  # no provider speaks here
        """Judge by the exit code: 0 is success, a signal is no result, anything else is an error."""
        flags = (*self._flags, *(("silent",) if self._silent else ()))
        if exit_code == 0:
            last = self._last or last_words(stderr_tail)
            return Answer("success", self._summary, flags=flags, status=self._status, last=last)
        if exit_code is None or exit_code < 0:
            return Answer("none", self._summary, last_words(stderr_tail), flags=flags, status=self._status)
        said = last_words(stderr_tail) or self._summary or self._last
        error = f"exit code {exit_code}: {said}" if said else f"exit code {exit_code}"
        return Answer("error", self._summary, printable(error), flags=flags, status=self._status)

    def _result(self, text: str) -> None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        status = text_at(found, "status").strip().lower().replace("-", "_") if isinstance(found, dict) else ""
        self._status = next((known for known in _STATUSES if known == status), None)
        if self._status is None:
            self._flags = (*self._flags, "unreadable_result")
            return
        self._summary = text_at(found, "summary")
