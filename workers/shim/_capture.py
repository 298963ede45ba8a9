"""One output stream of a worker, moved into its file. Part of the shim: standard library only."""

import errno
import fcntl
import os
import sys

LINUX = sys.platform.startswith("linux")
CHUNK = 1 << 18
"""Bytes moved at one time, and in a pipe: what fits a processor's cache. A mebibyte is half as quick."""


class Stream:
    """One output stream of the worker, moved into its file, `cap` bytes at most.

    By a pipe: a program that opens /dev/stderr or /proc/PID/fd/1 would truncate a file, and could write
    its agent's records anew.
    """

    def __init__(self, name: str, path: str, cap: int | None) -> None:
        self.name = name
        self.cap = cap
        self.size = 0
        self.cut = False
        self.source = -1
        # Not to append: splice refuses that.
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)

    def started(self) -> None:
        """Close the worker's end of the pipe, so that its end can be detected."""
        os.close(self.sink)

    def pump(self) -> bool:
        """Move the content of the pipe; return whether there may be more, now."""
        room = CHUNK if self.cap is None else min(CHUNK, self.cap - self.size)
        try:
            if room == 0:
                self.cut = bool(os.read(self.source, 1))
                moved = 0
            else:
                moved = _move(self.source, self.file, room)
        except BlockingIOError:
            return False
        self.size += moved
        if moved == 0:
            # Past the cap the reading end is closed too: a flooding worker gets SIGPIPE.
            os.close(self.source)
            self.source = -1
        elif moved >= 65536 and LINUX:
            self._widen()
        return moved > 0

    def over(self) -> bool:
        """Return whether the worker wrote more than its cap."""
        return self.cut

    def close(self) -> None:
        """Move the rest, end a cut file with a visible mark, and close it. Idempotent."""
        if self.file < 0:
            return
        while self.source >= 0 and self.pump():
            pass
        if self.cut:
            os.write(self.file, b"\n[orchestrate: output cut here at %d bytes]\n" % self.size)
        os.close(self.file)
        self.file = -1

    def _widen(self) -> None:
        try:
            if fcntl.fcntl(self.source, fcntl.F_GETPIPE_SZ) < CHUNK:
                fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, CHUNK)
        except OSError:
            pass  # the user's share of pipe memory is used up; narrow pipes work as well


def _move(source: int, target: int, room: int) -> int:
    """Move at most `room` bytes from a pipe to a file, inside the kernel where it can."""
    if LINUX:
        try:
            return os.splice(source, target, room, flags=os.SPLICE_F_NONBLOCK)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise  # else: a file system that cannot splice, as some network ones
    data = os.read(source, min(room, 65536))
    left = memoryview(data)
    while left:
        left = left[os.write(target, left) :]
    return len(data)
