"""The display of a command that works on a run: a live table on a terminal, else a line an event."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TextIO, TypeVar, cast

import anyio

from orchestrator.cli.terminal.painter import Painter, standard_painter
from orchestrator.cli.terminal.progress import still_line, tell_lines
from orchestrator.cli.terminal.table import LiveTable
from orchestrator.cli.terminal.terminal import say
from orchestrator.cli.text import problem_lines
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.log import configure
from orchestrator.runs.events import Noted
from orchestrator.runs.state import RunState
from tickets.problems import Problem

QUIET = 240.0
"""Seconds: the CI services that end a silent job do so after ten minutes, or five."""
PICTURE = 0.5
"""Seconds between two pictures of the live table."""
View = TypeVar("View")
Arguments = TypeVar("Arguments")


def on_screen(
    call: Callable[[Caller, Arguments], Answer[View]], caller: Caller, arguments: Arguments, *, as_json: bool
) -> Answer[View]:
    """Call a command that works on a run, and show its events as they happen; nothing for JSON."""
    painter = None if as_json else standard_painter(os.environ)
    _configure_logs(painter)
    if as_json:
        return call(caller, arguments)
    told: list[Problem] = []

    def warn(problems: Sequence[Problem]) -> None:
        told.extend(problems)
        for line in problem_lines(problems):
            # The table is in the way of a line that it does not know of.
            painter.above(line) if painter else say(line, sys.stderr)

    answer = _shown(call, caller._replace(warn=warn), arguments, painter)
    return answer._replace(problems=tuple(one for one in answer.problems if one not in told))


def _shown(
    call: Callable[[Caller, Arguments], Answer[View]],
    caller: Caller,
    arguments: Arguments,
    painter: Painter | None,
) -> Answer[View]:
    if painter is None:
        log = EventLog()
        return call(caller._replace(tell=log, beside=partial(log.watch, caller.now)), arguments)
    table = LiveTable(painter, os.environ)

    async def draw() -> None:
        try:
            while True:
                table.draw(caller.now())
                await anyio.sleep(PICTURE)
        finally:
            painter.erase()

    return call(caller._replace(tell=table, beside=draw), arguments)


class EventLog:
    """Prints events as they happen, and in a long silence that the run goes on: CI ends what says nothing."""

    def __init__(self, quiet: float = QUIET) -> None:
        self._quiet = quiet
        self._state: RunState | None = None
        self._said = time.monotonic()

    def __call__(self, noted: Noted, state: RunState) -> None:
        """Print one event."""
        self._state, self._said = state, time.monotonic()
        tell_lines(noted, state)

    async def watch(self, now: Callable[[], datetime]) -> None:
        """Print a line whenever nothing was printed for the seconds that are quiet."""
        while True:
            await anyio.sleep(max(0.0, self._said + self._quiet - time.monotonic()))
            if time.monotonic() - self._said >= self._quiet:
                self._said = time.monotonic()
                if self._state is not None:
                    say(still_line(self._state, now()), sys.stdout)


def _configure_logs(painter: Painter | None) -> None:
    """Log to standard error: text on a terminal, else JSON."""
    terminal = sys.stderr.isatty()
    # The table must know of each line that is printed on its terminal.
    stream = cast("TextIO", painter) if painter is not None and terminal else sys.stderr
    quiet = terminal or "ORCHESTRATE_LOG" not in os.environ
    configure(stream, is_terminal=terminal, level="warning" if quiet else "info")
