"""Verified replacement of spans: everything outside them reads as before, or the edit is refused."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tickets.markdown._damage import check_place, unclosed
from tickets.markdown.document import Document, Item, parse
from tickets.markdown.sections import Part
from tickets.problems import MarkdownError, Problem


class Span(NamedTuple):
    """A range of bytes, and the text that replaces it."""

    start: int
    end: int
    text: str


def replaced(document: Document, start: int, end: int, text: str, *, blocks: bool = False) -> Document:
    """Replace one span. `blocks`: the new text may hold headings and code of its own."""
    return all_replaced(document, (Span(start, end, text),), blocks=blocks)


def all_replaced(
    document: Document, spans: Sequence[Span], *, blocks: bool = False, grid: int | None = None
) -> Document:
    """Replace ordered spans that do not touch, as one edit: the whole file is verified.

    `grid` is the start of a table whose rows come or go: the caller verifies what it holds.
    Raises MarkdownError where anything outside the spans would read differently than before.
    """
    if not spans:
        return document
    # Where code that nothing closes begins before one of them, it begins before the last.
    check_place(document, spans[-1].start, spans[-1].end)
    if not blocks and any("\n" in span.text or "\r" in span.text for span in spans):
        raise refusal(document, spans[0].start, "the new text is more than one line")
    news = [encoded(document, span.start, span.text) for span in spans]
    moves = _Moves(spans, news)
    after = parse(moves.joined(document.data), document.place)
    first, new = spans[0].start, news[0]
    # Front matter at the very end of a file gains the line end that its last line lacked.
    ended = document.newline if document.front and first == document.body == len(document.data) else b""
    bodies = {document.body, document.body + (len(ended) if new.startswith(ended) else 0)}
    if (after.front is None) is not (document.front is None) or after.body not in bodies:
        raise refusal(document, first, "the front matter would change")
    expected = [
        (kind, name, moves.begin(start), moves.end(end))
        for kind, name, start, end in _landmarks(document, () if blocks else moves.old, grid)
        if not moves.covers(start, end)
    ]
    if blocks:
        for text, (at, _) in zip(news, moves.new, strict=True):
            own = _landmarks(parse(text, document.place))
            expected += [(kind, name, start + at, end + at) for kind, name, start, end in own]
    found = _landmarks(after, () if blocks else moves.new, grid)
    if sorted(expected) != found:
        odd = sorted(set(expected) ^ set(found), key=lambda mark: mark[2])
        name = f"{odd[0][0]} `{odd[0][1]}`" if odd and odd[0][1] else odd[0][0] if odd else "a block"
        raise refusal(document, first, f"{name} would begin, end or vanish")
    if blocks and unclosed(after) and not unclosed(document):
        raise refusal(document, first, "the new text opens code, a comment or a tag that it does not close")
    return after


def encoded(document: Document, at: int, text: str) -> bytes:
    """Return new text as bytes with the file's own line end. Raises MarkdownError where it has none."""
    try:
        new = text.encode()
    except UnicodeEncodeError:
        raise refusal(document, at, "the new text holds half a character") from None
    if b"\0" in new:
        raise refusal(document, at, "the new text holds a NUL byte")
    # The file's line end is counted from all of it: to ask for each of many spans is quadratic.
    return new.replace(b"\n", document.newline) if b"\n" in new else new


def grown(part: Part, by: int) -> Part:
    """Return a part after an edit of its own content."""
    own, words, content, end = (
        at + by for at in (part.own_end, part.own_content_end, part.content_end, part.end)
    )
    return part._replace(own_end=own, own_content_end=words, content_end=content, end=end)


def unread(document: Document, at: int, value: str) -> MarkdownError:
    return refusal(document, at, f"{value!r} would not be read back as it is")


def refusal(document: Document, at: int, why: str) -> MarkdownError:
    place = f"{document.place}:{document.line_at(at)}"
    return MarkdownError(Problem(place, f"this edit was not made: {why}", "fix the lines around it by hand"))


def _landmarks(
    document: Document, spans: Sequence[tuple[int, int]] = (), grid: int | None = None
) -> list[tuple[str, str, int, int]]:
    """Return what an edit elsewhere must not move: headings, code, HTML, tables, quotes, list items.

    Items that hold one of the spans are omitted: their text is meant to change.
    """
    marks = [(f"heading {one.level}", one.title, one.start, one.end) for one in document.headings]
    marks += [
        (one.kind, "", one.start, one.end)
        for one in document.blocks
        if one.kind != "rule" and not (one.kind == "table" and one.start == grid)
    ]
    data = document.data
    marks = [(kind, name, first, first + len(data[first:last].rstrip())) for kind, name, first, last in marks]
    for item in document.items:
        if not _holds(data, item, spans):
            kind = f"item{' with a box' if item.done is not None else ''}"
            marks.append((kind, item.text, item.start, item.start + 1))
    return sorted(marks)


class _Moves:
    """How far a set of replacements shifts each offset; the spans are in order and do not touch."""

    def __init__(self, spans: Sequence[Span], news: Sequence[bytes]) -> None:
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
        """Return the new start of something that began at `at`, behind text inserted there."""
        return at + self._by[bisect_right(self._ends, at)]

    def end(self, at: int) -> int:
        """Return the new end of something that ended at `at`, before text inserted there."""
        return at + self._by[bisect_left(self._starts, at)]

    def covers(self, start: int, end: int) -> bool:
        """Return whether one span covers all of a range, so that it is gone."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at] and start < self._ends[at]


def _holds(data: bytes, item: Item, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of some ordered spans begins behind the start of an item and ends inside it."""
    at = bisect_right(spans, item.start, key=lambda span: span[0])
    if at == len(spans):
        return False
    # The first one behind its start: where that reaches past the item, all others do.
    start, end = spans[at]
    # The last line of a file may have no line end: what is written there is the item's as well.
    behind = item.end + (data[item.end - 1 : item.end] not in (b"\n", b"\r"))
    return start < max(behind, item.text_end + 1) and end <= item.end
