"""The lines of a file: their offsets, their own line ends, and the most frequent line end."""

import codecs
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, overload

_LF, _CR = b"\n\r"


class Line(NamedTuple):
    """One line: `data[start:end]` without its end, `data[start:after]` with it."""

    start: int
    end: int
    after: int


class Lines(Sequence[Line]):
    """The lines of a file, split at CRLF, LF and lone CR; each Line is made on demand.

    A byte order mark stands before the first line and is no part of it.
    """

    __slots__ = ("_data", "starts")

    def __init__(self, data: bytes) -> None:
        self._data = data
        # Of bytes, not of text: `str.splitlines` also splits at form feed, NEL and U+2028, which are text.
        self.starts = [0, *accumulate(map(len, data.splitlines(keepends=True)))]
        if data.startswith(codecs.BOM_UTF8):
            # Otherwise the first text does not begin its line: no section and no field would be found there.
            self.starts[0] = len(codecs.BOM_UTF8)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, index: int | slice) -> Line | tuple[Line, ...]:
        if isinstance(index, slice):
            return tuple(map(self._line, range(*index.indices(len(self)))))
        return self._line(range(len(self))[index])

    def __iter__(self) -> Iterator[Line]:
        return map(self._line, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lines) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def number_at(self, offset: int) -> int:
        """Return the index of the line that holds `offset`; the last line for the end of the file."""
        return max(0, min(bisect_right(self.starts, offset), len(self)) - 1)

    def _line(self, number: int) -> Line:
        start, after = self.starts[number], self.starts[number + 1]
        end = after
        if self._data[end - 1] == _LF:
            end -= 1
        if end > start and self._data[end - 1] == _CR:
            end -= 1
        return Line(start, end, after)


def prevailing_end(data: bytes) -> bytes:
    """Return the line end that most lines have; LF where there is none."""
    both = data.count(b"\r\n")
    ends = {b"\n": data.count(b"\n") - both, b"\r\n": both, b"\r": data.count(b"\r") - both}
    return max(ends, key=lambda end: ends[end])
