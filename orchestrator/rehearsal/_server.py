"""The tools of a fake agent: those of the MCP server that it was given, called as a real CLI calls them."""

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from workers.messages.scratch import greet, read_small

_SERVER = "orchestrate"


class Tools:
    """The server of one fake agent. It is started with the first call, and its sign is left before."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self._command = _command(name, arguments)
        self._server: Any = None
        self._number = 0
        if self._command and (scratch := os.environ.get("TMPDIR")):
            greet(scratch)

    def call(self, tool: str, given: dict[str, Any]) -> str:
        """Call a tool and return its text. Raises ValueError where there is no server."""
        if not self._command:
            raise ValueError("no server of tools was given")
        if self._server is None:
            self._start()
        answer = self._ask("tools/call", {"name": tool, "arguments": given})
        return "\n".join(part["text"] for part in answer.get("result", {}).get("content", [])) or str(answer)

    def close(self) -> None:
        """End the server, as a CLI does that exits."""
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()

    def _start(self) -> None:
        import subprocess  # noqa: PLC0415 - a third of a start

        pipe = subprocess.PIPE
        self._server = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
        self._ask("initialize", {"protocolVersion": "2025-06-18"})

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


def _command(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of the server; empty where none was given."""
    pairs = list(itertools.pairwise(arguments))
    if name == "codex":
        start = f"mcp_servers.{_SERVER}."
        said = dict(value.removeprefix(start).split("=", 1) for _, value in pairs if value.startswith(start))
        server: dict[str, Any] = {key: json.loads(said[key]) for key in ("command", "args") if key in said}
    elif name == "claude":
        server = _server_in(next((value for flag, value in pairs if flag == "--mcp-config"), "{}"))
    else:
        server = _server_in(_settings_of_gemini())
    return [server["command"], *map(os.path.expandvars, server["args"])] if "command" in server else []


def _server_in(settings: str) -> dict[str, Any]:
    server: dict[str, Any] = json.loads(settings).get("mcpServers", {}).get(_SERVER, {})
    return server


def _settings_of_gemini() -> str:
    home = os.environ.get("GEMINI_CLI_HOME")
    path = f"{home}/.gemini/settings.json" if home else os.environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "")
    return (read_small(path) or b"{}").decode()
