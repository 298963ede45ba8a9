"""`orchestrate watch [RUN]`: what is running, live: a table on a terminal, else one line an event."""

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.calling import repository_of
from orchestrator.cli.terminal.painter import Painter, has_colour, standard_painter
from orchestrator.cli.terminal.progress import record_line
from orchestrator.cli.terminal.table import table_lines
from orchestrator.cli.terminal.terminal import say
from orchestrator.commands._names import live_named
from orchestrator.runs.live import LiveRun, live_runs

LOOK = 0.25
"""Seconds between two looks at the files, and between two pictures."""
RUNS_LOOK = 8
"""Looks after which it is seen whether another run was begun."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `watch` takes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's id, or `last` (default: all that run)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Watch until what is watched has ended; the runs do not notice."""
    root = repository_of(arguments).root
    named = arguments.run is not None
    runs = [live_named(repository_of(arguments), arguments.run)] if named else _going(root, [])
    painter = None if arguments.json else standard_painter(os.environ, alone=True)
    try:
        runs = _watched(root, runs, painter, named=named, as_json=arguments.json)
    finally:
        if painter is not None:
            painter.leave()
    lines = [f"next: {run.state.next_action()}" for run in runs]
    lines = lines or ["nothing is running", "next: orchestrate status"]
    return Answer(0, {}, tuple(lines), streamed=arguments.json)


def _watched(
    root: Path, runs: list[LiveRun], painter: Painter | None, *, named: bool, as_json: bool
) -> list[LiveRun]:
    """Show the runs until all have ended, those too that begin in the meantime; give them all."""
    if painter is not None:
        import signal  # noqa: PLC0415 - for start-up time

        # Ended without a word, we would leave the terminal on its other screen.
        signal.signal(signal.SIGTERM, _end)
    looks, fresh = 0, runs
    while True:
        going = [run for run in runs if run.is_going]
        # Asked before the journal is read: what was appended in between is shown all the same.
        events = [(run, record) for run in runs for record in _events(run, whole=run in fresh)]
        if not _shown(runs, events, painter, as_json=as_json) or not going:
            return runs
        time.sleep(LOOK)
        looks += 1
        fresh = _going(root, runs) if not named and looks % RUNS_LOOK == 0 else []
        runs = [*runs, *fresh]


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _going(root: Path, known: list[LiveRun]) -> list[LiveRun]:
    """Find the runs in which something is going on and that are not known yet."""
    ids = {run.state.run.id for run in known}
    return [run for run in live_runs(root, besides=ids) if run.is_going]


def _events(run: LiveRun, *, whole: bool) -> list[dict[str, Any]]:
    """Read what is new; of a run that was just found, all that it has seen."""
    return [*(run.since(0) if whole else ()), *run.look()]


def _shown(
    runs: list[LiveRun],
    events: list[tuple[LiveRun, dict[str, Any]]],
    painter: Painter | None,
    *,
    as_json: bool,
) -> bool:
    """Show how things stand; false once nobody looks any more."""
    if painter is not None:
        now = datetime.now(UTC)
        return painter.draw(table_lines(runs, now, painter.size, colour=has_colour(os.environ)))
    for run, record in events:
        if as_json:
            line: str | None = json.dumps({"run": run.state.run.id, **record})
        else:
            line = record_line(record, run.state)
        if line and not say(line, sys.stdout):
            return False
    return True
