"""A Markdown file as bytes, with the offsets of its elements; the only user of pyromark.

Ranges are byte offsets into the whole file, byte order mark and front matter included.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pyromark

from tickets.markdown._front_matter import Front, find_front, scalar_at
from tickets.markdown._lines import Lines, prevailing_end
from tickets.problems import MarkdownError, Problem

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_TASKLISTS
_LONE_TAG = rb"[ \t]*</?([A-Za-z][A-Za-z0-9-]*)(?:\s[^<>]*)?/?>[ \t]*$"
_ITEM_MARK = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=[\r\n]|$))")
_BOX = re.compile(rb"\[([ xX])\](?=[ \t\r\n]|$)[ \t]*")
_STARS_IN_TAG = re.compile(rb"<[^<>]*\*\*")
_LINE_END = re.compile(rb"[\r\n]")
_KINDS: dict[str, Literal["code", "html", "table", "quote"]] = {
    "CodeBlock": "code", "HtmlBlock": "html", "Table": "table", "BlockQuote": "quote",
}  # fmt: skip
# The tags that CommonMark itself starts a block with; a lone line with any other tag is a decoration.
_BLOCK_TAGS = frozenset(
    b"address article aside base basefont blockquote body caption center col colgroup dd details dialog dir "
    b"div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html "
    b"iframe legend li link main menu menuitem nav noframes ol optgroup option p param pre script search "
    b"section style summary table tbody td textarea tfoot th thead title tr track ul".split()
)


class Heading(NamedTuple):
    """A top-level heading; `title` is its text without markup."""

    level: int
    title: str
    start: int
    end: int
    line: int


class Block(NamedTuple):
    """A range whose content is not read as Markdown lines, or a line that divides."""

    kind: Literal["code", "html", "table", "rule", "quote"]
    start: int
    end: int


class Item(NamedTuple):
    """A list item. `done` is None without a checkbox; `end` is behind its last line's end."""

    text: str
    done: bool | None
    depth: int
    start: int
    end: int
    text_start: int
    text_end: int
    box: int | None
    """Where the character between the brackets stands."""
    line: int


class Row(NamedTuple):
    """A table's row as it is spelled; `cells` are the ranges between its pipes, blanks included."""

    start: int
    end: int
    cells: tuple[tuple[int, int], ...]


class Grid(NamedTuple):
    """A table outside quotes; the first row is its header, the line of dashes is no row."""

    start: int
    end: int
    rows: tuple[Row, ...]


class Document(NamedTuple):
    """One file; `data` is all of it. Made by `parse`."""

    place: str
    data: bytes
    front: Front | None
    body: int
    """Where the Markdown starts: behind byte order mark and front matter."""
    lines: Lines
    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]
    opaque: tuple[tuple[int, int], ...]
    """Code and HTML, inline or block: no text in it is a field."""
    items: tuple[Item, ...]
    grids: tuple[Grid, ...]
    rules: frozenset[int]
    """Starts of the lines that hold a thematic break."""

    @property
    def newline(self) -> bytes:
        """The prevailing line end."""
        return prevailing_end(self.data)

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds a byte, counted from 1."""
        return self.lines.number_at(offset) + 1

    def opaque_at(self, offset: int) -> tuple[int, int] | None:
        """Return the range of code or HTML that holds a byte, if there is one."""
        index = bisect_right(self.opaque, (offset, len(self.data) + 1)) - 1
        return self.opaque[index] if index >= 0 and offset < self.opaque[index][1] else None

    def text(self, start: int, end: int) -> str:
        """Return a range as text."""
        return self.data[start:end].decode()


def front_problems(document: Document) -> tuple[Problem, ...]:
    """Return the faults of a document's front matter: invalid YAML, repeated keys."""
    return () if document.front is None else document.front.problems


def front_value(document: Document, *path: str) -> str | None:
    """Return a scalar of the front matter as it is spelled (`07` stays `07`), or None where there is none."""
    return None if document.front is None else scalar_at(document.data, document.front, path)


def parse(data: bytes, place: str) -> Document:
    """Read a file. Raises MarkdownError where it is not UTF-8: such a file is never written."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = Lines(data).number_at(error.start) + 1
        what = f"byte {error.start} is not UTF-8, so the file is neither read nor written"
        raise MarkdownError(Problem(f"{place}:{line}", what, "save it as UTF-8")) from None
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    front = find_front(data, mark, place)
    body = mark if front is None else front.end
    lines = Lines(data)
    shown = _without_lone_tags(data[body:])
    walk = _Walk(data[:body] + shown, lines)
    walk.run(_without_bold(shown).decode(), body)
    rules = (lines.number_at(block.start) for block in walk.blocks if block.kind == "rule")
    return Document(
        place, data, front, body, lines,
        tuple(walk.headings), tuple(walk.blocks), tuple(walk.opaque),
        tuple(sorted(walk.items, key=lambda item: item.start)),
        tuple(Grid(start, end, tuple(rows)) for start, end, rows in walk.grids),
        frozenset(lines[number].start for number in rules),
    )  # fmt: skip


def _without_lone_tags(body: bytes) -> bytes:
    """Blank out lines that hold one unknown tag: CommonMark lets such a line swallow the heading below it."""
    if b"<" not in body:
        return body
    out = bytearray(body)
    # Only lines with a `<` are looked at: to visit each costs as much as the parse.
    at = body.find(b"<")
    while at >= 0:
        start = max(body.rfind(b"\n", 0, at), body.rfind(b"\r", 0, at)) + 1
        found = _LINE_END.search(body, at)
        end = found.start() if found else len(body)
        match = re.match(_LONE_TAG, body[start:end])
        if match and match.group(1).lower() not in _BLOCK_TAGS:
            out[start:end] = b" " * (end - start)
        at = body.find(b"<", end)
    return bytes(out)


def _without_bold(body: bytes) -> bytes:
    """Remove the strong emphasis, for the parse only: its events are half of those of a file of fields.

    Two stars mean nothing to the structure of a document, unless a third stands near (a rule, a bullet) or
    they stand in a tag.
    """
    if any(near in body for near in (b"***", b"* *", b"*\t")) or _STARS_IN_TAG.search(body):
        return body
    return body.replace(b"**", b"xx")


def _title(heading: str) -> str:
    """Return the text of one heading without its markup."""
    said = []
    event: Any
    for event in pyromark.events(heading, options=_OPTIONS):
        if isinstance(event, str):
            said.append(" ")
        else:
            name, value = event.popitem()
            said.append(value if name in {"Text", "Code"} else "")
    return "".join(said)


class _Walk:
    """Collects the offsets of elements from the stream of events."""

    def __init__(self, data: bytes, lines: Lines) -> None:
        self.data, self.lines = data, lines
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.opaque: list[tuple[int, int]] = []
        self.items: list[Item] = []
        self.grids: list[tuple[int, int, list[Row]]] = []
        self.open: list[str] = []  # lists, items and quotes
        self.title: list[str] | None = None
        self.cells: list[tuple[int, int]] = []
        self.pending: list[tuple[int, int, int]] = []  # items: start, end, where their own text ends

    def run(self, source: str, offset: int) -> None:
        """Collect all events of a body that starts at `offset`. Others cost one look-up."""
        starts: dict[str, Callable[[str, Any, int, int], None]] = {
            "CodeBlock": self._block, "HtmlBlock": self._block, "BlockQuote": self._block,
            "Table": self._block, "Heading": self._heading, "List": self._list, "Item": self._list,
            "TableCell": self._cell,
        }  # fmt: skip
        ends: dict[str, Callable[[str, int, int], None]] = {
            "BlockQuote": self._close, "List": self._close, "Item": self._item_end,
            "Heading": self._heading_end, "Paragraph": self._paragraph_end, "TableHead": self._row_end,
            "TableRow": self._row_end,
        }  # fmt: skip
        event: Any
        for event, span in pyromark.events_with_range(source, options=_OPTIONS):
            if isinstance(event, str):
                if event == "Rule":
                    self.blocks.append(Block("rule", offset + span["start"], offset + span["end"]))
                elif self.title is not None and event in {"SoftBreak", "HardBreak"}:
                    self.title.append(" ")
                continue
            name, value = event.popitem()
            if name == "Start":
                tag = value if isinstance(value, str) else next(iter(value))
                if tag in starts:
                    starts[tag](tag, value, offset + span["start"], offset + span["end"])
            elif name == "End":
                tag = value if isinstance(value, str) else next(iter(value))
                if tag in ends:
                    ends[tag](tag, offset + span["start"], offset + span["end"])
            else:
                if name in {"Code", "InlineHtml"}:
                    self.opaque.append((offset + span["start"], offset + span["end"]))
                if self.title is not None and name in {"Text", "Code"}:
                    self.title.append(value)

    def _own_text_ends(self, at: int) -> None:
        """Note that an element from or to `at` is not part of the own text of its item."""
        if self.open and self.open[-1] == "Item":
            first, last, own = self.pending[-1]
            self.pending[-1] = (first, last, min(own, at))

    def _block(self, tag: str, _: Any, start: int, end: int) -> None:
        self._own_text_ends(start)
        kind = _KINDS[tag]
        self.blocks.append(Block(kind, start, end))
        if kind in {"code", "html"}:
            self.opaque.append((start, end))
        elif kind == "quote":
            self.open.append(tag)
        elif "BlockQuote" not in self.open:
            self.grids.append((start, end, []))

    def _list(self, tag: str, _: Any, start: int, end: int) -> None:
        if tag == "List":
            self._own_text_ends(start)
        else:
            self.pending.append((start, end, end))
        self.open.append(tag)

    def _close(self, _: str, __: int, ___: int) -> None:
        self.open.pop()

    def _cell(self, _: str, __: Any, start: int, end: int) -> None:
        self.cells.append((start, end))

    def _row_end(self, _: str, start: int, end: int) -> None:
        if "BlockQuote" not in self.open:
            self.grids[-1][2].append(Row(start, end, tuple(self.cells)))
        self.cells = []

    def _heading(self, _: str, value: Any, start: int, end: int) -> None:
        self._own_text_ends(start)
        if not self.open:
            self.title = []
            number = self.lines.number_at(start)
            level = int(value["Heading"]["level"][1:])
            self.headings.append(Heading(level, "", self.lines[number].start, end, number + 1))

    def _heading_end(self, _: str, __: int, ___: int) -> None:
        if self.title is not None:
            last = self.headings[-1]
            title = "".join(self.title)
            if b"**" in self.data[last.start : last.end]:
                title = _title(self.data[last.start : last.end].decode())
            self.headings[-1] = last._replace(title=" ".join(title.split()))
            self.title = None

    def _paragraph_end(self, _: str, __: int, end: int) -> None:
        # The second paragraph of an item is not its own text.
        self._own_text_ends(end)

    def _item_end(self, _: str, __: int, end: int) -> None:
        self.open.pop()
        first, _last, own = self.pending.pop()
        if "BlockQuote" not in self.open:
            self.items.append(self._item(first, end, own))

    def _item(self, start: int, end: int, own: int) -> Item:
        starts = self.lines.starts
        number = bisect_right(starts, start) - 1
        mark = _ITEM_MARK.match(self.data, start)
        text_start = mark.end() if mark else start
        box = _BOX.match(self.data, text_start, own)
        if box:
            text_start = box.end()
        text_start = min(text_start, own)
        text_end = text_start + len(self.data[text_start:own].rstrip())
        # Ranges of items run on over the blank lines that follow.
        last = max(start, start + len(self.data[start:end].rstrip()) - 1)
        return Item(
            " ".join(self.data[text_start:text_end].decode().split()),
            None if box is None else box[1] != b" ",
            self.open.count("List") - 1,
            start, starts[bisect_right(starts, last, lo=number)], text_start, text_end,
            None if box is None else box.start() + 1,
            number + 1,
        )  # fmt: skip
