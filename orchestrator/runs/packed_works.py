"""What packed runs have made of their tickets, by files beside their archives. Light: `status` asks."""

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs._shapes import Inside, Name, typed
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


def works_path(run: RunDir) -> Path:
    """Return the path of that file."""
    return run.root / ARCHIVE / f"{run.id}{TICKETS}"


def packed_works(root: Path, run: str, phase: str) -> tuple[Work, ...]:
    """Return what a packed run has made of its tickets; nothing if it is of another phase or not known."""
    with suppress(OSError, ValueError, RecursionError):
        found = typed(_Packed, json.loads(read_whole(works_path(RunDir(root, run)))))
        return found.tickets if found.phase == phase else ()
    return ()
