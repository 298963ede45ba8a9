"""The version of each attempt's program: an agent that updates itself may change it while a run is on."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from orchestrator.settings.settings import Settings
from tickets.ticket import Ticket
from workers.agents.agent import find_agent
from workers.engine.versions import ask_versions

LIMIT = 5.0
"""Seconds that a program may take to print its version."""


class _Program(NamedTuple):
    """A program as it is at one moment."""

    path: str
    inode: int
    modified: int


class Versions:
    """What programs say of themselves; each is asked once, when the first of its attempts has ended."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._started: dict[tuple[str, int], _Program] = {}
        self._said: dict[_Program, str] = {}
        self._lock = anyio.Lock()

    def starts(self, ticket: Ticket, number: int) -> None:
        """Note the program with which an attempt starts."""
        if ticket.agent == "command":
            return
        path = find_agent(ticket.agent, self._settings.agent(ticket.agent), self._environ)
        if path and (program := _program(path)):
            self._started[ticket.worker, number] = program

    async def ask(self, ticket: Ticket, number: int) -> None:
        """Ask the program of an ended attempt, unless it was asked before or is not the same any more."""
        program = self._started.get((ticket.worker, number))
        async with self._lock:
            if program is None or program in self._said or _program(program.path) != program:
                return
            asking = partial(ask_versions, {ticket.agent: program.path}, self._environ, LIMIT)
            self._said[program] = (await anyio.to_thread.run_sync(asking))[ticket.agent].text

    def of(self, ticket: Ticket, number: int) -> str:
        """Return the version of an attempt's program, empty where it is not known."""
        program = self._started.get((ticket.worker, number))
        return self._said.get(program, "") if program else ""


def _program(path: str) -> _Program | None:
    try:
        real = Path(path).resolve(strict=True)
        status = real.stat()
    except OSError:
        return None
    return _Program(str(real), status.st_ino, status.st_mtime_ns)
