"""Rate limits of the agents' providers: until when one is parked, and how many workers it allows.

One file an agent, shared by every process on the repository. No file: no limit, as one `stat` shows.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from workers.files.durable import replace_file
from workers.files.read import read_whole
from workers.pool.slots import PoolLimits

FIRST_PAUSE = 15.0
"""Seconds that a provider is parked where neither it nor the settings name a time; each further pause is
twice as long."""
LONGEST_PAUSE = 900.0
FARTHEST = 32 * 86400.0
"""A time further ahead than any quota lasts is a misreading, milliseconds for instance."""
_LAST = 250_000_000_000.0
"""A second in the year 9892: no clock can show a later time."""


class Parked(NamedTuple):
    """A provider with which nothing is started for now; `named` if the provider itself named the time."""

    agent: str
    until: float
    reason: str
    named: bool


class ProviderState(NamedTuple):
    """The state of one provider: the limit in force beside the full one; None where it has none."""

    agent: str
    limit: int | None
    full: int | None
    until: float | None
    reason: str


class _Known(NamedTuple):
    """The content of a provider's file."""

    limit: int | None = None
    full: int | None = None
    until: float = 0.0
    since: float = 0.0
    reason: str = ""
    named: bool = False
    pauses: int = 0

    def is_over(self, now: float) -> bool:
        # A clock that was set back must not turn a pause of seconds into one of hours.
        return self.until <= now or (not self.named and self.until - now > LONGEST_PAUSE)


class Providers:
    """The state of the providers, below a folder. All processes with the same folder share it."""

    def __init__(
        self, folder: Path, limits: PoolLimits, clock: Callable[[], float], first_pause: float = FIRST_PAUSE
    ) -> None:
        self.folder = folder
        self._first_pause = first_pause
        self._limits = limits
        self._clock = clock
        self._read: dict[str, tuple[tuple[int, ...] | None, _Known]] = {}

    def park(self, agent: str, reason: str, until: float | None, began: float | None = None) -> Parked:
        """Start nothing with a provider until a time that it names (epoch seconds), else for a growing pause.

        A worker that meets the limit during the pause, or `began` before it, adds nothing new: the pause may
        become longer, but neither the next one nor the halved limit counts again.
        """
        now = self._clock()
        if until is not None and not now < until <= now + FARTHEST:
            until = None
        with self._changing():
            known = self._known(agent)
            full = self._limits.of(agent)
            pauses, limit = known.pauses, _in_force(known.limit, full)
            is_same = not known.is_over(now) or (began is not None and began <= known.since)
            if not is_same:
                pauses += 1
                limit = None if limit is None else min(limit, max(1, limit // 2))
            end, named, why = until or now + self._pause(max(1, pauses)), until is not None, reason
            if not known.is_over(now) and (known.until >= end or (known.named and not named)):
                end, named, why = known.until, known.named, known.reason
            since = known.since if is_same else now
            self._write(agent, _Known(limit, full, end, since, why, named, max(1, pauses)))
        return Parked(agent, end, why, named)

    def parked(self, agent: str) -> Parked | None:
        """Return until when no worker of a provider starts; None once that is over."""
        known = self._known(agent)
        if known.is_over(self._clock()):
            return None
        return Parked(agent, known.until, known.reason, known.named)

    def limit(self, agent: str) -> int | None:
        """Return how many workers of an agent may run now; None where it has no limit of its own."""
        return _in_force(self._known(agent).limit, self._limits.of(agent))

    def room(self, agent: str) -> int | None:
        """Return `limit`, or 0 while the provider is parked."""
        return 0 if self.parked(agent) else self.limit(agent)

    def went_well(self, agent: str) -> None:
        """Count a success: one worker more up to the full limit, and the next pause is the shortest again.

        While a provider is parked, only workers from before the pause can end: those prove nothing.
        """
        if self._known(agent) == _Known() or self.parked(agent):
            return
        with self._changing():
            known, full = self._known(agent), self._limits.of(agent)
            if not known.is_over(self._clock()):
                return  # parked by another process meanwhile
            limit = _in_force(known.limit, full)
            if full is None or limit is None or limit + 1 >= full:
                self._write(agent, None)
            else:
                self._write(agent, _Known(limit + 1, full, since=known.since))

    def chosen(self, agents: Sequence[str], after: float) -> str:
        """Choose an agent or one of its fallbacks: itself, unless it is parked for more than `after` seconds.

        Then the first for which a ticket would wait less; the agent itself where none is better.
        """
        latest = self._clock() + after
        for agent in agents:
            parked = self.parked(agent)
            if parked is None or parked.until <= latest:
                return agent
        return agents[0]

    def provider_states(self) -> list[ProviderState]:
        """List the providers that are parked, or allow fewer workers than usual."""
        return provider_states(self.folder, self._clock())

    def _pause(self, number: int) -> float:
        return min(LONGEST_PAUSE, self._first_pause * 2.0 ** min(number - 1, 30))

    def _known(self, agent: str) -> _Known:
        if self._limits.of(agent) is None:
            return _Known()  # no provider stands behind it
        path = self.folder / f"{agent}.json"
        signature = _signature(path)
        held = self._read.get(agent)
        if held is None or held[0] != signature:
            held = self._read[agent] = (signature, _known_in(path) if signature else _Known())
        return held[1]

    def _write(self, agent: str, known: _Known | None) -> None:
        path = self.folder / f"{agent}.json"
        # Where nothing can be written (a full disk), this process continues with its own knowledge.
        with contextlib.suppress(OSError):
            if known is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, json.dumps(known._asdict()).encode(), synced=False)
        self._read[agent] = (_signature(path), known or _Known())

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for writing during the block; each process needs it for one write."""
        descriptor = None
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDONLY | os.O_CREAT, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)


def provider_states(folder: Path, now: float) -> list[ProviderState]:
    """List the providers below a folder that are parked, or allow fewer workers than usual."""
    found = []
    for path in sorted(folder.glob("*.json")):
        known = _known_in(path)
        until = None if known.is_over(now) else known.until
        limit = _in_force(known.limit, known.full)
        if until is not None or limit != known.full:
            found.append(ProviderState(path.stem, limit, known.full, until, known.reason))
    return found


def _in_force(limit: int | None, full: int | None) -> int | None:
    return full if limit is None or full is None else min(limit, full)


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        it = path.stat()
    except OSError:
        return None
    return it.st_ino, it.st_mtime_ns, it.st_size


def _known_in(path: Path) -> _Known:
    """Read a provider's file; one that cannot be read, or holds an impossible value, counts as missing."""
    try:
        said = json.loads(read_whole(path))
        until, since = float(said["until"]), float(said["since"])
        limit, full = (None if said[name] is None else int(said[name]) for name in ("limit", "full"))
        pauses = int(said["pauses"])
        known = _Known(limit, full, until, since, str(said["reason"]), said["named"] is True, pauses)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return _Known()
    is_sound = all(0 <= at < _LAST for at in (until, since)) and pauses >= 0 and (limit is None or limit >= 0)
    return known if is_sound else _Known()
