"""Small verified edits of what is there: fields, cells, checkboxes, items, sections, front matter."""

import re
from collections.abc import Iterable, Mapping

from tickets.markdown._damage import absent, check_bytes
from tickets.markdown._front_matter import changed_front, inserted_front
from tickets.markdown._replacing import Span, all_replaced, encoded, grown, refusal, replaced, unread
from tickets.markdown._tables import (
    Cell,
    cell,
    differs_in,
    spelled,
    table,
    tables,
)
from tickets.markdown.document import Document, Item, parse
from tickets.markdown.sections import Part, field
from tickets.problems import MarkdownError, Problem

# Left as text until an edit needs them: to compile what a reader imports takes a tenth of its time.
_PERCENT = r"\d+(?:\.\d+)?(?=\s*%)"
_BAR = r"\[([#=█▓>]*)([-.░ _]*)\]"


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
    after = replaced(document, found.start, found.end, (" " if glued else "") + value)
    again = field(after, grown(part, len(after.data) - len(document.data)), key)
    if again is None or again.value != value:
        raise unread(document, found.start, value)
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
            raise unread(document, old.start, value)
        blank = old.start == old.end
        spans.append(Span(old.low, old.high, f" {written} ") if blank else Span(old.start, old.end, written))
    after = all_replaced(document, spans)
    inside = tables(after, grown(part, len(after.data) - len(document.data))) if spans else ()
    again = next((one for one in inside if one.start == found.start), None)
    if spans and (again is None or not differs_in(found, again, wanted)):
        old, value = next(iter(wanted.items()))
        raise unread(document, old.start, value)
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
    return replaced(document, item.box, item.box + 1, "x" if done else " ")


def set_item(document: Document, item: Item, text: str) -> Document:
    """Set an item's own text; its mark, checkbox and nested items stay."""
    return set_items(document, ((item, text),))


def set_items(document: Document, wanted: Iterable[tuple[Item, str]]) -> Document:
    """Set the own text of several items in one edit."""
    spans: list[Span] = []
    said: list[tuple[Item, int, str]] = []
    moved = 0
    for item, text in sorted(wanted, key=lambda one: one[0].start):
        if document.text(item.text_start, item.text_end) == text:
            continue
        glued = text and document.data[item.text_start - 1 : item.text_start] not in {b" ", b"\t"}
        span = Span(item.text_start, item.text_end, f" {text}" if glued else text)
        spans.append(span)
        said.append((item, item.start + moved, text))
        moved += len(encoded(document, item.start, span.text)) - (span.end - span.start)
    after = all_replaced(document, spans)
    found = {item.start: item for item in after.items} if spans else {}
    for item, start, text in said:
        again = found.get(start)
        wished = (" ".join(text.split()), item.done, item.depth)
        if again is None or (again.text, again.done, again.depth) != wished:
            raise unread(document, item.start, text)
    return after


def set_text(document: Document, start: int, end: int, text: str) -> Document:
    """Replace a range of plain text inside one line."""
    if document.text(start, end) == text:
        return document
    return replaced(document, start, end, text)


def set_lines(document: Document, start: int, end: int, text: str) -> Document:
    """Replace whole lines of list items by others, as those of a key with all that is nested below it."""
    if document.data[start:end] == encoded(document, start, text):
        return document
    return replaced(document, start, end, text, blocks=True)


def set_section(document: Document, part: Part, text: str) -> Document:
    """Replace a section's content, its sub-sections too; the blanks and `---` below it stay."""
    new = f"\n{text.strip()}\n"
    if part.content_end == part.body < len(document.data):
        new = new.removesuffix("\n")
    limit = 6 if part.level == 1 else part.level  # below the header any heading starts a section
    if any(one.level <= limit for one in parse(encoded(document, part.start, new), document.place).headings):
        raise refusal(document, part.start, f"a heading in the new text would end `{part.title}`")
    return replaced(document, part.body, part.content_end, new, blocks=True)


def set_front(document: Document, *path: str, value: str) -> Document:
    """Set a scalar of the front matter to `value`, in the quoting it had."""
    start, end, new = changed_front(document.data, document.front, document.place, path, value)
    if document.data[start:end] == new:
        return document
    return _with_front(document, start, end, new)


def insert_front(document: Document, after: str | None, key: str, value: str) -> Document:
    """Add a key to the front matter, in double quotes, below the key `after`; on top where that is None."""
    at, line = inserted_front(document.data, document.front, document.place, (after, key), value)
    return _with_front(document, at, at, line)


def _with_front(document: Document, start: int, end: int, new: bytes) -> Document:
    check_bytes(document)
    after = parse(document.data[:start] + new + document.data[end:], document.place)
    if after.front is None or document.data[document.body :] != after.data[after.body :]:
        raise refusal(document, start, "the front matter would end elsewhere")
    return after
