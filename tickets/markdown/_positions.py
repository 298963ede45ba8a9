"""Where things stand after several spans of a file were replaced at once."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tickets.markdown.document import Item


class Span(NamedTuple):
    """A stretch of bytes, and the text that takes its place."""

    start: int
    end: int
    text: str


class Moves:
    """How far a set of replacements shifts each place; the spans stand in order and touch nowhere."""

    def __init__(self, spans: Sequence[Span], news: Sequence[bytes]) -> None:
        """Keep the spans, and their new texts as bytes."""
        self._spans, self._news = spans, news
        self._starts = [span.start for span in spans]
        self._ends = [span.end for span in spans]
        grown = (len(new) - (span.end - span.start) for span, new in zip(spans, news, strict=True))
        self._by = [*accumulate(grown, initial=0)]
        self.old = [*zip(self._starts, self._ends, strict=True)]
        """The spans as they stand in the old file."""
        starts = [start + by for start, by in zip(self._starts, self._by, strict=False)]
        self.new = [(start, start + len(new)) for start, new in zip(starts, news, strict=True)]
        """What took their places, as it stands in the new one."""

    def joined(self, data: bytes) -> bytes:
        """Return the new file."""
        pieces, at = [], 0
        for span, new in zip(self._spans, self._news, strict=True):
            pieces += [data[at : span.start], new]
            at = span.end
        return b"".join([*pieces, data[at:]])

    def begin(self, at: int) -> int:
        """Return where something begins that began at `at`, behind what was put in there."""
        return at + self._by[bisect_right(self._ends, at)]

    def end(self, at: int) -> int:
        """Return where something ends that ended at `at`, before what was put in there."""
        return at + self._by[bisect_left(self._starts, at)]

    def covers(self, start: int, end: int) -> bool:
        """Return whether one span holds all of a stretch, so that it is gone."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at] and start < self._ends[at]


def holds(item: Item, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of some spans, in order, stands behind the start of an item and inside it."""
    at = bisect_right(spans, item.start, key=lambda span: span[0])
    if at == len(spans):
        return False
    # The first one behind its start: where that reaches past the item, all others do.
    start, end = spans[at]
    return start < max(item.end, item.text_end + 1) and end <= item.end
