"""Gemini CLI: `--output-format stream-json`, closed by a `result` record that cannot be trusted alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tickets.types import AgentName
from workers.agents._closing import EARLY, Closed, Closing
from workers.agents._failures import judge_end
from workers.agents._instructions import check_prompt
from workers.agents._questions import Asking
from workers.agents.agent import (
    SERVER,
    AgentSettings,
    Answer,
    Failure,
    Invocation,
    InvocationRequest,
    Login,
    Mail,
    ModelUse,
    Progress,
    Usage,
    find_executable,
    variables_set,
)
from workers.agents.stream import MAX_RECORD, Records, count_at, id_at, printable, text_at, value_at

NAME: AgentName = "gemini"
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
BASE_URL = "GOOGLE_GEMINI_BASE_URL"
PASSED = (
    *(BASE_URL, "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"),
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
)
NOT_HEARD = ("GEMINI_BASE_URL", "GEMINI_API_BASE", "GOOGLE_API_BASE")
WITHOUT_MODEL = "it asks another model for each turn which one to use, which is one more request"
LOGIN = Login((".gemini",), ("settings.json", "GEMINI.md", "commands", "extensions", "policies", ".env"))
CONFIG_VARIABLE = "GEMINI_CLI_HOME"
INSTRUCTION_FILES = ("GEMINI.md",)
IMPORTS = "@./{path}"
STOPS_AT_BUDGET = False
REPORTS_COST = False
REPORTS_MODELS = True
MOVES_THREADS = False
SEARCHES_TOOLS = False
SUMS_THREAD_USAGE = False
HOOKS_NEED_KEY = False
STDERR_RETRY = b"etrying "

LARGEST_PROMPT = 7 * 2**20
"""Bytes; beyond eight MiB it drops the end silently, and near it prints nothing and reports success."""

_KEPT_TEXT = 2**20
"""Characters of the answer; it comes in deltas, and those of a failed attempt are not taken back."""

_MOST_MODELS = 20
"""The most models of one stream; a few are usual."""

_DEADLINE = "ORCHESTRATE_DEADLINE"

_EXITS: dict[int, Failure] = {
    41: "login",
    42: "refused",
    44: "refused",
    52: "refused",
    55: "refused",
    # The status, cut to eight bits.
    145: "login",
    147: "login",
    173: "rate_limited",
    **dict.fromkeys((17, 247), "overloaded"),
    **dict.fromkeys((244, 246, 248), "provider"),
}
_HELD_BACK = "Agent execution blocked"
"""Of our hook at the end of a turn: the agent goes on, with another turn."""
_DENIED = ("tool_not_registered", "policy", "denied")


def locate(settings: AgentSettings, path: str) -> str | None:
    """Return the path of gemini, found on `path`."""
    return find_executable("gemini", settings, path)


def invocation(request: InvocationRequest) -> Invocation:
    """Build the command line and the settings file, the only way to set most options."""
    check_prompt(request.prompt, agent=NAME, at_most=LARGEST_PROMPT)
    keys = variables_set(KEYS, request.environ)
    env = {
        **variables_set(PASSED, request.environ),
        **keys,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # its second process swallows the signals meant for it
    }
    settings = _settings(request)
    if keys:
        kind = "gemini-api-key" if "GEMINI_API_KEY" in keys else "vertex-ai"
        # Its tools see the variables that any worker sees, and not the keys.
        hidden = {"enabled": True, "allowed": list(request.variables), "blocked": list(KEYS)}
        settings["security"] = {"auth": {"selectedType": kind}, "environmentVariableRedaction": hidden}
        env["GEMINI_CLI_HOME"] = str(request.home)
        place = ".gemini/settings.json"
    else:
        # The user's login and settings stay where they are, and come before these.
        place = "gemini-defaults.json"
        env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = str(request.home / place)
    if request.mail is not None:
        env[_DEADLINE] = str(request.mail.deadline)
    if request.trust_repository:
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"  # with this, the repository's hooks and servers start
    model = request.model or request.settings.model
    return Invocation(
        argv=(
            *(request.executable, "--output-format", "stream-json"),
            *(("-m", model) if model else ()),
            # Its own `default` has neither a tool that writes nor one that runs a command.
            *("--approval-mode", "yolo" if request.fenced or request.mode == "write" else "default"),
            *(() if request.trust_repository else ("--skip-trust",)),
            *(("--resume", request.thread) if request.thread else ()),
            *request.settings.args,
        ),
        env=env,
        files={place: json.dumps(settings, indent=1).encode()},
    )


def thread_files(home: Path, thread: str, worktree: Path) -> tuple[()]:  # noqa: ARG001
    """Return nothing: gemini does not find a thread from another folder."""
    return ()


def new_reader() -> "GeminiReader":
    """Return a reader for one attempt."""
    return GeminiReader()


class GeminiReader:
    """Reads `gemini --output-format stream-json`."""

    def __init__(self) -> None:
        self._records = Records()
        self._closing = Closing(_usage)
        self._text: list[str] = []
        self._length = 0
        self._after_tool = False
        self._error = ""
        self._thread: str | None = None
        self._denied = False
        self._asking = Asking()

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end; noise is ignored."""
        record = self._records.take(line)
        if record is None:
            return None if len(line) <= MAX_RECORD else self._asking.skipped(line)
        match record.get("type"):
            case "init":
                self._thread = id_at(record, "session_id")
                return Progress("session", self._thread or "")
            case "message" if record.get("role") == "assistant":
                return self._message(text_at(record, "content"))
            case "tool_use":
                self._after_tool = True
                self._closing.moved()
                name, given = text_at(record, "tool_name"), value_at(record, "parameters")
                return self._asking.called(text_at(record, "tool_id"), name, given)
            case "tool_result":
                self._after_tool = True
                kind = text_at(record, "error", "type") + text_at(record, "error", "message")
                denied = any(word in kind.lower() for word in _DENIED)
                self._denied |= denied
                failed = text_at(record, "status") == "error"
                return self._asking.ended(text_at(record, "tool_id"), kind, failed=failed, denied=denied)
            case "error" if text_at(record, "message").startswith(_HELD_BACK):
                self._closing.said("".join(self._text))
                self._after_tool = True  # what it said before is not its answer
            case "error":
                self._error = text_at(record, "message") or self._error
                return Progress("error", printable(self._error))
            case "result":
                return self._close(record)
        return None

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream after its end; success without any text is no success."""
        closed = self._closing.ended(exit_code)
        text = closed.text if closed is not None else "".join(self._text)
        denied = ("permission_denied",) if self._denied else ()
        flags = (*self._records.flags(), *self._closing.flags(), *denied)
        failure, error = (_EXITS.get(exit_code) if exit_code else None), self._error
        said: Literal["success", "error", "none"] = "none" if closed is None else "error"
        if closed is not None and closed.is_success:
            said = "success" if text.strip() else "error"
            silent = "no result: it reported success without an answer"
            error = self._closing.error_after if text.strip() else silent
        elif closed is not None:
            error = text_at(closed.record, "error", "message") or error
        answer = Answer(
            said,
            text if said == "success" else "",
            error,
            failure,
            self._thread,
            self._closing.usage if closed is not None else None,
            flags,
            question=self._asking.question(said, text=text, stderr=stderr_tail),
        )
        return judge_end(answer, exit_code=exit_code, stderr_tail=stderr_tail, now=now)

    def _close(self, record: dict[str, object]) -> Progress:
        is_success = record.get("status") == "success"
        error = "" if is_success else text_at(record, "error", "message") or self._error
        self._records.check(record.get("stats"))
        closed = Closed(record, is_success, "".join(self._text))
        if not self._closing.take(closed, error=error, in_call=self._asking.in_call):
            return Progress("error", EARLY)
        self._after_tool = True  # what it says in another turn is another answer
        return Progress("end", text_at(record, "status"))

    def _message(self, delta: str) -> Progress | None:
        self._closing.moved()
        if self._after_tool and delta.strip():  # a message before a tool call is not its answer
            self._text, self._length, self._after_tool = [], 0, False
        if self._length < _KEPT_TEXT:
            self._text.append(delta[: _KEPT_TEXT - self._length])
            self._length += len(delta)
        has_more = bool(delta.strip()) or "\n" in delta
        return Progress("text", printable(delta), part=delta) if has_more else None


def _settings(request: InvocationRequest) -> dict[str, object]:
    settings: dict[str, object] = {
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 2,  # ten by default, which is four minutes for a spent quota
            "retryFetchErrors": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"maxSessionTurns": 100},
    }
    if request.instructions:
        settings["context"] = {"fileName": list(request.instructions)}
    return settings | (_mail(request.mail) if request.mail is not None else {})


def _mail(mail: Mail) -> dict[str, object]:
    """Return the settings that give it our MCP server and hooks."""
    server = {
        "command": mail.server[0],
        # By a variable: the settings file is the first attempt's.
        "args": (*mail.server[1:], "--deadline", f"${_DEADLINE}"),
        "trust": True,
        "timeout": mail.tool_seconds * 1000,
    }
    after, stop = (
        [{"name": f"{SERVER}-{name}", "type": "command", "command": run}]
        for name, run in (("after", mail.after_tool), ("stop", mail.before_stop))
    )
    hooks = {"AfterTool": [{"matcher": ".*", "hooks": after}], "AfterAgent": [{"hooks": stop}]}
    return {"mcpServers": {SERVER: server}, "hooks": hooks}


def _usage(result: Mapping[str, object]) -> Usage | None:
    stats = value_at(result, "stats")
    if not isinstance(stats, dict):
        return None
    models = value_at(stats, "models")
    named = models.items() if isinstance(models, dict) else ()
    return Usage(
        input_tokens=count_at(stats, "input_tokens"),
        output_tokens=count_at(stats, "output_tokens"),
        cached_tokens=count_at(stats, "cached"),
        # By default it asks for none, and a router chooses: `init` then names no model.
        models=tuple(
            ModelUse(
                printable(name), *(count_at(one, key) for key in ("input_tokens", "output_tokens", "cached"))
            )
            for name, one in list(named)[:_MOST_MODELS]
            if isinstance(one, dict)
        ),
    )
