"""The cost of workers: sums over the days of the ledger, and their text."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.money import dollars, thousands
from orchestrator.runs.state import RunState
from tickets.types import LARGEST_FIGURE
from tickets.value import Value
from tickets.wording import count_of
from workers.files.journal import read_journal
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir, read_json

COUNTED = ("input_tokens", "output_tokens")
IsLive = Callable[[RunDir, str], bool]
"""Returns whether a worker of a run may still cost something."""
Key = tuple[str, str, str, int]
"""Root, run, worker, attempt: an attempt counts once, however often it is written down."""


class Spent(Value):
    """A sum of the ledger. USD and tokens."""

    usd: float = 0.0
    tokens: int = 0
    unpriced_tokens: int = 0
    """The part of `tokens` without a price: it is not in `usd`."""
    held_usd: float = 0.0
    """What was reserved for workers that are out."""
    held_tokens: int = 0
    held_by: int = 0
    """Workers that are out and for which something was reserved."""

    @property
    def is_nothing(self) -> bool:
        """Return whether nothing was spent and nothing is reserved."""
        return not (self.usd or self.tokens or self.held_usd or self.held_tokens)

    def in_words(self) -> str:
        """Describe it in one phrase: `$1.25, 12.3k tokens (4.0k not priced), $0.50 held by 2 workers`."""
        said = [dollars(self.usd)] if self.usd or not self.unpriced_tokens else []
        if self.tokens:
            bare = f" ({thousands(self.unpriced_tokens)} not priced)" if self.unpriced_tokens else ""
            said.append(f"{thousands(self.tokens)} tokens{bare}")
        return ", ".join([*said, *self.held_in_words()])

    def in_short(self) -> str:
        """Describe what was spent where room is short."""
        return dollars(self.usd) if self.usd or not self.tokens else f"{thousands(self.tokens)} tokens"

    def held_in_words(self) -> list[str]:
        """Describe what is reserved, where something is."""
        held = [dollars(self.held_usd)] if self.held_usd else []
        held += [f"{thousands(self.held_tokens)} tokens"] if self.held_tokens else []
        return [f"{' and '.join(held)} held by {count_of(self.held_by, 'worker')}"] if held else []


class Spending(Value):
    """The cost of a day (UTC), and of the newest run."""

    day: str
    today: Spent
    run: str | None
    in_run: Spent

    @property
    def is_nothing(self) -> bool:
        """Return whether nothing was spent and nothing is reserved."""
        return self.today.is_nothing and self.in_run.is_nothing

    def in_words(self) -> str:
        """Describe both on one line."""
        said = [f"{self.today.in_words()} today ({self.day} UTC)"]
        said += [f"{self.in_run.in_words()} in run {self.run}"] if not self.in_run.is_nothing else []
        return "; ".join(said)


class LedgerEntry(NamedTuple):
    """One attempt as it is in the ledger."""

    root: str
    run_id: str
    worker: str
    attempt: int
    held_usd: float | None = None
    """What its start reserved; None where that is nothing."""
    held_tokens: int | None = None
    usd: float | None = None
    tokens: int | None = None
    """What it cost; None while that is not known."""

    @property
    def key(self) -> Key:
        """Return the key that identifies the attempt."""
        return self[:4]

    @property
    def run(self) -> RunDir:
        """Return the run's directory; made only on demand, since paths take longest."""
        return RunDir(Path(self.root), self.run_id)


Reader = Callable[[Path], dict[Key, LedgerEntry]]
"""Returns the entries of one day of the ledger."""


def attempt_of(run: RunDir, worker: str, attempt: int) -> LedgerEntry:
    """Return an attempt of which nothing is known yet."""
    return LedgerEntry(str(run.root), run.id, worker, attempt)


def entries_of(path: Path) -> dict[Key, LedgerEntry]:
    """Read one day of the ledger; a line that was cut by a kill or is malformed is skipped."""
    found: dict[Key, LedgerEntry] = {}
    for record in read_journal(path):
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            _take(found, record)
    return found


def days_since(folder: Path, run_id: str) -> list[Path]:
    """List the days of the ledger that can hold a run: its id begins with the day of its start."""
    first = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}" if run_id[:8].isdigit() else ""
    with suppress(FileNotFoundError):
        return sorted(path for path in folder.iterdir() if path.suffix == ".jsonl" and path.stem >= first)
    return []


def spent_on(folder: Path, day: str, is_live: IsLive | None = None) -> Spent:
    """Return what one day has cost, written as 2026-02-16 (UTC)."""
    return total(entries_of(folder / f"{day}.jsonl").values(), is_live or liveness(folder))


def spent_by(folder: Path, runs: Iterable[RunDir], is_live: IsLive | None = None) -> list[Spent]:
    """Return the cost of each of some runs, on all days."""
    runs, known = list(runs), is_live or liveness(folder)
    return [total(entries, known) for entries in _entries_by(folder, runs)]


def spent_in(folder: Path, states: Sequence[RunState]) -> list[Spent]:
    """Return what each of some runs has cost; for a worker unknown to the ledger, its run tells it."""
    return _spent_in(_entries_by(folder, [one.run for one in states]), states, liveness(folder))


def spent_on_day_and_in(folder: Path, day: str, states: Sequence[RunState]) -> tuple[Spent, list[Spent]]:
    """Return what one day has cost, and each of some runs; each day of the ledger is read once."""
    read, known = cache(entries_of), liveness(folder)
    books = _entries_by(folder, [one.run for one in states], read)
    return total(read(folder / f"{day}.jsonl").values(), known), _spent_in(books, states, known)


def told_by(state: RunState) -> Spent:
    """Return what a run has cost by its own journal: each worker's last attempt; no file is read."""
    return total(_told(state, state.workers), lambda *_: False)


def total(entries: Iterable[LedgerEntry], is_live: IsLive) -> Spent:
    """Sum up attempts: the known cost of each, and the reservations of those that may still spend."""
    entries = list(entries)
    last: dict[tuple[str, str, str], int] = {}
    for one in entries:
        last[one[:3]] = max(one.attempt, last.get(one[:3], 0))
    usd, held_usd = [], []
    tokens = unpriced = held_tokens = out = 0
    for one in entries:
        if one.tokens is None and one.attempt == last[one[:3]] and is_live(one.run, one.worker):
            out += bool(one.held_usd or one.held_tokens)
            held_usd.append(one.held_usd or 0.0)
            held_tokens += one.held_tokens or 0
            continue
        cost, used = _known(one, last[one[:3]])
        usd.append(cost or 0.0)
        tokens += used
        unpriced += used if cost is None else 0
    # Of thousands of small amounts: added one by one they would drift.
    cost, held = (round(math.fsum(some), 9) for some in (usd, held_usd))
    return Spent(cost, tokens, unpriced, held, held_tokens, out)


def liveness(folder: Path) -> IsLive:
    """Return a test by the files as they are now: a runtime holds its run, a shim holds a slot."""
    marks: list[str] | None = None
    running: dict[RunDir, bool] = {}

    def is_live(run: RunDir, worker: str) -> bool:
        nonlocal marks
        if run not in running:
            running[run] = is_locked(run.path / "run.lock")
        if running[run]:
            return True
        if marks is None:
            from workers.pool.slots import holders  # noqa: PLC0415 - for start-up time: most attempts are settled

            taken = holders(folder.parent / "slots")
            marks = [str(one.holder.get("mark", "")) for one in taken if not one.dirty]
        return any(mark.startswith(f"{run.path}/{worker}/") for mark in marks)

    return is_live


def _entries_by(folder: Path, runs: Sequence[RunDir], read: Reader = entries_of) -> list[list[LedgerEntry]]:
    found: dict[tuple[str, str], dict[Key, LedgerEntry]] = {(str(run.root), run.id): {} for run in runs}
    for path in days_since(folder, min(run.id for run in runs)) if runs else ():
        for key, entry in read(path).items():
            if entry[:2] in found:
                found[entry[:2]][key] = entry
    return [list(each.values()) for each in found.values()]


def _spent_in(books: Iterable[list[LedgerEntry]], states: Sequence[RunState], is_live: IsLive) -> list[Spent]:
    found = []
    for state, entries in zip(states, books, strict=True):
        besides = state.workers.keys() - {one.worker for one in entries}
        found.append(total([*entries, *_told(state, besides)], is_live))
    return found


def _told(state: RunState, workers: Iterable[str]) -> list[LedgerEntry]:
    found = []
    for worker in workers:
        known = state.workers[worker]
        if not known.started:
            continue  # ten thousand may wait, and a table is drawn every moment
        used = {one.attempt: one.usage for one in known.tries} or {known.attempts: known.evidence.usage}
        for number, usage in used.items():
            tokens = int(usage.input_tokens) + int(usage.output_tokens)
            entry = attempt_of(state.run, worker, number)
            found.append(entry._replace(usd=usage.cost_usd, tokens=tokens))
    return found


def _take(found: dict[Key, LedgerEntry], record: Mapping[str, Any]) -> None:
    key = record["root"], record["run"], record["worker"], int(record["attempt"])
    if not all(isinstance(part, str) for part in key[:3]):
        raise TypeError(key)
    known = found.get(key) or LedgerEntry(*key)
    match record["event"]:
        case "reserved":
            held = _amount(record["usd"]), _amount(record["tokens"])
            tokens = None if held[1] is None else int(held[1])
            found[key] = known._replace(held_usd=held[0], held_tokens=tokens)
        case "settled":
            tokens = int(_amount(record["tokens"]) or 0)
            found[key] = known._replace(usd=_amount(record["usd"]), tokens=tokens)
        case "released":
            found.pop(key, None)


def _amount(value: Any) -> float | None:
    if value is None:
        return None
    if not 0 <= value < LARGEST_FIGURE:
        raise ValueError(value)
    return float(value)


def _known(entry: LedgerEntry, last: int) -> tuple[float | None, int]:
    """Return the cost of an attempt: as it was settled, else as the record of its worker states."""
    if entry.tokens is not None:
        return entry.usd, entry.tokens
    for number in dict.fromkeys((entry.attempt, last)):
        record = read_json(entry.run.attempt(entry.worker, number).record) or {}
        with suppress(KeyError, TypeError, ValueError):
            return _used(_usages(record, number)[entry.attempt])
    return None, 0


def _usages(facts: Mapping[str, Any], number: int) -> Mapping[int, Any]:
    """Return the use of each attempt; `usage` is the sum of all, and that of the only one without `tries`."""
    tries = facts.get("tries")
    return {one["attempt"]: one["usage"] for one in tries} if tries else {number: facts.get("usage")}


def _used(usage: Mapping[str, Any]) -> tuple[float | None, int]:
    return _amount(usage["cost_usd"]), sum(int(_amount(usage[name]) or 0) for name in COUNTED)
