"""The ledger of the days: what is reserved before a start, and what the attempt has cost after it.

`<git common dir>/orchestrate/spending/2026-02-16.jsonl` holds the starts of one day (UTC), whichever process
and worktree they are made in. Lines are only added, under a lock on the folder.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.budget.limits import Budget, Refused, left_of, refusal_of, usd_left
from orchestrator.budget.prices import Cost
from orchestrator.budget.totals import (
    IsLive,
    Key,
    LedgerEntry,
    Spent,
    attempt_of,
    days_since,
    entries_of,
    liveness,
    spent_by,
    spent_on,
    total,
)
from orchestrator.settings.values import SpendingLimits
from workers.files.durable import append_line
from workers.files.locks import held_folder
from workers.files.run_dir import RunDir
from workers.git.run import Repository

PATIENCE = 30.0
"""Seconds that others may hold the ledger: each reads a day and adds a line."""


class Reservation(NamedTuple):
    """Permission to start one attempt, to be settled or released."""

    day: str
    run: RunDir
    worker: str
    attempt: int
    usd: float | None = None
    """What its ticket's own budget still allows, after earlier attempts; None where it has none."""
    tokens: int | None = None
    run_left: float | None = None
    """USD that the limits left when it was made, without itself; None where they are not set."""
    day_left: float | None = None


def ledger_of(repository: Repository, clock: Callable[[], datetime]) -> "Ledger":
    """Return the ledger that all processes on a repository share."""
    return Ledger(repository.own / "spending", clock)


class Ledger:
    """The costs of a repository's workers. Each call reads the files anew and may block for `PATIENCE`."""

    def __init__(self, folder: Path, clock: Callable[[], datetime], is_live: IsLive | None = None) -> None:
        """Accept the folder of the days; `is_live` is asked about attempts that were not settled.

        Without it, the runs and slots in use of the folder's repository are read.
        """
        self.folder = folder
        self._clock = clock
        self._is_live = is_live

    def reserve(
        self, run: RunDir, worker: str, attempt: int, budget: Budget, limits: SpendingLimits
    ) -> Reservation | Refused:
        """Reserve an attempt's start, or return the limit that forbids it; `budget` is its ticket's own.

        What earlier attempts of the worker cost comes off that. An attempt that is in the ledger
        already is not counted twice, and one that was settled is not refused. Raises OSError.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with held_folder(self.folder, PATIENCE) as had:
            if not had:
                return Refused("the ledger of what was spent, which another process holds", True, "ledger")
            own, today = attempt_of(run, worker, attempt), self._today()
            days = {path.stem for path in days_since(self.folder, run.id)} | {today}
            books = {day: entries_of(self._path(day)) for day in days}
            known = {day: entries.pop(own.key) for day, entries in books.items() if own.key in entries}
            for day, entry in known.items():
                if entry.tokens is not None:
                    usd = None if budget.usd is None else entry.held_usd
                    return Reservation(day, run, worker, attempt, usd, entry.held_tokens)
            found = self._admitted(own, books, today, budget, limits)
            if isinstance(found, Refused):
                return found
            for day in known.keys() - {today}:
                self._append(day, "released", own)  # its runtime died before midnight, and before its start
            usd = budget.reserve_usd if found.usd is None else found.usd
            if known.get(today) != own._replace(held_usd=usd, held_tokens=found.tokens):
                self._append(today, "reserved", own, usd=usd, tokens=found.tokens)
            return found

    def settle(self, reservation: Reservation, cost: Cost) -> None:
        """Record what an attempt cost in place of its reservation; twice is the same. Raises OSError."""
        self._add(reservation, "settled", usd=cost.usd, tokens=cost.tokens, by=cost.by)

    def release(self, reservation: Reservation) -> None:
        """Release what was reserved for a start that did not take place. Raises OSError."""
        self._add(reservation, "released")

    def adopted(self, run: RunDir, worker: str, attempt: int) -> Reservation:
        """Return the reservation of an attempt that an earlier runtime started, to be settled."""
        key = attempt_of(run, worker, attempt).key
        for path in reversed(days_since(self.folder, run.id)):
            known = entries_of(path).get(key)
            if known is not None:
                return Reservation(path.stem, run, worker, attempt, known.held_usd, known.held_tokens)
        return Reservation(self._today(), run, worker, attempt)

    def of_day(self) -> Spent:
        """Return what today (UTC) has cost, over all runs of the repository."""
        return spent_on(self.folder, self._today(), self._is_live)

    def of_run(self, run: RunDir) -> Spent:
        """Return what a run has cost, on all days."""
        return spent_by(self.folder, [run], self._is_live)[0]

    def _admitted(
        self,
        own: LedgerEntry,
        books: dict[str, dict[Key, LedgerEntry]],
        today: str,
        budget: Budget,
        limits: SpendingLimits,
    ) -> Reservation | Refused:
        is_live = self._liveness()
        of_run = {
            key: one for entries in books.values() for key, one in entries.items() if one[:2] == own[:2]
        }
        earlier = [one for one in of_run.values() if one.worker == own.worker]
        # Whatever they hold: a worker has one attempt at a time, so they are over.
        asked = left_of(budget, total(earlier, lambda *_: False))
        if isinstance(asked, Refused):
            return asked

        def lives(run: RunDir, worker: str) -> bool:
            return (run, worker) != (own.run, own.worker) and is_live(run, worker)

        run, day = (total(some, lives) for some in (of_run.values(), books[today].values()))
        refused = refusal_of(asked, run, day, limits)
        if refused is not None:
            return refused
        left = usd_left(limits.run_usd, run), usd_left(limits.day_usd, day)
        return Reservation(today, own.run, own.worker, own.attempt, asked.usd, asked.tokens, *left)

    def _liveness(self) -> IsLive:
        return self._is_live or liveness(self.folder)

    def _today(self) -> str:
        return self._clock().astimezone(UTC).date().isoformat()

    def _path(self, day: str) -> Path:
        return self.folder / f"{day}.jsonl"

    def _add(self, reservation: Reservation, event: str, **facts: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        one = attempt_of(reservation.run, reservation.worker, reservation.attempt)
        # Without the lock, too: what was paid has to be known, and a line in one write needs it least.
        with held_folder(self.folder, PATIENCE):
            self._append(reservation.day, event, one, **facts)

    def _append(self, day: str, event: str, one: LedgerEntry, **facts: Any) -> None:
        """Append a line, on the disk on return: the cost survives a crash of the machine."""
        root, run, worker, attempt = one.key
        at = self._clock().astimezone(UTC).isoformat(timespec="milliseconds")
        said = {
            "at": at,
            "event": event,
            "run": run,
            "worker": worker,
            "attempt": attempt,
            **facts,
            "root": root,
        }
        append_line(self._path(day), json.dumps(said).encode(), synced=True)
