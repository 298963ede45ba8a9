"""Whose turn it is at the store's lock: first come, first served, and the dead give up their place.

A lock that is polled for goes to whoever asks next, which is mostly the one that has just let it go.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from workers.files.run_dir import try_lock

POLL = 0.01


@contextlib.contextmanager
def turn(folder: Path, seconds: float) -> Iterator[float]:
    """Hold a place in the queue, entered when it is the first; gives the seconds that are left.

    Raises TimeoutError where it does not become the first in time.
    """
    deadline = time.monotonic() + seconds
    place, descriptor = _taken(folder)
    try:
        while not _is_first(folder, place):
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(POLL)
        yield max(0.0, deadline - time.monotonic())
    finally:
        place.unlink(missing_ok=True)
        os.close(descriptor)


def _taken(folder: Path) -> tuple[Path, int]:
    """Take the last place: a file that we hold locked for as long as we live."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        place = folder / f"{time.monotonic_ns():020}-{os.getpid()}"
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue  # another thread, in the same nanosecond
        # Before it is locked it looks like a dead one's, and may be taken away.
        if try_lock(descriptor, fcntl.LOCK_EX) and place.exists():
            return place, descriptor
        os.close(descriptor)


def _is_first(folder: Path, place: Path) -> bool:
    """Tell whether nobody that lives is ahead; the places of the dead are taken away."""
    for other in sorted(folder.iterdir()):
        if other.name >= place.name:
            return True
        try:
            descriptor = os.open(other, os.O_RDONLY)
        except FileNotFoundError:
            continue  # it has just had its turn
        try:
            if not try_lock(descriptor, fcntl.LOCK_EX):
                return False
            other.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return True
