"""One log, read while it is written: valid records, each once, and what is wrong with the rest."""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116
import os
import stat
from array import array
from collections import deque
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from workers.messages.record import MAX_LINE, Record, Void, decode

AT_ONCE = 1 << 16
"""Bytes of one log that are read at once, if a line ends in them: little enough for many logs."""
_ESCAPE = b"\\u00"
"""How a letter of a name may be spelled, too. To look for its first character alone is many times as fast."""
_STEP = 4096
"""Bytes that are read first: mostly there is no more."""
_QUIET = 250
"""Polls without news after which a log is closed."""
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
    It passes over `known` ones, too: hashes of lines of valid records.
    A log that grows while it is read is kept open until it is quiet: to open it is most of a poll's time.
    """

    def __init__(
        self,
        path: str,
        participant: str,
        needles: Sequence[bytes],
        void: list[VoidLine],
        changes: list[LogChange],
        *,
        known: Container[int],
    ) -> None:
        self.participant = participant
        self.queue: deque[Seen] = deque()
        """The records that were read; whoever handles one removes it."""
        self.void_count = 0
        self.is_behind = False
        """Whether there was more to read than was read at once."""
        self._path = path
        self._needles, self._known_lines = needles, known
        self._void, self._changes = void, changes
        self._start = b'{"v":1,"id":"%s:' % participant.encode()
        self._descriptor = self._inode = self._old = -1
        self._offset = self._line = 0
        self._rest = -1
        """Bytes after the offset that were seen and are no whole line yet; -1: nothing was seen."""
        self._tail = b""
        self._quiet_polls = 0
        self._is_there = self._is_caught_up = self._is_in_long_line = False
        self._prints = array("q")
        self._far_prints: dict[int, int] = {}
        """What each content is known by: of the numbers from 1 on, and of others."""
        self._passed = 0
        self._tries: dict[int, int] = {}
        self._reported: set[str] = set()

    def __del__(self) -> None:
        """Close the log."""
        self._close()

    @property
    def is_open(self) -> bool:
        """Return whether it has grown of late."""
        return self._descriptor >= 0

    @property
    def holds_others(self) -> bool:
        """Return whether records of other logs wait: what this log held at the start may be older."""
        return self.is_behind and self._offset < self._old

    def read(self, *, is_same: bool) -> None:
        """Read what is new, `AT_ONCE` bytes at most; `is_same`: no file of the folder was replaced since."""
        self.is_behind = False
        try:
            if (self.is_open and is_same) or self._find():
                self._read()
        except OSError:
            self._close()  # the next poll asks again
        except _ConflictError:
            # Which of the two lines is valid shows only when all are read.
            self._needles, self._known_lines, self.is_behind = (), (), True
            self._restart()

    def _find(self) -> bool:
        """Look at the path; return whether there is something to read."""
        try:
            status = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return self._lose("is gone")
        if not stat.S_ISREG(status.st_mode):
            return self._lose("is no regular file")
        if self._is_there and status.st_ino != self._inode:
            self._begin_again("was replaced")
        if self._old < 0:
            self._old = min(status.st_size, _HOLDS)
        is_quiet = status.st_ino == self._inode and status.st_size == self._offset + self._rest
        self._is_there, self._inode = True, status.st_ino
        return not is_quiet

    def _lose(self, what: str) -> bool:
        if self._is_there:
            self._changes.append(LogChange(self.participant, what))
        self._is_there = False
        self._close()
        return False

    def _begin_again(self, what: str) -> None:
        self._changes.append(LogChange(self.participant, what))
        self._restart()

    def _restart(self) -> None:
        # What was read before stays known: only what is new is handled.
        self._offset = self._line = self.void_count = self._passed = 0
        self._rest, self._tail, self._is_in_long_line = -1, b"", False
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        if not self.is_open:
            self._descriptor = os.open(self._path, _READ)
            if os.fstat(self._descriptor).st_ino != self._inode:
                self._close()  # replaced since: the next poll finds it
                return
        known = len(self._tail)
        data = os.pread(self._descriptor, _STEP, self._offset - known)
        if not data.startswith(self._tail):
            self._begin_again("was cut" if len(data) < known else "was replaced")
            self.is_behind = True
            return
        for more in (AT_ONCE, MAX_LINE) if len(data) == _STEP else ():
            data += os.pread(self._descriptor, more, self._offset - known + len(data))
            self.is_behind = len(data) >= AT_ONCE
            if data.find(b"\n", known) >= 0:
                break
        if len(data) - known != self._rest:
            self._quiet_polls = 0
            self._take(data[known:])
        else:
            self._quiet_polls += 1
        if not self.is_behind and (not self._is_caught_up or self._quiet_polls > _QUIET):
            self._is_caught_up = True
            self._close()

    def _take(self, data: bytes) -> None:
        """Take the whole lines; the rest without an LF waits, unless it can be no record any more."""
        end = data.rfind(b"\n") + 1
        if self._needles and end and not self._is_in_long_line and self._concerns_others(data, end):
            self._pass_over(data, 0, end)
        elif end:
            start = 0
            if self._is_in_long_line:
                self._is_in_long_line, start = False, data.index(b"\n") + 1
                self._line += 1
                self._take_line(b" " * (MAX_LINE + 1))  # its beginning is not in memory
            for line in self._lines(data, start, end):
                self._take_line(line)
        elif len(data) > MAX_LINE:
            self._is_in_long_line, end = True, len(data)
        self._rest = len(data) - end
        if end:
            self._offset += end
            self._tail = (self._tail + data[max(0, end - _TAIL) : end])[-_TAIL:]

    def _lines(self, data: bytes, start: int, end: int) -> Iterator[bytes]:
        """Yield the lines of a part: where it is as we write it, those with a needle alone."""
        if self._needles and self._is_ours(data, start, end):
            yield from self._with_needle(data, start, end)
            return
        for line in data[start : end - 1].split(b"\n") if start < end else ():
            self._line += 1
            yield line

    def _concerns_others(self, data: bytes, end: int) -> bool:
        """Return whether all lines of a part can be passed over, as most of the time."""
        for needle in self._needles:
            if needle in data:
                return False
        return self._is_ours(data, 0, end) and (b"\\" not in data or _ESCAPE not in data)

    def _is_ours(self, data: bytes, start: int, end: int) -> bool:
        """Return whether all lines begin as we write them: no text of a record can hold such a beginning."""
        return data.count(b"\n", start, end) == data.count(self._start, start, end)

    def _with_needle(self, data: bytes, at: int, end: int) -> Iterator[bytes]:
        needles = (*self._needles, _ESCAPE) if b"\\" in data else self._needles
        hits = {needle: data.find(needle, at, end) for needle in needles}
        while found := [hit for hit in hits.values() if hit >= 0]:
            hit = min(found)
            begin = max(at, data.rfind(b"\n", at, hit) + 1)
            self._pass_over(data, at, begin)
            self._line += 1
            stop = data.index(b"\n", hit)
            yield data[begin:stop]
            at = stop + 1
            for needle, before in hits.items():
                if 0 <= before < at:
                    hits[needle] = data.find(needle, at, end)
        self._pass_over(data, at, end)

    def _pass_over(self, data: bytes, start: int, end: int) -> None:
        """Pass over lines that concern others, and note the number of the last: the highest, as we count."""
        if start < end:
            self._line += data.count(b"\n", start, end)
            self._pass_number(data, data.rfind(self._start, start, end))

    def _pass_number(self, data: bytes, begin: int) -> None:
        """Note the number of a line, which begins as we write it, that was passed over."""
        begin += len(self._start)
        number = data[begin : data.find(b'"', begin)]
        self._passed = max(self._passed, int(number) if number.isdigit() else 0)

    def _take_line(self, line: bytes) -> None:
        if hash(line) in self._known_lines and line.startswith(self._start):
            self._pass_number(line, 0)
            return
        found = decode(line, self.participant)
        if isinstance(found, Void):
            self._skip(found)
            return
        number, print_ = found.number, _print(line)
        known = self._known(number)
        if known is None:
            if number <= self._passed:
                raise _ConflictError
            self._note(number, print_)
        elif known != print_:
            self._skip(Void("repeats an id with other content"))
            return
        elif found.tries <= self._tries.get(number, 1):
            return  # read before
        if found.tries > 1:
            self._tries[number] = found.tries
        self.queue.append(Seen(found, line, found.tries > 1))

    def _known(self, number: int) -> int | None:
        return self._prints[number - 1] if number <= len(self._prints) else self._far_prints.get(number)

    def _note(self, number: int, print_: int) -> None:
        # Mostly they count up from 1, and take an eighth of the memory so.
        if number == len(self._prints) + 1:
            self._prints.append(print_)
        else:
            self._far_prints[number] = print_

    def _skip(self, why: Void) -> None:
        self.void_count += 1
        if why.reason not in self._reported:
            self._reported.add(why.reason)
            self._void.append(VoidLine(self.participant, self._line, why))


def _print(line: bytes) -> int:
    """Return what tells one content of a record from another: a hash of all but how often it was sent."""
    head, _, rest = line.partition(b',"try":')
    return hash((head, rest.partition(b",")[2]))
