"""Tables: cells by the text of their row and column. A row that does not fit its header is refused."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tickets.markdown._damage import absent
from tickets.markdown._text import plain, span_end
from tickets.markdown.document import Document, Grid, Row
from tickets.markdown.sections import Part
from tickets.problems import MarkdownError, Problem
from tickets.wording import count_of

_PIPE = rb"(?<!\\)\|"
# Programs differ: some read the two backslashes as one and the pipe as the end of the cell, some do not.
_UNCLEAR = rb"\\\\\|"


class Cell(NamedTuple):
    """A cell: `start` to `end` is its text without the blanks around it, `low` to `high` is all of it."""

    text: str
    start: int
    end: int
    low: int
    high: int


class TableRow(NamedTuple):
    """A row; `problem` tells why its cells cannot be told apart, and is None where they can."""

    cells: tuple[Cell, ...]
    line: int
    problem: str | None


class Table(NamedTuple):
    """A table: its column titles, and the rows below them."""

    columns: tuple[str, ...]
    header: TableRow
    rows: tuple[TableRow, ...]
    start: int
    line: int


_DOCUMENTS = 4
_known: dict[int, tuple[Document, dict[int, Table]]] = {}
"""The tables of the documents that were asked last, by identity: an edit asks several times for the same."""


def tables(document: Document, part: Part) -> tuple[Table, ...]:
    """Return the tables of a section's own content, without those in quotes."""
    inside = [grid for grid in document.grids if part.body <= grid.start < part.own_end]
    known = _tables_of(document) if inside else {}
    for grid in inside:
        if grid.start not in known:
            known[grid.start] = _table(document, grid)
    return tuple(known[grid.start] for grid in inside)


def _tables_of(document: Document) -> dict[int, Table]:
    kept = _known.get(id(document))
    if kept is not None and kept[0] is document:
        return kept[1]
    while len(_known) >= _DOCUMENTS:
        _known.pop(next(iter(_known), 0), None)
    found: dict[int, Table] = {}
    _known[id(document)] = (document, found)
    return found


def table(document: Document, part: Part, ordinal: int | None = None) -> Table:
    """Return a section's one table, or the one with that number from 0. Raises MarkdownError."""
    found = tables(document, part)
    where = f"`{part.title}`" if part.title else "the header"
    if ordinal is not None and 0 <= ordinal < len(found):
        return found[ordinal]
    if ordinal is None and len(found) == 1:
        return found[0]
    if not found:
        raise absent(document, part.line, f"the table of {where}", f"no table in {where}")
    lines = " and ".join(f"line {one.line}" for one in found)
    many = count_of(len(found), "table")
    what = f"{where} holds {many} ({lines})" + ("" if ordinal is None else f", so none with number {ordinal}")
    raise MarkdownError(
        Problem(f"{document.place}:{found[0].line}", what, "choose one by its number, from 0")
    )


def cell(document: Document, found: Table, row: str | int, column: str) -> Cell:
    """Return one cell: row by its first cell's text or index, column by title. Raises MarkdownError."""
    number = _column_index(document, found, column)
    return found.rows[row_index(document, found, row)].cells[number]


def row_index(document: Document, found: Table, row: str | int) -> int:
    """Return the index of a row, named by its whole first cell or by its index. Raises MarkdownError."""
    if isinstance(row, str):
        names = [one.cells[0].text for one in found.rows]
        row = _one(document, names, row, "row", [one.line for one in found.rows])
    elif not 0 <= row < len(found.rows):
        what = f"the table has {count_of(len(found.rows), 'row')}, so none with index {row}"
        raise MarkdownError(Problem(f"{document.place}:{found.line}", what, "count them from 0"))
    _refuse_ragged(document, found.rows[row])
    return row


def row_of(document: Document, found: Table, cells: Mapping[str, str]) -> list[str]:
    """Return the texts of a new row: cells by column title, `-` in the others. Raises MarkdownError."""
    texts = ["-"] * len(found.columns)
    _refuse_ragged(document, found.header)
    for column, text in cells.items():
        texts[_column_index(document, found, column)] = text
    return texts


def _column_index(document: Document, found: Table, column: str) -> int:
    _refuse_ragged(document, found.header)
    return _one(document, found.columns, column, "column", [found.header.line] * len(found.columns))


def spelled(value: str) -> str | None:
    """Return a value as it is written into a cell, or None where no spelling is read alike everywhere."""
    written = value.replace("|", "\\|")
    return None if "\\\\|" in written else written


def differs_in(before: Table, after: Table, values: Mapping[Cell, str]) -> bool:
    """Return whether `after` differs from `before` in some cells alone, whose texts are these values."""
    wanted = [
        ([values.get(found, found.text) for found in row.cells], row.problem)
        for row in (before.header, *before.rows)
    ]
    return wanted == texts_of(after)


def texts_of(found: Table) -> list[tuple[list[str], str | None]]:
    """Return the texts of all rows, the header first, each with why its cells cannot be told apart."""
    return [([one.text for one in row.cells], row.problem) for row in (found.header, *found.rows)]


def _table(document: Document, grid: Grid) -> Table:
    width = len(grid.rows[0].cells)
    header, *rows = (_row(document, row, width) for row in grid.rows)
    columns = tuple(one.text for one in header.cells)
    return Table(columns, header, tuple(rows), grid.start, header.line)


def _row(document: Document, row: Row, width: int) -> TableRow:
    cells = tuple(_cell(document, low, high) for low, high in row.cells)
    text = document.data[row.start : row.end].rstrip()
    return TableRow(cells, document.line_at(row.start), _fault(text, row, width))


def _cell(document: Document, low: int, high: int) -> Cell:
    raw = document.data[low:high]
    start = low + len(raw) - len(raw.lstrip(b" \t"))
    end = max(start, low + len(raw.rstrip(b" \t\r\n")))
    return Cell(document.text(start, end).replace("\\|", "|"), start, end, low, high)


def _fault(text: bytes, row: Row, width: int) -> str | None:
    """Describe why the cells of a row cannot be trusted: they are counted apart from the parser."""
    if re.search(_UNCLEAR, text):
        return "has a backslash before an escaped pipe, which programs read differently"
    line = text.decode()
    at = 0
    while (at := line.find("`", at)) >= 0:
        escaped = (at - len(line[:at].rstrip("\\"))) % 2
        end = None if escaped else span_end(line, at)
        if end and re.search(_PIPE, line[at:end].encode()):
            return f"has an unescaped pipe in the code span {line[at:end]}"
        # Past a run that nothing closes as a whole, or its rest would be read as a shorter one.
        at = end or at + (1 if escaped else len(line[at:]) - len(line[at:].lstrip("`")))
    pipes = [match.start() for match in re.finditer(_PIPE, text)]
    edges = [0, *(at + 1 for at in pipes)]
    stops = [*pipes, len(text)]
    if pipes and pipes[0] == 0:
        edges, stops = edges[1:], stops[1:]
    if pipes and pipes[-1] == len(text) - 1:
        edges, stops = edges[:-1], stops[:-1]
    if len(edges) != width:
        return f"has {len(edges)} cells where the header has {width}"
    if edges != [low - row.start for low, _ in row.cells]:
        return "cannot be told apart into cells"
    return None


def _refuse_ragged(document: Document, row: TableRow) -> None:
    if row.problem:
        place = f"{document.place}:{row.line}"
        do = "give the row one cell for each column, and write a pipe that is text as `\\|`"
        raise MarkdownError(Problem(place, f"the row {row.problem}, so it was not updated", do))


def _one(
    document: Document, names: tuple[str, ...] | list[str], name: str, kind: str, lines: list[int]
) -> int:
    """Return the index of the one name that matches: literally, else without markup and case."""
    same = [at for at, one in enumerate(names) if one == name]
    same = same or [at for at, one in enumerate(names) if _bare(one) == _bare(name)]
    if len(same) == 1:
        return same[0]
    if same:
        where = " and ".join(f"line {lines[at]}" for at in same)
        what = f"{kind} `{name}` is there {len(same)} times ({where}), so it was not updated"
        do = "give each a name of its own"
        raise MarkdownError(Problem(f"{document.place}:{lines[same[0]]}", what, do))
    place = f"{document.place}:{lines[0]}" if lines else document.place
    known = ", ".join(f"`{one}`" for one in names[:8]) or "none"
    raise MarkdownError(Problem(place, f"no {kind} `{name}`, so it was not updated", f"there are {known}"))


def _bare(text: str) -> str:
    return plain(text).strip("*_` ").casefold()
