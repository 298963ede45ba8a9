"""`fake-agent DIR`: writes scripts that stand in for the agent CLIs, to rehearse a set-up."""

import os
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from tickets.problems import Problem
from workers.files.durable import create_file

AGENTS = ("codex", "claude", "gemini")
_ROOT = Path(__file__).resolve().parents[2]


class Arguments(NamedTuple):
    """The arguments of `fake-agent`."""

    dir: Path
    """Where the scripts go; created if it does not exist."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Write the missing scripts. Raises Refusal where a name is taken by another file."""
    folder = Path(os.path.normpath(caller.folder / arguments.dir))
    texts = {folder / name: _script(name) for name in AGENTS}
    problems = [
        Problem(str(path), "exists and is not a fake agent", "move it, or name another folder")
        for path, text in texts.items()
        if os.path.lexists(path) and not _holds(path, text)
    ]
    if os.path.lexists(folder) and not folder.is_dir():
        problems = [Problem(str(folder), "is not a folder", "name another one")]
    if problems:
        raise Refusal(*problems)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if not path.exists():
            create_file(path, text)
            path.chmod(0o755)
    agents = [{"agent": path.name, "executable": str(path)} for path in texts]
    return answer((), "orchestrate doctor", agents=agents)


def _script(name: str) -> bytes:
    # Isolated, and with our folder last: no module of a worktree or of ours shadows a standard one.
    found = f"import sys; sys.path.append({str(_ROOT)!r})"
    program = f"{found}; from orchestrator.rehearsal.agent import main; main()"
    words = (sys.executable, "-I", "-S", "-X", "utf8", "-c", program, name)
    return f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n'.encode()


def _holds(path: Path, text: bytes) -> bool:
    return path.is_file() and path.read_bytes() == text
