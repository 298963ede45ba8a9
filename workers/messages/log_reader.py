"""One log, read while it is written: valid records, each once, and what is wrong with the rest."""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
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
    """Raised where a record may have the number of a line that was passed over."""


class LogReader:
    """Reads one log from its beginning on.

    With `needles` it passes over lines that hold none of them, unseen: as a whole, at the speed of a search.
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
        self._passed = 0
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
        except FileNotFoundError:
            self._lose("is gone")
            return
        except OSError:
            return  # the next poll asks again
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
            data = self._data(status.st_size)
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
        self._passed = 0

    def _data(self, size: int) -> bytes:
        descriptor = os.open(self._path, _READ)
        try:
            start = self._offset - len(self._tail)
            data = os.pread(descriptor, min(len(self._tail) + AT_ONCE, size - start), start)
            if not data.startswith(self._tail):
                self._begin_again("was replaced")
                data = os.pread(descriptor, min(AT_ONCE, size), 0)
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
            start = 0
            if self._is_in_long_line:
                self._is_in_long_line, start = False, data.index(b"\n") + 1
                self._line += 1
                self._take_line(b" " * (MAX_LINE + 1))  # its beginning is not in memory
            for line in self._lines(data, start, end):
                self._take_line(line)
        elif len(data) > MAX_LINE:
            self._is_in_long_line, end = True, len(data)
        if end:
            self._offset += end
            self._tail = (self._tail + data[max(0, end - _TAIL) : end])[-_TAIL:]

    def _lines(self, data: bytes, start: int, end: int) -> Iterator[bytes]:
        """Yield the lines of a part: where it is as we write it, those with a needle alone."""
        count = data.count(b"\n", start, end)
        is_ours = data.startswith(self._start, start)
        if self._needles and is_ours and data.count(b"\n" + self._start, start, end) == count - 1:
            yield from self._with_needle(data, start, end)
            return
        for line in data[start : end - 1].split(b"\n") if count else ():
            self._line += 1
            yield line

    def _with_needle(self, data: bytes, at: int, end: int) -> Iterator[bytes]:
        # A letter may be spelled as an escape; to look for one character alone is many times as fast.
        needles = (*self._needles, b"\\u00") if data.find(b"\\", at, end) >= 0 else self._needles
        hits = {needle: data.find(needle, at, end) for needle in needles}
        while at < end:
            hit = min((found for found in hits.values() if found >= 0), default=end)
            begin = max(at, data.rfind(b"\n", at, hit) + 1)
            self._pass_over(data, at, begin)
            if hit == end:
                return
            self._line += 1
            stop = data.index(b"\n", hit)
            yield data[begin:stop]
            at = stop + 1
            for needle, found in hits.items():
                if 0 <= found < at:
                    hits[needle] = data.find(needle, at, end)

    def _pass_over(self, data: bytes, start: int, end: int) -> None:
        """Pass over lines that concern others, and note the number of the last: the highest, as we count."""
        if start < end:
            self._line += data.count(b"\n", start, end)
            last = max(start, data.rfind(b"\n", start, end - 1) + 1) + len(self._start)
            number = data[last : data.find(b'"', last, end)]
            self._passed = max(self._passed, int(number) if number.isdigit() else 0)

    def _take_line(self, line: bytes) -> None:
        found = decode(line, self.participant)
        if isinstance(found, Void):
            self._skip(found)
            return
        number, print_ = found.number, _print(line)
        if number not in self._prints:
            if number <= self._passed:
                raise _ConflictError
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


def _print(line: bytes) -> int:
    """Return what tells one content of a record from another: a hash of all but how often it was sent."""
    head, _, rest = line.partition(b',"try":')
    return hash((head, rest.partition(b",")[2]))
