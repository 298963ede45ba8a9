"""Small verified edits: everything outside the edited span reads as before, or the edit is refused."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from tickets.markdown._damage import absent, check_bytes, check_place, unclosed
from tickets.markdown._front_matter import changed_front
from tickets.markdown._tables import Cell, cell, differs_in, spelled, table, tables
from tickets.markdown.document import Document, Item, parse
from tickets.markdown.sections import Part, field, trailer_start
from tickets.problems import MarkdownError, Problem

# Left as text until an edit needs them: to compile what a reader imports takes a tenth of its time.
_PERCENT = r"\d+(?:\.\d+)?(?=\s*%)"
_BAR = r"\[([#=█▓>]*)([-.░ _]*)\]"


class _Span(NamedTuple):
    """A range of bytes, and the text that replaces it."""

    start: int
    end: int
    text: str


def set_field(document: Document, part: Part, key: str, value: str) -> Document:
    """Set a field to `value` (one line; pass foreign text through `one_line`); its spelling is kept."""
    found = field(document, part, key)
    if found is None:
        where = f" in `{part.title}`" if part.title else ""
        what = f"no field `{key}`{where}, so it was not updated"
        raise absent(document, part.line, f"field `{key}`", what)
    if found.value == value:
        return document
    glued = value and document.data[found.start - 1 : found.start] in {b":", b"*"}
    after = _replaced(document, found.start, found.end, (" " if glued else "") + value)
    again = field(after, _grown(part, len(after.data) - len(document.data)), key)
    if again is None or again.value != value:
        raise _unread(document, found.start, value)
    return after


def set_cell(
    document: Document, part: Part, row: str | int, column: str, value: str, *, ordinal: int | None = None
) -> Document:
    """Set one cell of a section's table to `value`, as `set_cells` sets several."""
    return set_cells(document, part, {row: {column: value}}, ordinal=ordinal)


def set_cells(
    document: Document,
    part: Part,
    values: Mapping[str | int, Mapping[str, str]],
    *,
    ordinal: int | None = None,
) -> Document:
    """Set cells of a section's table, by row and column, in one edit.

    A row is its first cell's text or its index from 0, a column its title, `ordinal` the table's number from
    0 where the section has several. A `|` in a value is escaped, two lines are refused. Raises MarkdownError
    for a row that has not one cell for each column.
    """
    found = table(document, part, ordinal)
    wanted = {
        cell(document, found, row, column): value
        for row, cells in values.items()
        for column, value in cells.items()
    }
    wanted = {old: value for old, value in sorted(wanted.items(), key=_start) if old.text != value}
    spans = []
    for old, value in wanted.items():
        written = spelled(value)
        if written is None:
            raise _unread(document, old.start, value)
        blank = old.start == old.end
        spans.append(
            _Span(old.low, old.high, f" {written} ") if blank else _Span(old.start, old.end, written)
        )
    after = _all_replaced(document, spans)
    inside = tables(after, _grown(part, len(after.data) - len(document.data))) if spans else ()
    again = next((one for one in inside if one.start == found.start), None)
    if spans and (again is None or not differs_in(found, again, wanted)):
        old, value = next(iter(wanted.items()))
        raise _unread(document, old.start, value)
    return after


def _start(cell_and_value: tuple[Cell, str]) -> int:
    return cell_and_value[0].start


def set_percent(document: Document, part: Part, key: str, percent: int) -> Document:
    """Change the percentage in a field's value, and a bar such as `[##--]`; all other words stay."""
    found = field(document, part, key)
    if found is None or not re.search(_PERCENT, found.value):
        what = f"no field `{key}` with a percentage, so it was not updated"
        raise absent(document, part.line, f"field `{key}`", what)
    if not 0 <= percent <= 100:
        what = f"{percent} is not a percentage, so `{key}` was not updated"
        raise MarkdownError(Problem(f"{document.place}:{found.line}", what, "give 0 to 100"))

    def bar(match: re.Match[str]) -> str:
        width = len(match[1]) + len(match[2])
        full = (width * percent + 50) // 100
        return f"[{(match[1][:1] or '#') * full}{(match[2][:1] or '-') * (width - full)}]"

    value = re.sub(_PERCENT, lambda _: str(percent), found.value, count=1)
    return set_field(
        document, part, key, re.sub(_BAR, bar, value, count=1) if re.search(_BAR, value) else value
    )


def set_checkbox(document: Document, item: Item, *, done: bool) -> Document:
    """Tick or untick one item. Raises MarkdownError where it has no checkbox."""
    if item.box is None:
        raise MarkdownError(
            Problem(f"{document.place}:{item.line}", f"`{item.text}` has no checkbox", "add one")
        )
    if item.done is done:
        return document
    return _replaced(document, item.box, item.box + 1, "x" if done else " ")


def set_item(document: Document, item: Item, text: str) -> Document:
    """Set an item's own text; its mark, checkbox and nested items stay."""
    return set_items(document, ((item, text),))


def set_items(document: Document, wanted: Iterable[tuple[Item, str]]) -> Document:
    """Set the own text of several items in one edit."""
    spans: list[_Span] = []
    said: list[tuple[Item, int, str]] = []
    moved = 0
    for item, text in sorted(wanted, key=lambda one: one[0].start):
        if document.text(item.text_start, item.text_end) == text:
            continue
        glued = text and document.data[item.text_start - 1 : item.text_start] not in {b" ", b"\t"}
        span = _Span(item.text_start, item.text_end, f" {text}" if glued else text)
        spans.append(span)
        said.append((item, item.start + moved, text))
        moved += len(_bytes(document, item.start, span.text)) - (span.end - span.start)
    after = _all_replaced(document, spans)
    found = {item.start: item for item in after.items} if spans else {}
    for item, start, text in said:
        again = found.get(start)
        wished = (" ".join(text.split()), item.done, item.depth)
        if again is None or (again.text, again.done, again.depth) != wished:
            raise _unread(document, item.start, text)
    return after


def set_text(document: Document, start: int, end: int, text: str) -> Document:
    """Replace a range of plain text inside one line."""
    if document.text(start, end) == text:
        return document
    return _replaced(document, start, end, text)


def remove_items(document: Document, gone: Iterable[Item]) -> Document:
    """Remove whole items, with those nested below them."""
    spans: list[tuple[int, int]] = []
    for item in sorted(gone, key=lambda one: one.start):
        start = document.lines[document.line_at(item.start) - 1].start
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], item.end))
        else:
            spans.append((start, item.end))
    return _all_replaced(document, [_Span(start, end, "") for start, end in spans])


def add_entry(document: Document, entry: str) -> Document:
    """Insert a dated entry above the newest one, or below the header where there is none yet.

    `entry` is an H2 with its content; a `---` line divides it from what follows.
    """
    first = next((found.start for found in document.headings if found.level == 2), None)
    if first is not None:
        return insert(document, first, f"{entry}\n\n---\n\n")
    return append_section(document, entry)


def append_section(document: Document, text: str) -> Document:
    """Append a section: before an end-of-file trailer, else at the end. All other bytes stay."""
    trailer = trailer_start(document)
    stop = len(document.data) if trailer is None else trailer
    at = document.body
    for line in reversed([one for one in document.lines if document.body <= one.start < stop]):
        blank = not document.data[line.start : line.end].strip()
        if not blank and not (trailer is not None and line.start in document.rules):
            at = line.after
            break
    lead = "\n---\n\n" if document.data[document.body : at].strip() else ""
    tail = "\n" if trailer is not None and at == trailer else ""
    return insert(document, at, f"{lead}{text}\n{tail}")


def set_section(document: Document, part: Part, text: str) -> Document:
    """Replace a section's content, its sub-sections too; the blanks and `---` below it stay."""
    new = f"\n{text.strip()}\n"
    if part.content_end == part.body < len(document.data):
        new = new.removesuffix("\n")
    limit = 6 if part.level == 1 else part.level  # below the header any heading starts a section
    if any(one.level <= limit for one in parse(_bytes(document, part.start, new), document.place).headings):
        raise _refusal(document, part.start, f"a heading in the new text would end `{part.title}`")
    return _replaced(document, part.body, part.content_end, new, blocks=True)


def insert(document: Document, at: int, text: str) -> Document:
    """Insert whole lines at the line start `at`, in the file's own line end."""
    if not text:
        return document
    if at != document.body and at not in {len(document.data), document.lines[document.line_at(at) - 1].start}:
        raise _refusal(document, at, "the place is inside a line")
    new = text if text.endswith("\n") else text + "\n"
    last = document.lines[-1:]
    if at == len(document.data) and last and last[0].start < last[0].end == last[0].after:
        # The last line has no end: give it one, and leave the file without a final one as it was.
        new = "\n" + new.removesuffix("\n")
    return _replaced(document, at, at, new, blocks=True)


def set_front(document: Document, *path: str, value: str) -> Document:
    """Set a scalar of the front matter to `value`, in the quoting it had."""
    start, end, new = changed_front(document.data, document.front, document.place, path, value)
    if document.data[start:end] == new:
        return document
    check_bytes(document)
    after = parse(document.data[:start] + new + document.data[end:], document.place)
    if after.front is None or document.data[document.body :] != after.data[after.body :]:
        raise _refusal(document, start, "the front matter would end elsewhere")
    return after


def _bytes(document: Document, at: int, text: str) -> bytes:
    """Return new text as bytes with the file's own line end. Raises MarkdownError where it has none."""
    try:
        new = text.encode()
    except UnicodeEncodeError:
        raise _refusal(document, at, "the new text holds half a character") from None
    if b"\0" in new:
        raise _refusal(document, at, "the new text holds a NUL byte")
    # The file's line end is counted from all of it: to ask for each of many spans is quadratic.
    return new.replace(b"\n", document.newline) if b"\n" in new else new


def _replaced(document: Document, start: int, end: int, text: str, *, blocks: bool = False) -> Document:
    """Replace one span. `blocks`: the new text may hold headings and code of its own."""
    return _all_replaced(document, (_Span(start, end, text),), blocks=blocks)


def _all_replaced(document: Document, spans: Sequence[_Span], *, blocks: bool = False) -> Document:
    """Replace ordered spans that do not touch, as one edit: the whole file is verified.

    Raises MarkdownError where anything outside the spans would read differently than before.
    """
    if not spans:
        return document
    # Where code that nothing closes begins before one of them, it begins before the last.
    check_place(document, spans[-1].start, spans[-1].end)
    if not blocks and any("\n" in span.text or "\r" in span.text for span in spans):
        raise _refusal(document, spans[0].start, "the new text is more than one line")
    news = [_bytes(document, span.start, span.text) for span in spans]
    moves = _Moves(spans, news)
    after = parse(moves.joined(document.data), document.place)
    first, new = spans[0].start, news[0]
    # Front matter at the very end of a file gains the line end that its last line lacked.
    ended = document.newline if document.front and first == document.body == len(document.data) else b""
    bodies = {document.body, document.body + (len(ended) if new.startswith(ended) else 0)}
    if (after.front is None) is not (document.front is None) or after.body not in bodies:
        raise _refusal(document, first, "the front matter would change")
    expected = [
        (kind, name, moves.begin(start), moves.end(end))
        for kind, name, start, end in _landmarks(document, () if blocks else moves.old)
        if not moves.covers(start, end)
    ]
    if blocks:
        for text, (at, _) in zip(news, moves.new, strict=True):
            own = _landmarks(parse(text, document.place))
            expected += [(kind, name, start + at, end + at) for kind, name, start, end in own]
    found = _landmarks(after, () if blocks else moves.new)
    if sorted(expected) != found:
        odd = sorted(set(expected) ^ set(found), key=lambda mark: mark[2])
        name = f"{odd[0][0]} `{odd[0][1]}`" if odd and odd[0][1] else odd[0][0] if odd else "a block"
        raise _refusal(document, first, f"{name} would begin, end or vanish")
    if blocks and unclosed(after) and not unclosed(document):
        raise _refusal(document, first, "the new text opens code, a comment or a tag that it does not close")
    return after


def _grown(part: Part, by: int) -> Part:
    """Return a part after an edit of its own content."""
    own, words, content, end = (
        at + by for at in (part.own_end, part.own_content_end, part.content_end, part.end)
    )
    return part._replace(own_end=own, own_content_end=words, content_end=content, end=end)


def _unread(document: Document, at: int, value: str) -> MarkdownError:
    return _refusal(document, at, f"{value!r} would not be read back as it is")


def _landmarks(document: Document, spans: Sequence[tuple[int, int]] = ()) -> list[tuple[str, str, int, int]]:
    """Return what an edit elsewhere must not move: headings, code, HTML, tables, quotes, list items.

    Items that hold one of the spans are omitted: their text is meant to change.
    """
    marks = [(f"heading {one.level}", one.title, one.start, one.end) for one in document.headings]
    marks += [(one.kind, "", one.start, one.end) for one in document.blocks if one.kind != "rule"]
    data = document.data
    marks = [(kind, name, first, first + len(data[first:last].rstrip())) for kind, name, first, last in marks]
    for item in document.items:
        if not _holds(data, item, spans):
            kind = f"item{' with a box' if item.done is not None else ''}"
            marks.append((kind, item.text, item.start, item.start + 1))
    return sorted(marks)


def _refusal(document: Document, at: int, why: str) -> MarkdownError:
    place = f"{document.place}:{document.line_at(at)}"
    return MarkdownError(Problem(place, f"this edit was not made: {why}", "fix the lines around it by hand"))


class _Moves:
    """How far a set of replacements shifts each offset; the spans are in order and do not touch."""

    def __init__(self, spans: Sequence[_Span], news: Sequence[bytes]) -> None:
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
