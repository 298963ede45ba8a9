"""Codex: `codex exec --json`, one JSON record a line, closed by `turn.completed` or `turn.failed`."""

import glob
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from tickets.types import AgentName
from workers.agents._closing import EARLY, Closed, Closing
from workers.agents._failures import judge_end, retry
from workers.agents._instructions import as_one_text, check_prompt, read_instructions
from workers.agents._questions import Asking
from workers.agents.agent import (
    SERVER,
    AgentSettings,
    Answer,
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
    paragraphs,
    printable,
    text_at,
    value_at,
)

NAME: AgentName = "codex"
KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
PASSED = ("OPENAI_ORGANIZATION", "OPENAI_PROJECT")
BASE_URL = "OPENAI_BASE_URL"
NOT_HEARD = ("OPENAI_API_BASE",)
WITHOUT_MODEL = ""
LOGIN = Login((".codex",), ("config.toml", "AGENTS.md", "rules", "prompts", "skills", "hooks.json"))
CONFIG_VARIABLE = "CODEX_HOME"
INSTRUCTION_FILES = ("AGENTS.md",)
IMPORTS = ""
STOPS_AT_BUDGET = False
REPORTS_COST = False
REPORTS_MODELS = False
MOVES_THREADS = True
SEARCHES_TOOLS = True
SUMS_THREAD_USAGE = True
HOOKS_NEED_KEY = True
STDERR_RETRY = b""

LARGEST_PROMPT = 1_000_000
"""Bytes; codex refuses more than 1,048,576 characters."""

LARGEST_ARGUMENT = 96 * 1024
"""Bytes; the kernel refuses one argument of 128 KiB."""

_QUIET = (
    'approval_policy="never"',
    "check_for_update_on_startup=false",
    "analytics.enabled=false",  # without it, five seconds at every exit where its hosts are out of reach
    "features.plugins=false",
    "features.unbounded_connection_retries=false",  # a refused connection is tried for ever otherwise
    "project_doc_max_bytes=262144",
)
_OWN_SANDBOX = (
    # Other workers' directories may lie below the temporary directory, which is writable by default.
    "sandbox_workspace_write.exclude_slash_tmp=true",
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
)
_TRUST_HOOKS = "--dangerously-bypass-hook-trust"
"""Without it no hook runs, and with it those of the configuration directory do, too: only in one of ours."""
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}


def locate(settings: AgentSettings, path: str) -> str | None:
    """Return the path of codex; the program itself, not its launcher, which leaves it behind when killed."""
    found = find_executable("codex", settings, path)
    return None if found is None else _native(Path(found)) or found


def invocation(request: InvocationRequest) -> Invocation:
    """Build the command line; everything is set by `-c`, so the user's own directory is never written."""
    check_prompt(request.prompt, agent=NAME, at_most=LARGEST_PROMPT)
    keys = variables_set(KEYS, request.environ)
    env = {**variables_set(PASSED, request.environ), **keys}
    files: dict[str, bytes] = {}
    if keys:
        env["CODEX_HOME"] = str(request.home / ".codex")
        files[".codex/config.toml"] = b""  # codex does not start with a CODEX_HOME that is not there
    model = request.model or request.settings.model
    options = [*_QUIET, *_instructions(request)]
    # Tools do not need the keys; the other variables stay, since the user named them.
    options.append(f"shell_environment_policy.exclude={json.dumps(list(KEYS))}")
    options += _provider(request.environ.get(BASE_URL), tuple(keys))
    if request.mail is not None:
        options += _server(request.mail)
        options += _hooks(request.mail) if keys else ()
    if request.trust_repository:
        # As a table: a path with a dot in it would be split as a key.
        options.append(f'projects={{{_toml(str(request.worktree))}={{trust_level="trusted"}}}}')
    if request.fenced:
        sandbox = "danger-full-access"
    else:
        sandbox = "workspace-write" if request.mode == "write" else "read-only"
        options += _OWN_SANDBOX
    return Invocation(
        argv=(
            *(request.executable, "exec", *_way(request, sandbox)),
            *(("-m", model) if model else ()),
            *(part for option in options for part in ("-c", option)),
            *((_TRUST_HOOKS,) if request.mail is not None and keys else ()),
            *request.settings.args,
            *((request.thread,) if request.thread else ()),
            "-",
        ),
        env=env,
        files=files,
    )


def _provider(base_url: str | None, keys: tuple[str, ...]) -> list[str]:
    """Return the options for another server: codex itself does not read the variable that names one."""
    if not base_url:
        return []
    if not keys:
        return [f"openai_base_url={_toml(base_url)}"]
    # A provider of its own: of the built-in one, codex first tries a WebSocket for eleven seconds.
    fields = {"name": BASE_URL, "base_url": base_url, "env_key": keys[0], "wire_api": "responses"}
    said = ", ".join(f"{key} = {_toml(value)}" for key, value in fields.items())
    return ['model_provider="by_base_url"', f"model_providers.by_base_url={{{said}}}"]


def _way(request: InvocationRequest, sandbox: str) -> tuple[str, ...]:
    """Return the arguments to start a thread or to resume one, without `--sandbox` and `--color`."""
    if request.thread:
        return ("resume", "--json", "-c", f'sandbox_mode="{sandbox}"')
    return ("--json", "--color", "never", "--sandbox", sandbox)


def _server(mail: Mail) -> list[str]:
    """Return the options for our MCP server; without `approve` its own sandbox refuses each call."""
    table = f"mcp_servers.{SERVER}"
    return [
        f"{table}.command={_toml(mail.server[0])}",
        f"{table}.args={_list((*mail.server[1:], '--deadline', str(mail.deadline)))}",
        f"{table}.env_vars={_list(mail.variables)}",
        f'{table}.default_tools_approval_mode="approve"',
        f"{table}.tool_timeout_sec={mail.tool_seconds}",
    ]


def _hooks(mail: Mail) -> list[str]:
    after, stop = (f'{{type="command",command={_toml(run)}}}' for run in (mail.after_tool, mail.before_stop))
    return [f'hooks.PostToolUse=[{{matcher="*",hooks=[{after}]}}]', f"hooks.Stop=[{{hooks=[{stop}]}}]"]


def thread_files(home: Path, thread: str, worktree: Path) -> Iterator[tuple[Path, str]]:  # noqa: ARG001
    """Return the rollouts of a thread: codex finds them by its id alone."""
    for path in (home / ".codex" / "sessions").glob(f"**/*{glob.escape(thread)}.jsonl"):
        yield path, str(path.relative_to(home))


def new_reader() -> "CodexReader":
    """Return a reader for one attempt."""
    return CodexReader()


class CodexReader:
    """Reads `codex exec --json`."""

    def __init__(self) -> None:
        self._records = Records()
        self._closing = Closing(_usage)
        self._text = ""
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
            case "thread.started":
                self._thread = id_at(record, "thread_id")
                return Progress("session", self._thread or "")
            case "turn.started":
                self._closing.begun()
            case "turn.completed" | "turn.failed":
                return self._close(record)
            case "error":
                self._error = text_at(record, "message")
                again = self._error.startswith("Reconnecting")
                return retry(self._error) if again else Progress("error", printable(self._error))
            case "item.started" | "item.completed":
                return self._item(record)
        return None

    def answer(self, *, exit_code: int | None, stderr_tail: str, now: float | None = None) -> Answer:
        """Judge the stream once it has ended."""
        denied = self._denied or "writing is blocked by read-only sandbox" in stderr_tail
        # A command that takes more than ten seconds goes on behind the turn, and may never be said to end.
        closed = self._closing.ended(exit_code, leaves_calls=True)
        ended: Literal["success", "error", "none"] = "none"
        if closed is not None:
            ended = "success" if closed.is_success else "error"
        text = closed.text if closed is not None and closed.is_success else self._text
        said = Answer(
            ended,
            text,
            self._closing.error_after if ended == "success" else self._error,
            thread=self._thread,
            usage=self._closing.usage if closed is not None else None,
            flags=(
                *self._records.flags(),
                *self._closing.flags(),
                *(("permission_denied",) if denied else ()),
            ),
            question=self._asking.question(ended, text=text, stderr=stderr_tail),
        )
        return judge_end(said, exit_code=exit_code, stderr_tail=stderr_tail, now=now)

    def _close(self, record: dict[str, object]) -> Progress:
        is_success = record.get("type") == "turn.completed"
        error = "" if is_success else text_at(record, "error", "message") or self._error
        self._records.check(record.get("usage"))
        closed = Closed(record, is_success, self._text)
        if not self._closing.take(closed, error=error, in_call=self._asking.in_call):
            self._error = error or self._error  # it may yet turn out to be the end
            return Progress("error", EARLY)
        self._error = error
        return Progress("end", printable(error))

    def _item(self, record: dict[str, object]) -> Progress | None:
        done = record.get("type") == "item.completed"
        self._error = ""  # it continued, so the error is over
        self._closing.moved()
        kind = text_at(record, "item", "type")
        if kind == "agent_message":
            if done and text_at(record, "item", "text").strip():
                self._text = text_at(record, "item", "text")
                self._closing.said(self._text)
            return Progress("text", paragraphs(self._text)) if done else None
        if kind in ("", "reasoning", "todo_list", "plan"):
            return None
        if kind == "error":
            said = text_at(record, "item", "message")
            # Said at the beginning of each turn with hooks of ours, and no error.
            return None if _TRUST_HOOKS in said else Progress("error", printable(said))
        denied = text_at(record, "item", "status") == "declined"
        self._denied |= denied
        what = text_at(record, "item", "command") or text_at(record, "item", "tool") or kind
        call = text_at(record, "item", "id")
        if done:
            said = text_at(record, "item", "error", "message")
            ended = self._asking.ended(call, said, failed=bool(said), denied=denied)
            return ended._replace(text=printable(what))
        return self._asking.called(call, what, value_at(record, "item", "arguments"))


def _usage(record: Mapping[str, object]) -> Usage | None:
    usage = value_at(record, "usage")
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=count_at(usage, "input_tokens"),
        output_tokens=count_at(usage, "output_tokens"),
        cached_tokens=count_at(usage, "cached_input_tokens"),
    )


def _instructions(request: InvocationRequest) -> list[str]:
    """Return the instructions to add: codex itself reads AGENTS.md, or its first substitute."""
    others = [name for name in request.instructions if name != "AGENTS.md"]
    if not others:
        return []
    options = [f"project_doc_fallback_filenames={json.dumps(others)}"]
    ordered = tuple(name for name in ("AGENTS.md", *others) if name in request.instructions)
    rest = read_instructions(request.worktree, ordered)[1:]
    if rest:
        text = as_one_text(rest)
        if len(text.encode()) > LARGEST_ARGUMENT:
            names = " and ".join(name for name, _ in rest)
            text = f"Before you begin, read {names} at the root of the repository and follow them."
        options.append(f"developer_instructions={_toml(text)}")
    return options


def _toml(text: str) -> str:
    """Format a TOML string: a JSON string, except for characters that only TOML escapes."""
    return json.dumps(text.replace("\x00", ""), ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(texts: tuple[str, ...]) -> str:
    return f"[{','.join(map(_toml, texts))}]"


def _native(launcher: Path) -> str | None:
    """Return the program that the launcher from npm would start: it is in a package of its own."""
    script = launcher.resolve()
    if script.name != "codex.js":
        return None
    package = script.parent.parent
    machine = _MACHINES.get(os.uname().machine.lower(), os.uname().machine.lower())
    name = f"codex-{sys.platform}-{machine}"
    # npm puts it beside the launcher's package, or below it where versions differ.
    for folder in (package.parent, package / "node_modules" / "@openai"):
        found = [str(path) for path in folder.glob(f"{name}/vendor/*/bin/codex") if path.is_file()]
        if len(found) == 1:
            return found[0]
    return None
