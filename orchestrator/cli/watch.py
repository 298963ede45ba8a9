"""`orchestrate watch` on the command line: a table on a terminal, else one line an event."""

import argparse
import json
import os
import sys

from orchestrator.cli.terminal.painter import Painter, has_colour, standard_painter
from orchestrator.cli.terminal.progress import record_line
from orchestrator.cli.terminal.table import table_lines
from orchestrator.cli.terminal.terminal import say
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.watch import Arguments, Picture, ended, pictures
from orchestrator.runs.live import LiveRun
from orchestrator.runs.next_action import next_of_run
from orchestrator.step import step_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `watch`."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's id, or `last` (default: all that run)")


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[list[LiveRun]]:
    """Show each picture, until all has ended or the reader has gone."""
    painter = None if as_json else standard_painter(os.environ, alone=True)
    runs: list[LiveRun] = []
    try:
        for number, picture in enumerate(pictures(caller, arguments)):
            if painter is not None and not number:
                _leave_when_terminated()
            runs = picture.runs
            is_read = _drawn(picture, painter, caller) if painter else _printed(picture, as_json=as_json)
            if not is_read:
                break
    finally:
        if painter is not None:
            painter.leave()
    return ended(runs)


def lines(answer: Answer[list[LiveRun]], _: Arguments) -> list[str]:
    """Return the next command, once nothing more is shown."""
    said = [line for run in answer.view for line in step_lines(next_of_run(run.state))]
    return said or ["nothing is running", "next: orchestrate status"]


def _leave_when_terminated() -> None:
    import signal  # noqa: PLC0415 - for start-up time

    # Ended without `leave`, the terminal would stay on its other screen.
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _drawn(picture: Picture, painter: Painter, caller: Caller) -> bool:
    """Draw the table; return whether it could be written."""
    table = table_lines(picture.runs, caller.now(), painter.size, colour=has_colour(os.environ))
    return painter.draw(table)


def _printed(picture: Picture, *, as_json: bool) -> bool:
    """Print new events, one a line; return whether they could be written."""
    for run, record in picture.events:
        line = json.dumps({"run": run.state.run.id, **record}) if as_json else record_line(record, run.state)
        if line and not say(line, sys.stdout):
            return False
    return True
