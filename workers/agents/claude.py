"""Claude Code: `claude -p --output-format stream-json`, closed by a `result` record."""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tickets.types import AgentName
from workers.agents._closing import EARLY, Closed, Closing
from workers.agents._failures import judge_end, kind_of
from workers.agents._instructions import as_one_text, check_prompt, read_instructions
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
    Progress,
    Usage,
    find_executable,
    variables_set,
)
from workers.agents.stream import (
    MAX_RECORD,
    Records,
    count_at,
    id_at,
    number_at,
    paragraphs,
    printable,
    text_at,
    value_at,
)
from workers.errors import WorkerError

NAME: AgentName = "claude"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
BASE_URL = "ANTHROPIC_BASE_URL"
PASSED = (BASE_URL,)
NOT_HEARD = ("ANTHROPIC_API_BASE", "ANTHROPIC_API_URL")
WITHOUT_MODEL = ""
LOGIN = Login(
    (".claude", ".claude.json"),
    (
        *("settings.json", "settings.local.json", "CLAUDE.md"),
        *("agents", "commands", "hooks", "plugins", "skills"),
    ),
)
CONFIG_VARIABLE = "CLAUDE_CONFIG_DIR"
INSTRUCTION_FILES = ("CLAUDE.md",)
IMPORTS = "@{path}"
STOPS_AT_BUDGET = True
REPORTS_COST = True
REPORTS_MODELS = False
MOVES_THREADS = True
SEARCHES_TOOLS = False
SUMS_THREAD_USAGE = False
HOOKS_NEED_KEY = False
STDERR_RETRY = b""

LARGEST_PROMPT = 8 * 2**20
"""Bytes."""

_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",  # ten by default, which takes three minutes for a wrong key
}
_INSTRUCTIONS = "instructions.md"
_NEVER = ("EnterWorktree", "ExitWorktree", "CronCreate", "ScheduleWakeup")
"""Tools that leave the given worktree, or wait for a time after the worker's end."""
_FAILURES: dict[str, Failure] = {"error_max_budget_usd": "budget"}


def locate(settings: AgentSettings, path: str) -> str | None:
    """Return the path of claude, found on `path`."""
    return find_executable("claude", settings, path)


def invocation(request: InvocationRequest) -> Invocation:
    """Build the command line, with the repository's instructions as part of the system prompt.

    Settings of the repository are not read unless it is trusted: its hooks would run.
    """
    head = check_prompt(request.prompt, agent=NAME, at_most=LARGEST_PROMPT)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"/"):
        raise WorkerError(
            f"{request.prompt.name}: the prompt begins with '/', which claude reads as a command of its own;"
            " begin it with a heading or a word"
        )
    keys = variables_set(KEYS, request.environ)
    env = {**_QUIET, **variables_set(PASSED, request.environ), **keys}
    if keys:
        env["CLAUDE_CONFIG_DIR"] = str(request.home / ".claude")
    if request.fenced and os.geteuid() == 0:
        env["IS_SANDBOX"] = "1"  # root is refused the freest mode without it
    if request.mail is not None:
        env["MCP_TOOL_TIMEOUT"] = str(request.mail.tool_seconds * 1000)
    files: dict[str, bytes] = {}
    # With the project's settings it reads CLAUDE.md by itself; AGENTS.md it never does.
    unread = tuple(
        name for name in request.instructions if name != "CLAUDE.md" or not request.trust_repository
    )
    if text := as_one_text(read_instructions(request.worktree, unread)):
        files[_INSTRUCTIONS] = text.encode()
    model = request.model or request.settings.model
    return Invocation(
        argv=(
            *(request.executable, "-p", "--output-format", "stream-json", "--verbose"),
            *(("--model", model) if model else ()),
            *("--setting-sources", "user,project" if request.trust_repository else "user"),
            *_permissions(request),
            *_mail(request.mail, is_alone=bool(keys) and not request.trust_repository),
            *(("--append-system-prompt-file", str(request.home / _INSTRUCTIONS)) if files else ()),
            *(("--resume", request.thread) if request.thread else ()),
            *(("--max-budget-usd", f"{request.budget_usd:.4f}") if request.budget_usd else ()),
            *request.settings.args,
        ),
        env=env,
        files=files,
    )


def thread_files(home: Path, thread: str, worktree: Path) -> Iterator[tuple[Path, str]]:
    """Return the file of a thread: claude looks for it in a folder that is named after its own."""
    folder = re.sub(r"[^A-Za-z0-9]", "-", str(worktree))
    for path in (home / ".claude" / "projects").glob(f"*/{glob.escape(thread)}.jsonl"):
        yield path, f".claude/projects/{folder}/{thread}.jsonl"


def new_reader() -> "ClaudeReader":
    """Return a reader for one attempt."""
    return ClaudeReader()


class ClaudeReader:
    """Reads `claude -p --output-format stream-json`."""

    def __init__(self) -> None:
        self._records = Records()
        self._closing = Closing(_usage)
        self._spoken = ""
        """The last message, and the id of it: one message may come in several records."""
        self._message = ""
        self._error = ""
        self._thread: str | None = None
        self._resets = ""
        self._asking = Asking()

    def feed(self, line: bytes) -> Progress | None:
        """Accept one line, without its end; noise is ignored."""
        record = self._records.take(line)
        if record is None:
            return None if len(line) <= MAX_RECORD else self._asking.skipped(line)
        self._thread = id_at(record, "session_id") or self._thread
        match record.get("type"):
            case "system" if record.get("subtype") == "init":
                self._closing.begun()
                return Progress("session", self._thread or "")
            case "system" if record.get("subtype") == "api_retry":
                return self._retry(record)
            case "rate_limit_event" if text_at(record, "rate_limit_info", "status") == "rejected":
                self._resets = f"resets_at: {count_at(record, 'rate_limit_info', 'resetsAt')}"
            case "assistant":
                return self._assistant(record)
            case "user":
                return self._results(record)
            case "result":
                return self._close(record)
        return None

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream once it has ended."""
        said = self._said(stderr_tail, exit_code)
        return judge_end(said, exit_code=exit_code, stderr_tail=stderr_tail, resets=self._resets, now=now)

    def _close(self, record: dict[str, object]) -> Progress:
        is_success = record.get("is_error") is False and text_at(record, "subtype") == "success"
        # Its result may be empty although it has said a whole report.
        said = text_at(record, "result")
        text = said if said.strip() else self._spoken
        error = "" if is_success else _error_of(record)
        self._records.check({"cost": record.get("total_cost_usd"), "usage": record.get("usage")})
        closed = Closed(record, is_success, text if is_success else "")
        turns, in_call = count_at(record, "num_turns"), self._asking.in_call
        if not self._closing.take(closed, error=error, turns=turns, in_call=in_call):
            return Progress("error", EARLY)
        self._spoken = ""
        return Progress("end", printable(said or error)[:200])

    def _said(self, stderr_tail: str, exit_code: int | None) -> Answer:
        closed, flags = self._closing.ended(exit_code), self._records.flags()
        flags = (*flags, *self._closing.flags())
        if closed is None:
            question = self._asking.question("none", stderr=stderr_tail)
            return Answer("none", "", self._error, thread=self._thread, flags=flags, question=question)
        result, usage = closed.record, self._closing.usage
        if value_at(result, "permission_denials"):
            flags = (*flags, "permission_denied")
        if closed.is_success:
            question = self._asking.question("success", text=closed.text)
            error = self._closing.error_after
            return Answer("success", closed.text, error, None, self._thread, usage, flags, None, question)
        error = _error_of(result) or self._error
        known = _FAILURES.get(text_at(result, "subtype"))
        failure = known or kind_of(error, count_at(result, "api_error_status") or None)
        question = self._asking.question("error")
        return Answer("error", "", error, failure, self._thread, usage, flags, None, question)

    def _retry(self, record: dict[str, object]) -> Progress:
        status = count_at(record, "error_status")
        kind = text_at(record, "error").replace("_", " ")
        self._error = f"API error {status}: {kind}" if status else f"API error: {kind}"
        delay = number_at(record, "retry_delay_ms")
        return Progress("retry", self._error, None if delay is None else delay / 1000, status or None)

    def _assistant(self, record: dict[str, object]) -> Progress | None:
        content = value_at(record, "message", "content")
        self._closing.moved()
        for block in content if isinstance(content, list) else []:
            match value_at(block, "type"):
                case "tool_use":
                    self._error = ""  # it continued, so the error is over
                    name, given = text_at(block, "name"), value_at(block, "input")
                    return self._asking.called(text_at(block, "id"), name, given)
                case "text" if record.get("error"):
                    self._error = text_at(block, "text")
                    return Progress("error", printable(self._error))
                case "text":
                    self._error = ""
                    self._speak(record, text_at(block, "text"))
                    return Progress("text", paragraphs(text_at(block, "text")))
        return None

    def _speak(self, record: dict[str, object], text: str) -> None:
        """Keep what it said last, unless a worker of its own said it."""
        if record.get("parent_tool_use_id") is None and text.strip():
            message = text_at(record, "message", "id")
            is_more = message != "" and message == self._message
            self._spoken, self._message = f"{self._spoken}{text}" if is_more else text, message
            self._closing.said(self._spoken)

    def _results(self, record: dict[str, object]) -> Progress | None:
        content = value_at(record, "message", "content")
        found = None
        for block in content if isinstance(content, list) else []:
            if value_at(block, "type") == "tool_result":
                said, failed = text_at(block, "content"), value_at(block, "is_error") is True
                # The output of a tool does not fit on one line.
                found = self._asking.ended(text_at(block, "tool_use_id"), said, failed=failed)._replace(
                    text=""
                )
        return found


def _permissions(request: InvocationRequest) -> tuple[str, ...]:
    never = ("--disallowedTools", ",".join(_NEVER))
    if request.fenced:
        return ("--permission-mode", "bypassPermissions", *never)
    ours = (f"mcp__{SERVER}",) if request.mail is not None else ()
    if request.mode == "write":
        return ("--permission-mode", "acceptEdits", "--allowedTools", ",".join(("Bash", *ours)), *never)
    # `dontAsk` runs only what reads; a rule in the user's own settings must not open the edit tools again.
    allowed = ("--allowedTools", *ours) if ours else ()
    return ("--permission-mode", "dontAsk", *allowed, never[0], f"{never[1]},Edit,Write,NotebookEdit")


def _mail(mail: Mail | None, *, is_alone: bool) -> tuple[str, ...]:
    """Return the arguments that give it our MCP server and hooks; `is_alone`: and no other server."""
    if mail is None:
        return ()
    # Its tools are hidden behind a search otherwise.
    arguments = (*mail.server[1:], "--deadline", str(mail.deadline))
    server = {"type": "stdio", "command": mail.server[0], "args": arguments, "alwaysLoad": True}
    after, stop = ([{"type": "command", "command": run}] for run in (mail.after_tool, mail.before_stop))
    called = [{"matcher": "*", "hooks": after}]
    hooks = {"PostToolUse": called, "PostToolUseFailure": called, "Stop": [{"hooks": stop}]}
    return (
        *("--mcp-config", json.dumps({"mcpServers": {SERVER: server}})),
        *(("--strict-mcp-config",) if is_alone else ()),
        *("--settings", json.dumps({"hooks": hooks})),
    )


def _error_of(result: Mapping[str, object]) -> str:
    if text := text_at(result, "result"):
        return text
    errors = result.get("errors")
    words = [error for error in errors if isinstance(error, str)] if isinstance(errors, list) else []
    if words:
        return "; ".join(words)
    subtype = text_at(result, "subtype")
    return "" if subtype in ("", "success") else subtype.removeprefix("error_").replace("_", " ")


def _usage(result: Mapping[str, object]) -> Usage:
    """Return the use of a stream, whose `input_tokens` omit tokens read from and written to the cache."""
    cached = count_at(result, "usage", "cache_read_input_tokens")
    created = count_at(result, "usage", "cache_creation_input_tokens")
    return Usage(
        input_tokens=count_at(result, "usage", "input_tokens") + cached + created,
        output_tokens=count_at(result, "usage", "output_tokens"),
        cached_tokens=cached,
        cost_usd=number_at(result, "total_cost_usd"),
    )
