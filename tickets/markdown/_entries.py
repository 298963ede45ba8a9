"""What comes and goes: rows of tables, items of lists, entries and sections. Each edit is verified."""

from collections.abc import Iterable, Mapping, Sequence

from tickets.markdown._replacing import Span, all_replaced, encoded, grown, refusal, replaced, unread
from tickets.markdown._tables import Table, row_index, row_of, spelled, table, tables, texts_of
from tickets.markdown.document import Document, Item, parse
from tickets.markdown.sections import Part, items, trailer_start


def add_row(
    document: Document,
    part: Part,
    cells: Mapping[str, str],
    *,
    before: str | int | None = None,
    ordinal: int | None = None,
) -> Document:
    """Add a row to a section's table, as `add_rows` adds several."""
    return add_rows(document, part, (cells,), before=before, ordinal=ordinal)


def add_rows(
    document: Document,
    part: Part,
    rows: Iterable[Mapping[str, str]],
    *,
    before: str | int | None = None,
    ordinal: int | None = None,
) -> Document:
    """Add rows to a section's table, in one edit: cells by column title, `-` in all other columns.

    They become the last ones, or stand above the row `before`; `ordinal` is as for `set_cell`. Raises
    MarkdownError for a column that is not there, and for a value that would not be read back as it is.
    """
    found = table(document, part, ordinal)
    new = [row_of(document, found, cells) for cells in rows]
    at = len(found.rows) if before is None else row_index(document, found, before)
    above = document.lines[found.rows[at - 1].line - 1 if at else found.header.line]
    start = document.lines[found.header.line - 1].start
    indent = document.text(start, found.start)
    lines = []
    for texts in new:
        written = [spelled(text) for text in texts]
        for text, spelling in zip(texts, written, strict=True):
            if spelling is None or "\n" in text or "\r" in text:
                raise unread(document, above.start, text)
        lines.append(f"{indent}| {' | '.join(map(str, written))} |")
    after = _inserted(document, above.after, "\n".join(lines), grid=found.start)
    wanted = texts_of(found)
    wanted[at + 1 : at + 1] = [(texts, None) for texts in new]
    _check_table(document, after, part, found, wanted)
    return after


def remove_rows(
    document: Document, part: Part, rows: Iterable[str | int], *, ordinal: int | None = None
) -> Document:
    """Remove rows of a section's table, each named as for `set_cell`; its header stays."""
    found = table(document, part, ordinal)
    gone = {row_index(document, found, row) for row in rows}
    lines = [document.lines[found.rows[at].line - 1] for at in sorted(gone)]
    spans = _together((line.start, line.after) for line in lines)
    after = all_replaced(document, spans, grid=found.start)
    kept = [one for at, one in enumerate(texts_of(found), -1) if at not in gone]
    _check_table(document, after, part, found, kept)
    return after


def _check_table(
    document: Document,
    after: Document,
    part: Part,
    before: Table,
    wanted: Sequence[tuple[list[str], str | None]],
) -> None:
    """Raise MarkdownError where a table does not read as it should after an edit of its rows."""
    inside = tables(after, grown(part, len(after.data) - len(document.data)))
    again = next((one for one in inside if one.start == before.start), None)
    if again is None or texts_of(again) != wanted:
        raise refusal(document, before.start, "the rows of the table would not be read back as they are")


def add_items(document: Document, part: Part, lines: Sequence[str]) -> Document:
    """Add list lines behind the last item of a section, else below its text; `- ` becomes its mark.

    The line `None.` of a section without items goes with the first one.
    """
    if not lines:
        return document
    nothing = _nothing(document, part)
    if nothing is not None:
        return replaced(document, *nothing, "\n".join(lines), blocks=True)
    own = [item for item in items(document, part) if item.depth == 0]
    mark = document.text(own[-1].start, own[-1].start + 1) if own else "-"
    if mark in "*+":
        lines = [mark + line[1:] if line.startswith("- ") else line for line in lines]
    at = max((item.end for item in own), default=part.own_content_end)
    gap = "\n" if not own and at > part.body else ""
    starts = {document.lines[document.line_at(item.start) - 1].start for item in document.items}
    below = document.data[at:].splitlines()[:1]
    # A paragraph right below would read on as the last line's own text.
    tail = "\n\n" if below and below[0].strip() and at not in starts and at < part.own_end else ""
    return insert(document, at, gap + "\n".join(lines) + tail)


def take_items(document: Document, part: Part, gone: Iterable[Item]) -> Document:
    """Remove whole items of a section, with those nested below them; `None.` comes with the last of them."""
    spans = _together(_lines_of(document, item) for item in gone)
    own = [item for item in items(document, part) if item.depth == 0]

    def is_gone(item: Item) -> bool:
        return any(span.start <= item.start < span.end for span in spans)

    if not spans or not all(map(is_gone, own)):
        return all_replaced(document, spans)
    *others, last = spans
    above, line = (document.lines[document.lines.number_at(at - 1)] for at in (last.start, last.end))
    # It is a paragraph of its own, and keeps the line end of the last item.
    is_free = last.start == part.body or not document.data[above.start : above.end].strip()
    below = document.data[last.end :].splitlines()[:1]
    text = ("" if is_free else "\n") + "None." + ("\n" if below and below[0].strip() else "")
    last = Span(last.start, line.end, text)
    return all_replaced(document, [*others, last], blocks=True)


def remove_items(document: Document, gone: Iterable[Item]) -> Document:
    """Remove whole items, with those nested below them."""
    return all_replaced(document, _together(_lines_of(document, item) for item in gone))


def add_section(document: Document, part: Part, text: str) -> Document:
    """Add a section (a heading with its content) below another, as its last one; its line `None.` goes."""
    own = parse(encoded(document, part.start, text), document.place).headings
    if any(one.level <= part.level for one in own):
        raise refusal(document, part.start, f"a heading in the new text would end `{part.title}`")
    nothing = _nothing(document, part)
    if nothing is not None:
        return replaced(document, *nothing, text.strip("\n"), blocks=True)
    return insert(document, part.content_end, f"\n{text}")


def _nothing(document: Document, part: Part) -> tuple[int, int] | None:
    """Return where the line `None.` of a section without items is: a paragraph of its own."""
    if items(document, part):
        return None
    lines = [one for one in document.lines if part.body <= one.start < part.own_end]
    texts = [document.data[one.start : one.end].strip() for one in lines]
    for line, above, text, below in zip(lines, [b"", *texts], texts, [*texts[1:], b""], strict=False):
        is_alone = not above and not below and document.opaque_at(line.start) is None
        if is_alone and text == b"None.":
            return line.start, line.end
    return None


def _lines_of(document: Document, item: Item) -> tuple[int, int]:
    return document.lines[document.line_at(item.start) - 1].start, item.end


def _together(ranges: Iterable[tuple[int, int]]) -> list[Span]:
    """Return what is to be removed, in order, as spans that do not touch."""
    spans: list[Span] = []
    for start, end in sorted(ranges):
        if spans and start <= spans[-1].end:
            spans[-1] = spans[-1]._replace(end=max(spans[-1].end, end))
        else:
            spans.append(Span(start, end, ""))
    return spans


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


def insert(document: Document, at: int, text: str) -> Document:
    """Insert whole lines at the line start `at`, in the file's own line end."""
    return _inserted(document, at, text)


def _inserted(document: Document, at: int, text: str, *, grid: int | None = None) -> Document:
    if not text:
        return document
    if at != document.body and at not in {len(document.data), document.lines[document.line_at(at) - 1].start}:
        raise refusal(document, at, "the place is inside a line")
    new = text if text.endswith("\n") else text + "\n"
    last = document.lines[-1:]
    if at == len(document.data) and last and last[0].start < last[0].end == last[0].after:
        # The last line has no end: give it one, and leave the file without a final one as it was.
        new = "\n" + new.removesuffix("\n")
    return all_replaced(document, (Span(at, at, new),), blocks=True, grid=grid)
