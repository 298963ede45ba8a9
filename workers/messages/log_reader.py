"""One log, read while it is written: valid records, each once, and what is wrong with the rest."""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116
import os
import stat
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from workers.messages.record import MAX_LINE, Record, Void, decode

AT_ONCE = 5 << 16
"""Bytes of one log that are read at once: more than a line, and little enough for many logs."""
_TAIL = 64
"""Bytes before the offset, by which a log that was cut and has grown again is known."""
_HOLDS = 64 << 20
"""Bytes at the beginning of a log, more than one may have, for which the records of others wait."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Seen(NamedTuple):
    """A valid record that was read."""

    record: Record
    line: bytes
    """Its line, byte for byte, without its LF."""
    again: bool
    """Whether it is a resend of one that was read before."""


class VoidLine(NamedTuple):
    """The first line of a log that is void for some reason."""

    participant: str
    line: int
    why: Void

    def __str__(self) -> str:
        """Return what is reported about it."""
        return f"line {self.line} {self.why}; skipped"


class LogChange(NamedTuple):
    """What happened to a log, other than a record at its end."""

    participant: str
    what: str
    """`was cut`, `was replaced`, `is gone`, `is no regular file`."""


class _ConflictError(Exception):
    """Raised where a record has the number of a line that was passed over."""


class LogReader:
    """Reads one log from its beginning on.

    With `needles` it passes over lines that hold none of them, and decodes no such line.
    """

    def __init__(self, path: str, participant: str, needles: Sequence[bytes] = ()) -> None:
        self.participant = participant
        self.queue: deque[Seen] = deque()
        """The records that were read; whoever handles one removes it."""
        self.void: list[VoidLine] = []
        self.changes: list[LogChange] = []
        """What is to be reported, each once; whoever reports removes it."""
        self.void_count = 0
        self.is_behind = False
        """Whether there was more to read than was read at once."""
        self._path = path
        self._needles = needles
        self._start = b'{"v":1,"id":"%s:' % participant.encode()
        self._inode = self._size = self._old = -1
        self._offset = self._line = 0
        self._tail = b""
        self._is_in_long_line = False
        self._is_there = False
        self._prints: dict[int, int] = {}
        self._passed: dict[int, int] = {}
        self._tries: dict[int, int] = {}
        self._reported: set[str] = set()

    @property
    def holds_others(self) -> bool:
        """Return whether records of other logs wait: what this log held at the start may be older."""
        return self.is_behind and self._offset < self._old

    def read(self) -> None:
        """Read what is new, `AT_ONCE` bytes at most."""
        self.is_behind = False
        try:
            status = os.stat(self._path, follow_symlinks=False)
        except OSError:
            self._lose("is gone")
            return
        if not stat.S_ISREG(status.st_mode):
            self._lose("is no regular file")
            return
        if (status.st_ino, status.st_size) == (self._inode, self._size):
            return
        if self._is_there and status.st_ino != self._inode:
            self._begin_again("was replaced")
        elif status.st_size < self._offset:
            self._begin_again("was cut")
        if self._old < 0:
            self._old = min(status.st_size, _HOLDS)
        self._is_there, self._inode, self._size = True, status.st_ino, status.st_size
        try:
            data = self._data()
            self._take(data)
        except OSError:
            self._size = -1  # it has just gone, or is no longer what it was
        except _ConflictError:
            # Which of the two lines is valid shows only when all are read.
            self._needles, self.is_behind = (), True
            self._restart()

    def _lose(self, what: str) -> None:
        if self._is_there:
            self.changes.append(LogChange(self.participant, what))
        self._is_there, self._size = False, -1

    def _begin_again(self, what: str) -> None:
        self.changes.append(LogChange(self.participant, what))
        self._restart()

    def _restart(self) -> None:
        # What was read before stays known: only what is new is handled.
        self._offset = self._line = self.void_count = 0
        self._size, self._tail, self._is_in_long_line = -1, b"", False
        self._passed.clear()

    def _data(self) -> bytes:
        descriptor = os.open(self._path, _READ)
        try:
            data = os.pread(descriptor, len(self._tail) + AT_ONCE, self._offset - len(self._tail))
            if not data.startswith(self._tail):
                self._begin_again("was replaced")
                data = os.pread(descriptor, AT_ONCE, 0)
        finally:
            os.close(descriptor)
        data = data[len(self._tail) :]
        if len(data) == AT_ONCE:
            self.is_behind, self._size = True, -1
        return data

    def _take(self, data: bytes) -> None:
        """Take the whole lines; the rest without an LF waits, unless it can be no record any more."""
        end = data.rfind(b"\n") + 1
        if end:
            for line in data[: end - 1].split(b"\n"):
                self._line += 1
                if self._is_in_long_line:
                    self._is_in_long_line = False
                    line = b" " * (MAX_LINE + 1)  # noqa: PLW2901 - its beginning is not in memory
                if not (self._needles and self._passes(line)):
                    self._take_line(line)
        elif len(data) > MAX_LINE:
            self._is_in_long_line, end = True, len(data)
        if end:
            self._offset += end
            self._tail = (self._tail + data[max(0, end - _TAIL) : end])[-_TAIL:]

    def _take_line(self, line: bytes) -> None:
        found = decode(line, self.participant)
        if isinstance(found, Void):
            self._skip(found)
            return
        number, print_ = found.number, _print(line)
        if self._passed and number in self._passed:
            raise _ConflictError
        if number not in self._prints:
            self._prints[number] = print_
        elif self._prints[number] != print_:
            self._skip(Void("repeats an id with other content"))
            return
        elif found.tries <= self._tries.get(number, 1):
            return  # read before
        if found.tries > 1:
            self._tries[number] = found.tries
        self.queue.append(Seen(found, line, found.tries > 1))

    def _skip(self, why: Void) -> None:
        self.void_count += 1
        if why.reason not in self._reported:
            self._reported.add(why.reason)
            self.void.append(VoidLine(self.participant, self._line, why))

    def _passes(self, line: bytes) -> bool:
        """Return whether a line concerns others; as we write it, that shows without decoding it."""
        if not line.startswith(self._start) or b"\\u00" in line or any(map(line.__contains__, self._needles)):
            return False
        number = line[len(self._start) : line.find(b'"', len(self._start))]
        if not number.isdigit() or int(number) in self._prints:
            return False
        self._passed[int(number)] = _print(line)
        return True


def _print(line: bytes) -> int:
    """Return what tells one content of a record from another: a hash of all but how often it was sent."""
    head, _, rest = line.partition(b',"try":')
    return hash((head, rest.partition(b",")[2]))
