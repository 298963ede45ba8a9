"""`watch [RUN]`: the running workers, as one picture after another until all has ended."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.commands._names import live_named
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.runs.inbox import InboxReader
from orchestrator.runs.live import LiveRun, live_runs

LOOK = 0.25
"""Seconds between two pictures."""
RUNS_LOOK = 8
"""How many pictures are drawn between two searches for new runs."""


class Arguments(NamedTuple):
    """The arguments of `watch`."""

    run: str | None = None
    """None: all running ones, also those that start later."""


class Picture(NamedTuple):
    """The watched runs at one moment."""

    runs: list[LiveRun]
    events: list[tuple[LiveRun, dict[str, Any]]]
    """Records of their journals that are new since the last picture."""


def call(caller: Caller, arguments: Arguments) -> Answer[list[LiveRun]]:
    """Wait until the watched runs have ended."""
    runs: list[LiveRun] = []
    for picture in pictures(caller, arguments):
        runs = picture.runs
    return ended(runs)


def ended(runs: list[LiveRun]) -> Answer[list[LiveRun]]:
    """Return the answer after the last picture; it has no document: a program reads the pictures."""
    return Answer(0, {}, (), runs)


def pictures(caller: Caller, arguments: Arguments) -> Iterator[Picture]:
    """Yield pictures until the watched runs have ended. Raises Refusal."""
    repository = repository_of(caller)
    root, name = repository.root, arguments.run
    runs = [live_named(repository, name)] if name is not None else _going(root, [])
    looks, fresh = 0, runs
    inboxes = {run.state.run.id: InboxReader(root, [run.state]) for run in runs}
    while True:
        for inbox in inboxes.values():
            inbox.read(caller.now().timestamp())
        going = [run for run in runs if run.is_going]
        # Asked before the journal is read: records appended in between are still shown.
        yield Picture(runs, [(run, record) for run in runs for record in _events(run, whole=run in fresh)])
        if not going:
            return
        time.sleep(LOOK)
        looks += 1
        fresh = _going(root, runs) if name is None and looks % RUNS_LOOK == 0 else []
        runs = [*runs, *fresh]
        inboxes |= {run.state.run.id: InboxReader(root, [run.state]) for run in fresh}


def _going(root: Path, known: list[LiveRun]) -> list[LiveRun]:
    """Return the active runs that are not known yet."""
    ids = {run.state.run.id for run in known}
    return [run for run in live_runs(root, besides=ids) if run.is_going]


def _events(run: LiveRun, *, whole: bool) -> list[dict[str, Any]]:
    """Return new events; all events of a run that was just found."""
    return [*(run.since(0) if whole else ()), *run.look()]
