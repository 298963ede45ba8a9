"""Versions of programs: `--version` of all concurrently, with a time limit."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO, NamedTuple

from tickets.types import AGENTS
from workers.agents.agent import agent_named
from workers.engine.launch import common_environment


class Said(NamedTuple):
    """A program's answer to `--version`, or why it gave none."""

    text: str
    fault: str = ""


def ask_versions(executables: Mapping[str, str], environ: Mapping[str, str], limit: float) -> dict[str, Said]:
    """Ask programs for their versions, concurrently; none outlives the limit."""
    deadline = time.monotonic() + limit
    said: dict[str, Said] = {}
    asked: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
    home = tempfile.mkdtemp(prefix="orchestrate-versions-")
    # Some CLIs write files there even for `--version`, and a check must leave no trace.
    own = (agent_named(name).CONFIG_VARIABLE for name in AGENTS)
    env = {**common_environment(environ), **{variable: home for variable in own if variable}}
    try:
        for name, path in executables.items():
            # Into a file: with a pipe, a child that holds it open would block us after its parent has exited.
            output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in the block below, with all others
            try:
                asked[name] = _start(path, output, env), output
            except OSError as error:
                output.close()
                said[name] = Said("", f"cannot be started: {error.strerror}")
        for name, (process, answer) in asked.items():
            said[name] = _answer_of(process, answer, deadline, limit)
    finally:
        for process, answer in asked.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            answer.close()
        shutil.rmtree(home, ignore_errors=True)
    return said


def _start(path: str, output: IO[bytes], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd="/",
        start_new_session=True,
    )


def _answer_of(process: subprocess.Popen[bytes], output: IO[bytes], deadline: float, limit: float) -> Said:
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Said("", f"does not answer within {limit:g} seconds")
    output.seek(0)
    lines = output.read(4096).decode("utf-8", "replace").split("\n")
    text = next((line.strip() for line in lines if line.strip()), "")
    if code:
        return Said(text, f"fails with {'signal' if code < 0 else 'exit code'} {abs(code)}")
    return Said(text) if text else Said("", "prints nothing")
