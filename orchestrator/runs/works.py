"""What a run has made of its tickets: from its records or, once packed, from a file beside its archive."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs._shapes import Inside, Name, typed
from orchestrator.runs.manifest import Manifest
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WorkerState
from tickets.ticket import Ticket
from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import ARCHIVE, RunDir

SCHEMA = 1
TICKETS = ".tickets.json"
"""Suffix of the file beside an archive."""


class Work(NamedTuple):
    """What a run has made of a ticket, once its worker has ended."""

    run: Name
    ticket: str
    digest: str
    """That of the ticket as it was."""
    worker: Name
    lands: bool
    """Whether it was accepted."""
    outcome: str
    verdict: str
    reason: str
    found: str = ""
    """Of its end, where something else decided the verdict."""
    output: Inside | None = None
    is_change: bool = False
    """Whether there was something to land."""
    has_landed: bool = False
    commit: str | None = None
    """None where nothing has landed, or no commit was made."""


class _Packed(NamedTuple):
    """The file beside an archive."""

    phase: str
    tickets: tuple[Work, ...]


def works_of(state: RunState, manifest: Manifest) -> Iterator[Work]:
    """Yield what a run has made of its tickets."""
    for ticket in manifest.tickets:
        worker = state.workers.get(ticket.worker)
        if worker is not None and worker.started and worker.ended:
            yield _work(state, worker, ticket)


def keep_works(state: RunState, manifest: Manifest) -> None:
    """Write what a run has made of its tickets beside its archive: it outlives the run's folder there."""
    works = [one._asdict() for one in works_of(state, manifest)]
    text = json.dumps({"schema": SCHEMA, "phase": state.phase, "tickets": works})
    works_path(state.run).unlink(missing_ok=True)  # of a call that did not come further
    create_file(works_path(state.run), text.encode() + b"\n")


def works_path(run: RunDir) -> Path:
    """Return the path of that file."""
    return run.root / ARCHIVE / f"{run.id}{TICKETS}"


def packed_works(root: Path, run: str, phase: str) -> tuple[Work, ...]:
    """Return what a packed run has made of its tickets; nothing if it is of another phase or not known."""
    with suppress(OSError, ValueError, RecursionError):
        found = typed(_Packed, json.loads(read_whole(works_path(RunDir(root, run)))))
        return found.tickets if found.phase == phase else ()
    return ()


def _work(state: RunState, worker: WorkerState, ticket: Ticket) -> Work:
    name = ticket.worker
    return Work(
        state.run.id,
        ticket.id,
        ticket.digest,
        name,
        worker.lands,
        worker.ended_as,
        worker.verdict or "",
        worker.reason,
        "" if worker.found == worker.reason else worker.found,
        worker.evidence.output,
        is_change=state.is_to_land(name),
        has_landed=name in state.landings,
        commit=state.landings.get(name),
    )
