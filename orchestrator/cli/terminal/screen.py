"""The display of a command that works on a run: a live table on a terminal, else a line an event."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO, TypeVar, cast

import anyio

from orchestrator.cli.terminal.painter import Painter, standard_painter
from orchestrator.cli.terminal.progress import tell_lines
from orchestrator.cli.terminal.table import LiveTable
from orchestrator.cli.terminal.terminal import say
from orchestrator.cli.text import problem_lines
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.log import configure
from tickets.problems import Problem

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
        return call(caller._replace(tell=tell_lines), arguments)
    table = LiveTable(painter, os.environ)

    async def draw() -> None:
        try:
            while True:
                table.draw(caller.now())
                await anyio.sleep(PICTURE)
        finally:
            painter.erase()

    return call(caller._replace(tell=table, beside=draw), arguments)


def _configure_logs(painter: Painter | None) -> None:
    """Log to standard error: text on a terminal, else JSON."""
    terminal = sys.stderr.isatty()
    # The table must know of each line that is printed on its terminal.
    stream = cast("TextIO", painter) if painter is not None and terminal else sys.stderr
    quiet = terminal or "ORCHESTRATE_LOG" not in os.environ
    configure(stream, is_terminal=terminal, level="warning" if quiet else "info")
