"""Lines of a file as it stands: their places, their own ends, and the end that prevails."""

import re
from bisect import bisect_right
from typing import NamedTuple

# Not `splitlines`: it also splits on form feed, NEL and U+2028, which are text inside a line.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_END = re.compile(rb"\r\n|\n|\r")


class Line(NamedTuple):
    """One line: `data[start:end]` without its end, `data[start:after]` with it."""

    start: int
    end: int
    after: int


def split(data: bytes) -> tuple[Line, ...]:
    """Split at CRLF, LF and lone CR."""
    found = []
    for match in _LINE.finditer(data):
        start, after = match.span()
        found.append(Line(start, start + len(data[start:after].rstrip(b"\r\n")), after))
    return tuple(found)


def number_at(lines: tuple[Line, ...], offset: int) -> int:
    """Give the index of the line that holds `offset`; the last line for the end of the file."""
    return max(0, bisect_right(lines, offset, key=lambda line: line.start) - 1)


def prevailing_end(data: bytes) -> bytes:
    """Give the line end that most lines have; LF where there is none."""
    ends = _END.findall(data)
    return max((b"\n", b"\r\n", b"\r"), key=ends.count)
