"""The streams of a fake agent: records of codex, claude and gemini, as the real ones print them.

Part of a program of its own (`orchestrator.rehearsal.agent`): standard library only, and little of it.
"""

import os
import time
from typing import Any

Record = dict[str, Any]


class Codex:
    """The records of `codex exec --json`."""

    def __init__(self, session: str, _model: str, _prompt: str) -> None:
        self.session = session
        self.items = 0

    def start(self) -> list[Record]:
        """Return the beginning of the stream."""
        return [{"type": "thread.started", "thread_id": self.session}, {"type": "turn.started"}]

    def said(self, text: str) -> list[Record]:
        """Return a message on the way."""
        return [self._item("completed", type="agent_message", text=text)]

    def tool(self, command: str) -> list[Record]:
        """Return the start of a tool call."""
        return [self._command("started", command, "", None)]

    def tool_end(self, command: str, output: str, code: int) -> list[Record]:
        """Return the end of a tool call."""
        return [self._command("completed", command, output, code)]

    def retry(self, attempt: int, status: int, message: str) -> tuple[list[Record], str]:
        """Return the notice of a failed request that is made again."""
        said = f"Reconnecting... {attempt}/5 (unexpected status {status}: {message})"
        return [{"type": "error", "message": said}], ""

    def wording(self, status: int, message: str) -> str:
        """Return the text of a failed request."""
        return f"unexpected status {status}: {message}"

    def failed(self, _status: int, said: str, *, final: bool) -> tuple[list[Record], str, int]:
        """Return the records of a final failure."""
        closing = [{"type": "turn.failed", "error": {"message": said}}] if final else []
        return [{"type": "error", "message": said}, *closing], "", 1

    def limited(self, kind: str, left: float, until: float) -> tuple[int, str]:
        """Return (status, text) of a limit: the provider refuses for now."""
        if kind == "overloaded":
            return 503, self.wording(503, f"server_is_overloaded; retry after {left:.1f}s")
        if kind == "rate":
            return 429, self.wording(429, f"Rate limit reached. Please try again in {left:.1f}s.")
        when = f"in {_span(left, ' day ', ' hour ', ' minute ', ' second ')}"
        if left > 3600:
            at = time.localtime(until + 60)  # minutes are cut off
            when = f"at {time.strftime('%b ', at)}{at.tm_mday}th, {time.strftime('%Y %I:%M %p', at)}"
        return 429, f"You've hit your usage limit. Upgrade to Pro, or try again {when}."

    def expired(self) -> tuple[list[Record], str, int]:
        """Return the records of an expired login."""
        said = (
            "Your access token could not be refreshed: your refresh token has expired. Please sign in again."
        )
        return *self.failed(401, said, final=True)[:2], 1

    def untrusted(self) -> tuple[str, int]:
        """Return the text that refuses a directory."""
        return "Not inside a trusted directory and --skip-git-repo-check was not specified.\n", 1

    def lost(self) -> tuple[list[Record], str, int]:
        """Return the text for an unknown thread that is to be resumed."""
        said = "Error: thread/resume: thread/resume failed: no rollout found for thread id"
        return [], f"{said} {self.session}\n", 1

    def asked(self, question: str) -> list[Record]:
        """Return the start of a tool call that asks the user."""
        given = {"questions": [{"id": "q1", "header": "Leave", "question": question}]}
        return [self._item("started", **self._call(given))]

    def refused(self, command: str) -> list[Record]:
        """Return the records of a refused command."""
        opened = self._command("started", command, "", None)
        closed = self._command("completed", command, "", None)
        closed["item"]["status"] = "declined"
        return [opened, closed]

    @staticmethod
    def _call(given: Record) -> Record:
        call = {"type": "mcp_tool_call", "server": "user", "tool": "request_user_input", "arguments": given}
        return {**call, "result": None, "error": None, "status": "in_progress"}

    def ended(self, text: str, taken: int, given: int) -> list[Record]:
        """Return the end of the stream after a success."""
        usage = {
            "input_tokens": taken,
            "cached_input_tokens": 0,
            "cache_write_input_tokens": 0,
            "output_tokens": given,
            "reasoning_output_tokens": 0,
        }
        return [*self.said(text), {"type": "turn.completed", "usage": usage}]

    def _command(self, at: str, command: str, output: str, code: int | None) -> Record:
        status = "in_progress" if code is None else "failed" if code else "completed"
        shown = f"/bin/bash -lc '{command}'"
        fields = {"command": shown, "aggregated_output": output, "exit_code": code, "status": status}
        return self._item(at, type="command_execution", **fields)

    def _item(self, at: str, **fields: object) -> Record:
        record = {"type": f"item.{at}", "item": {"id": f"item_{self.items}", **fields}}
        self.items += at == "completed"
        return record


class Claude:
    """The records of `claude -p --output-format stream-json`."""

    def __init__(self, session: str, model: str, _prompt: str) -> None:
        self.session = session
        self.model = model or "claude-fake"
        self.turns = 1

    def start(self) -> list[Record]:
        """Return the beginning of the stream."""
        fields = {"cwd": os.getcwd(), "tools": ["Bash", "Edit", "Read", "Write"], "mcp_servers": []}  # noqa: PTH109 - pathlib is half of a start
        more = {"model": self.model, "permissionMode": "acceptEdits", "claude_code_version": "0.0.0"}
        return [self._record("system", subtype="init", **fields, **more)]

    def said(self, text: str) -> list[Record]:
        """Return a message on the way."""
        return [self._message({"type": "text", "text": text})]

    def tool(self, command: str) -> list[Record]:
        """Return the start of a tool call."""
        self.turns += 1
        what = {"command": command, "description": "scripted"}
        return [self._message({"type": "tool_use", "id": self._tool(), "name": "Bash", "input": what})]

    def tool_end(self, command: str, output: str, code: int) -> list[Record]:
        """Return the end of a tool call."""
        result = {
            "type": "tool_result",
            "tool_use_id": self._tool(),
            "content": output,
            "is_error": code != 0,
        }
        message = {"role": "user", "content": [result]}
        fields = {"stdout": output, "stderr": "", "interrupted": False, "command": command}
        return [self._record("user", message=message, parent_tool_use_id=None, tool_use_result=fields)]

    def retry(self, attempt: int, status: int, _message: str) -> tuple[list[Record], str]:
        """Return the notice of a failed request that is made again."""
        kind = _claude_kind(status)
        fields = {"attempt": attempt, "max_retries": 10, "retry_delay_ms": 1000.0, "error_status": status}
        return [self._record("system", subtype="api_retry", **fields, error=kind)], ""

    def wording(self, status: int, message: str) -> str:
        """Return the text of a failed request."""
        return f"API Error: {status} {message}"

    def failed(self, status: int, said: str, *, final: bool) -> tuple[list[Record], str, int]:
        """Return the records of a final failure: the stream reports success, and `is_error` beside it."""
        shown = self._message({"type": "text", "text": said}, model="<synthetic>")
        shown["error"] = _claude_kind(status)
        closing = [self._result(said, 0, 0, is_error=True, api_error_status=status)] if final else []
        return [shown, *closing], "", 1

    def ended(self, text: str, taken: int, given: int) -> list[Record]:
        """Return the end of the stream after a success."""
        return [*self.said(text), self._result(text, taken, given, is_error=False, api_error_status=None)]

    def limited(self, kind: str, left: float, until: float) -> tuple[int, str]:
        """Return (status, text) of a limit: the provider refuses for now."""
        if kind == "overloaded":
            return 529, self.wording(529, f"Overloaded. Retry after {left:.1f}s")
        if kind == "rate":
            return 429, f"API Error: Request rejected (429) \u00b7 rate limited, retry after {left:.1f}s"
        return 429, f"Claude AI usage limit reached|{int(until) + 1}"

    def expired(self) -> tuple[list[Record], str, int]:
        """Return the records of an expired login."""
        said = "Failed to authenticate. API Error: 401 OAuth token has expired \u00b7 Please run /login"
        return self.failed(401, said, final=True)

    def untrusted(self) -> tuple[str, int]:
        """Return the text that refuses a directory; the real one refuses root."""
        return "--dangerously-skip-permissions cannot be used with root/sudo privileges\n", 1

    def lost(self) -> tuple[list[Record], str, int]:
        """Return the text for an unknown thread that is to be resumed."""
        said = f"No conversation found with session ID: {self.session}"
        end = self._result("", 0, 0, is_error=True, api_error_status=None)
        end = {**end, "subtype": "error_during_execution", "errors": [said]}
        return [end], f"{said}\n", 1

    def asked(self, question: str) -> list[Record]:
        """Return the start of a tool call that asks the user."""
        what = {"questions": [{"question": question, "header": "Leave", "options": [], "multiSelect": False}]}
        block = {"type": "tool_use", "id": self._tool(), "name": "AskUserQuestion", "input": what}
        return [self._message(block)]

    def refused(self, command: str) -> list[Record]:
        """Return the records of a refused command."""
        why = "This command requires approval"
        return [*self.tool(command), *self.tool_end(command, why, 1)]

    def _result(self, text: str, taken: int, given: int, **fields: object) -> Record:
        usage = {**_no_cache(taken), "output_tokens": given}
        times = {"duration_ms": 100, "duration_api_ms": 50, "num_turns": self.turns}
        cost = round(taken * 3e-6 + given * 15e-6, 6)
        more = {"total_cost_usd": cost, "usage": usage, "modelUsage": {}, "permission_denials": []}
        more |= {"stop_reason": "end_turn", "terminal_reason": "completed"}
        return self._record("result", subtype="success", **fields, **times, result=text, **more)

    def _message(self, block: Record, model: str = "") -> Record:
        fields = {"id": f"msg_fake{self.turns}", "type": "message", "role": "assistant"}
        usage = {**_no_cache(100), "output_tokens": 1}
        nothing = {"stop_reason": None, "stop_sequence": None, "context_management": None}
        message = {**fields, "model": model or self.model, "content": [block], **nothing, "usage": usage}
        return self._record("assistant", message=message, parent_tool_use_id=None)

    def _record(self, kind: str, **fields: object) -> Record:
        return {"type": kind, **fields, "session_id": self.session, "uuid": new_id()}

    def _tool(self) -> str:
        return f"toolu_fake{self.turns}"


class Gemini:
    """The records of `gemini --output-format stream-json`."""

    def __init__(self, session: str, model: str, prompt: str) -> None:
        self.session = session
        self.model = model or "gemini-fake"
        self.prompt = prompt
        self.calls = 0

    def start(self) -> list[Record]:
        """Return the beginning of the stream, which repeats the whole prompt."""
        return [
            self._record("init", session_id=self.session, model=self.model),
            self._record("message", role="user", content=self.prompt),
        ]

    def said(self, text: str) -> list[Record]:
        """Return a message on the way."""
        # Its messages are joined without a break; a report begins on a line of its own.
        return self._message(f"{text}\n")

    def tool(self, command: str) -> list[Record]:
        """Return the start of a tool call."""
        self.calls += 1
        what = {"command": command}
        return [
            self._record("tool_use", tool_name="run_shell_command", tool_id=self._tool(), parameters=what)
        ]

    def tool_end(self, _command: str, output: str, _code: int) -> list[Record]:
        """Return the end of a tool call; how the command ended is not shown."""
        return [self._record("tool_result", tool_id=self._tool(), status="success", output=output)]

    def retry(self, attempt: int, status: int, message: str) -> tuple[list[Record], str]:
        """Return the notice of a failed request that is made again, on standard error alone."""
        return [], f"Attempt {attempt} failed with status {status}. Retrying with backoff... {message}\n"

    def wording(self, _status: int, message: str) -> str:
        """Return the text of a failed request."""
        return f"[API Error: {message}]"

    def failed(self, status: int, said: str, *, final: bool) -> tuple[list[Record], str, int]:
        """Return the records of a final failure; the exit code is the status, cut to eight bits."""
        shown = self._record("error", severity="error", message=said)
        error = {"type": "unknown", "message": said}
        closing = [self._result(0, 0, status="error", error=error)] if final else []
        return [shown, *closing], f"{said} (status {status})\n", status & 255

    def ended(self, text: str, taken: int, given: int) -> list[Record]:
        """Return the end of the stream after a success; the messages since the last tool are the answer."""
        return [*self._message(text), self._result(taken, given, status="success")]

    def limited(self, kind: str, left: float, _until: float) -> tuple[int, str]:
        """Return (status, text) of a limit: the provider refuses for now."""
        if kind == "overloaded":
            return 503, self.wording(503, f"The model is overloaded. Please retry in {left:.1f}s.")
        if kind == "rate":
            return 429, self.wording(429, f"Resource exhausted.\nSuggested retry after {left:.1f}s.")
        span = _span(left, "d", "h", "m", "s").replace(" ", "")
        said = f"You have exhausted your capacity on this model. Your quota will reset after {span}."
        return 429, self.wording(429, said)

    def expired(self) -> tuple[list[Record], str, int]:
        """Return the records of an expired login: it fails before its stream begins."""
        said = "Please set an Auth method in your settings.json or specify GEMINI_API_KEY before running"
        return [], f"{said}\n", 41

    def untrusted(self) -> tuple[str, int]:
        """Return the text that refuses a directory."""
        said = "Gemini CLI is not running in a trusted directory. To proceed, use `--skip-trust`"
        return f"{said}\n", 55

    def lost(self) -> tuple[list[Record], str, int]:
        """Return the text for an unknown thread that is to be resumed."""
        return [], "Error resuming session: No previous sessions found for this project.\n", 42

    def asked(self, question: str) -> list[Record]:
        """Return the start of a tool call that asks the user."""
        self.calls += 1
        given = {"questions": [{"question": question, "header": "Leave", "type": "yesno"}]}
        return [self._record("tool_use", tool_name="ask_user", tool_id=self._tool(), parameters=given)]

    def refused(self, command: str) -> list[Record]:
        """Return the records of a refused command."""
        why = 'Tool execution for "Shell" requires user confirmation, which is not supported here.'
        error = {"type": "unhandled_exception", "message": why}
        ended = self._record("tool_result", tool_id=self._tool(), status="error", output=why, error=error)
        opened = self.tool(command)
        return [*opened, {**ended, "tool_id": self._tool()}]

    def _result(self, taken: int, given: int, **fields: object) -> Record:
        tokens = {"total_tokens": taken + given, "input_tokens": taken, "output_tokens": given, "cached": 0}
        more = {"input": taken, "duration_ms": 100, "tool_calls": self.calls, "models": {self.model: tokens}}
        return self._record("result", **fields, stats={**tokens, **more})

    def _message(self, text: str) -> list[Record]:
        return [self._record("message", role="assistant", content=text, delta=True)]

    def _record(self, kind: str, **fields: object) -> Record:
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        return {"type": kind, "timestamp": at, **fields}

    def _tool(self) -> str:
        return f"run_shell_command_{self.calls}"


VOICES: dict[str, type[Codex | Claude | Gemini]] = {"codex": Codex, "claude": Claude, "gemini": Gemini}


def clock() -> float:
    """Return the time, in epoch seconds."""
    return time.time()


def new_id() -> str:
    """Make an id of the form of a UUID."""
    digits = os.urandom(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _claude_kind(status: int) -> str:
    return {429: "rate_limit", 529: "overloaded", 401: "authentication_failed"}.get(status, "server_error")


def _span(seconds: float, *units: str) -> str:
    """Format a time span, rounded up to the second, without the units that are 0."""
    whole = int(seconds) + 1
    counts = (whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60)
    return "".join(f"{count}{unit}" for count, unit in zip(counts, units, strict=True) if count).strip()


def _no_cache(taken: int) -> dict[str, int]:
    return {"input_tokens": taken, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
