"""Locks between processes: raw `flock`s, which end with their holder, and a fair queue."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tickets.value import Value

GLANCE = 0.25
"""Seconds after which a lock counts as held, and not just tested by another process."""
POLL = 0.01
"""Seconds between two polls of a queue entry."""
_NUMBERS = count()


@contextlib.contextmanager
def held_lock(path: Path, taken: int | None = None) -> Iterator[bool]:
    """Hold the lock of a file for the block, waiting no longer than `GLANCE`; yield whether it was free.

    The death of the holder releases it, so a free lock on a run that has not ended means `interrupted`.
    `taken` is the descriptor by which this process holds it already: its own, or an inherited one.
    """
    with _held(_opened(path) if taken is None else taken, GLANCE, 0.005) as free:
        yield free


def take_lock(path: Path) -> int | None:
    """Acquire the lock of `held_lock`; return the descriptor that holds it until it is closed.

    None where another process holds it.
    """
    descriptor = _opened(path)
    if _acquired(descriptor, GLANCE, 0.005):
        return descriptor
    os.close(descriptor)
    return None


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


@contextlib.contextmanager
def held_folder(folder: Path, patience: float) -> Iterator[bool]:
    """Hold the lock of a folder for the block, waiting `patience` seconds; yield whether it was free.

    No lock file is created, so that a refused command leaves no trace.
    """
    with _held(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), patience, 0.02) as free:
        yield free


def is_locked(path: Path) -> bool:
    """Return whether some process holds the lock of `held_lock`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Acquire a `flock` (`LOCK_EX` or `LOCK_SH`) if it is free at this moment; return whether it was."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _held(descriptor: int, patience: float, pause: float) -> Iterator[bool]:
    try:
        yield _acquired(descriptor, patience, pause)
    finally:
        os.close(descriptor)


def _acquired(descriptor: int, patience: float, pause: float) -> bool:
    # A process that only tests it, as `status` does, holds the lock for a moment.
    until = time.monotonic() + patience
    while not (free := try_lock(descriptor, fcntl.LOCK_EX)) and time.monotonic() <= until:
        time.sleep(pause)
    return free


class Waiter(Value):
    """An entry of a queue, as other processes see it."""

    label: str
    """The label that it entered with."""
    note: str
    """Its last text, without spaces around it."""


class QueueEntry:
    """A queue entry of this process: a file that stays locked for as long as the process lives."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.name = path.name
        self._path = path
        self._descriptor = descriptor

    def write(self, note: str) -> None:
        """Write what this entry waits for, at most 5 letters, as a sign that its process is not stopped."""
        os.pwrite(self._descriptor, f"{note:<5} {time.monotonic_ns():020}".encode(), 0)

    def leave(self) -> None:
        """Leave the queue."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()  # no folder: an empty queue, which one call shows


class FairQueue:
    """A queue that all processes with the same folder share: first come, first served.

    Without it a polled lock goes to the process that polls next, which is mostly the one that has just
    released it. The entries of dead processes are removed; those that were not written for `stale_after`
    seconds are passed over, since their process is stopped (Ctrl-Z).
    """

    def __init__(self, folder: Path, stale_after: float | None = None) -> None:
        self._folder = folder
        self._stale_after = stale_after

    def enter(self, label: str = "") -> QueueEntry:
        """Enter at the end of the queue."""
        end = f".{label}" if label else ""
        while True:
            path = self._folder / f"{time.monotonic_ns():020}-{os.getpid()}-{next(_NUMBERS)}{end}"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except (FileNotFoundError, NotADirectoryError):
                self._folder.mkdir(parents=True, exist_ok=True)  # names the obstacle, if it is no folder
                continue
            # Before it is locked it looks like the entry of a dead process, and may be removed.
            if try_lock(descriptor, fcntl.LOCK_EX) and path.exists():
                return QueueEntry(path, descriptor)
            os.close(descriptor)

    def ahead(self, place: QueueEntry | None = None) -> Iterator[Waiter]:
        """Yield the entries before `place`, or all of them where it is None, oldest first."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - one call where the queue is empty
        except FileNotFoundError:
            return
        for name in sorted(name for name in names if place is None or name < place.name):
            path = self._folder / name
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # it has just left, or is another user's
            try:
                if try_lock(descriptor, fcntl.LOCK_SH):
                    path.unlink(missing_ok=True)  # its process has died
                    continue
                note, _, at = os.pread(descriptor, 64, 0).decode(errors="replace").partition(" ")
            finally:
                os.close(descriptor)
            if not self._is_stale(at.strip()):
                yield Waiter(name.partition(".")[2], note)

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[float]:
        """Wait to be first in the queue and hold the entry for the block; yield the seconds that are left.

        Raises TimeoutError where it does not become the first in time.
        """
        deadline = time.monotonic() + seconds
        place = self.enter()
        try:
            while next(self.ahead(place), None) is not None:
                if time.monotonic() > deadline:
                    raise TimeoutError
                time.sleep(POLL)
            yield max(0.0, deadline - time.monotonic())
        finally:
            place.leave()

    def _is_stale(self, at: str) -> bool:
        # Without a time it has only just entered.
        if self._stale_after is None or not at.isdecimal():
            return False
        return time.monotonic_ns() - int(at) >= self._stale_after * 1e9
