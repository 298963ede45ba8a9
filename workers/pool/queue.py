"""Who waits for a slot, the longest first, in all processes together: a locked file for each of them.

Whoever comes later takes only what is free beyond the needs of those ahead, so that a process which lets go
and asks again at once, a hundred times, does not keep another's one ticket waiting.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from workers.files.run_dir import try_lock

Lack = Literal["agent", "pool"]
"""What somebody waits for: a slot of the agent, or, where one of those is free, a slot of the pool."""

_STALE = 5 * 10**9
"""Nanoseconds without a look after which somebody is passed over: it is stopped (Ctrl-Z), not dead."""


class Waiter(NamedTuple):
    """One who waits."""

    agent: str
    lack: Lack


class Spot:
    """One's own place in the line."""

    def __init__(self, line: "Line", path: Path, descriptor: int, agent: str) -> None:
        self.name = path.name
        self.waiter = Waiter(agent, "agent")
        self._line = line
        self._path = path
        self._descriptor = descriptor

    def looked(self, lack: Lack) -> None:
        """Say what was missing at a look, and that we are still there."""
        self.waiter = self.waiter._replace(lack=lack)
        os.pwrite(self._descriptor, f"{lack:<5} {time.monotonic_ns():020}".encode(), 0)

    def leave(self) -> None:
        """Give the place up."""
        self._line.spots.pop(self.name, None)
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()  # no folder: nobody waits, which one call tells


class Line:
    """The line below one folder, which is there while somebody waits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self.spots: dict[str, Spot] = {}

    def enter(self, agent: str, lack: Lack) -> Spot:
        """Take the last place: a file that stays locked for as long as we live."""
        while True:
            path = self._folder / f"{time.monotonic_ns():020}-{os.getpid()}-{next(self._numbers)}.{agent}"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except FileNotFoundError:
                self._folder.mkdir(parents=True, exist_ok=True)
                continue
            spot = Spot(self, path, descriptor, agent)
            # Before it is locked it looks like a dead one's, and may be taken away.
            if try_lock(descriptor, fcntl.LOCK_EX) and path.exists():
                spot.looked(lack)
                self.spots[spot.name] = spot
                return spot
            os.close(descriptor)

    def ahead(self, spot: Spot | None) -> Iterator[Waiter]:
        """Give those who were there before us, or all where we have no place, the longest there first."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - one call where nobody waits
        except FileNotFoundError:
            return iter(())
        return self._living(sorted(name for name in names if spot is None or name < spot.name))

    def _living(self, names: list[str]) -> Iterator[Waiter]:
        for name in names:
            if (ours := self.spots.get(name)) is not None:
                yield ours.waiter
                continue
            path = self._folder / name
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError:
                continue  # it has just left
            try:
                if try_lock(descriptor, fcntl.LOCK_SH):
                    path.unlink(missing_ok=True)  # left by somebody who died
                    continue
                lack, _, at = os.pread(descriptor, 64, 0).decode(errors="replace").partition(" ")
            finally:
                os.close(descriptor)
            # Nothing yet: it has only just come.
            if not at.strip().isdecimal() or time.monotonic_ns() - int(at) < _STALE:
                yield Waiter(name.rpartition(".")[2], "pool" if lack == "pool" else "agent")
