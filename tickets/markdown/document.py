"""A Markdown file as bytes with the places of what stands in it; pyromark is used here alone.

Ranges are byte offsets into the whole file, byte order mark and front matter included.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyromark

from tickets.markdown import lines as line_places
from tickets.markdown.errors import MarkdownError
from tickets.markdown.front import Front, find_front
from tickets.markdown.lines import Line
from tickets.problems import Problem

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_TASKLISTS
_LONE_TAG = re.compile(rb"[ \t]*</?([A-Za-z][A-Za-z0-9-]*)(?:\s[^<>]*)?/?>[ \t]*$")
_ITEM_MARK = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=[\r\n]|$))")
_BOX = re.compile(rb"\[([ xX])\](?=[ \t\r\n]|$)[ \t]*")
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
    """A stretch whose inside is not ours to read as Markdown lines, or a line that divides."""

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


class Document(NamedTuple):
    """One file; `data` is all of it. Made by `parse`."""

    place: str
    data: bytes
    front: Front | None
    body: int
    """Where the Markdown starts: behind byte order mark and front matter."""
    lines: tuple[Line, ...]
    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]
    opaque: tuple[tuple[int, int], ...]
    """Code and HTML, inline or block: what stands there is no field."""
    items: tuple[Item, ...]
    rules: frozenset[int]
    """Starts of the lines that hold a thematic break."""

    @property
    def newline(self) -> bytes:
        """The line end that prevails."""
        return line_places.prevailing_end(self.data)

    def line_at(self, offset: int) -> int:
        """Give the number of the line that holds a byte, counted from 1."""
        return line_places.number_at(self.lines, offset) + 1

    def opaque_at(self, offset: int) -> tuple[int, int] | None:
        """Give the stretch of code or HTML that holds a byte, if one does."""
        index = bisect_right(self.opaque, (offset, len(self.data) + 1)) - 1
        return self.opaque[index] if index >= 0 and offset < self.opaque[index][1] else None

    def text(self, start: int, end: int) -> str:
        """Give a stretch as text."""
        return self.data[start:end].decode()


def parse(data: bytes, place: str) -> Document:
    """Read a file. Raises MarkdownError where it is not UTF-8: such a file is never written."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = line_places.number_at(line_places.split(data), error.start) + 1
        what = f"byte {error.start} is not UTF-8, so the file is neither read nor written"
        raise MarkdownError(Problem(f"{place}:{line}", what, "save it as UTF-8")) from None
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    front = find_front(data, mark, place)
    body = mark if front is None else front.end
    places = line_places.split(data)
    shown = _without_lone_tags(data[body:])
    walk = _Walk(data[:body] + shown, places)
    for event, begin, end in _events(shown):
        walk.take(event, body + begin, body + end)
    rules = (line_places.number_at(places, block.start) for block in walk.blocks if block.kind == "rule")
    items = tuple(sorted(walk.items, key=lambda item: item.start))
    return Document(
        place, data, front, body, places,
        tuple(walk.headings), tuple(walk.blocks), tuple(walk.opaque), items,
        frozenset(places[number].start for number in rules),
    )  # fmt: skip


def _events(source: bytes) -> Iterator[tuple[object, int, int]]:
    for event, span in pyromark.events_with_range(source.decode(), options=_OPTIONS):
        yield event, span["start"], span["end"]


def _without_lone_tags(body: bytes) -> bytes:
    """Blank lines that hold one unknown tag: CommonMark lets such a line swallow the heading below it."""
    if b"<" not in body:
        return body
    out = bytearray(body)
    for start, end, _ in line_places.split(body):
        match = _LONE_TAG.match(body, start, end)
        if match and match.group(1).lower() not in _BLOCK_TAGS:
            out[start:end] = b" " * (end - start)
    return bytes(out)


class _Walk:
    """Collects places from the stream of events."""

    def __init__(self, data: bytes, lines: tuple[Line, ...]) -> None:
        self.data, self.lines = data, lines
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.opaque: list[tuple[int, int]] = []
        self.items: list[Item] = []
        self.open: list[str] = []
        self.title: list[str] | None = None
        self.pending: list[tuple[int, int, int]] = []  # items: start, end, where their own text ends

    def take(self, event: object, start: int, end: int) -> None:
        """Take one event."""
        if isinstance(event, str):
            if event == "Rule":
                self.blocks.append(Block("rule", start, end))
            elif self.title is not None and event in {"SoftBreak", "HardBreak"}:
                self.title.append(" ")
        elif isinstance(event, dict):
            ((name, value),) = event.items()
            if name == "Start":
                self._start(value if isinstance(value, str) else next(iter(value)), value, start, end)
            elif name == "End":
                self._end(end)
            else:
                self._inline(name, value, start, end)

    def _start(self, tag: str, value: object, start: int, end: int) -> None:
        kind: dict[str, Literal["code", "html", "table", "quote"]] = {
            "CodeBlock": "code", "HtmlBlock": "html", "Table": "table", "BlockQuote": "quote",
        }  # fmt: skip
        if self.pending and self.open and self.open[-1] == "Item" and tag in {*kind, "List", "Heading"}:
            first, last, own = self.pending[-1]
            self.pending[-1] = (first, last, min(own, start))
        if tag in kind:
            self.blocks.append(Block(kind[tag], start, end))
            if tag in {"CodeBlock", "HtmlBlock"}:
                self.opaque.append((start, end))
        elif tag == "Item":
            self.pending.append((start, end, end))
        elif tag == "Heading" and not self.open and isinstance(value, dict):
            self.title = []
            level = int(value["Heading"]["level"][1:])
            line = line_places.number_at(self.lines, start)
            self.headings.append(Heading(level, "", self.lines[line].start, end, line + 1))
        self.open.append(tag)

    def _end(self, end: int) -> None:
        tag = self.open.pop()
        if tag == "Heading" and self.title is not None:
            title = " ".join("".join(self.title).split())
            self.headings[-1] = self.headings[-1]._replace(title=title)
            self.title = None
        elif tag == "Item":
            first, _, own = self.pending.pop()
            if "BlockQuote" not in self.open:
                self.items.append(self._item(first, end, own))
        elif tag == "Paragraph" and self.open and self.open[-1] == "Item":
            # The second paragraph of an item is not its own text.
            first, last, own = self.pending[-1]
            self.pending[-1] = (first, last, min(own, end))

    def _inline(self, name: str, value: object, start: int, end: int) -> None:
        if name in {"Code", "InlineHtml"}:
            self.opaque.append((start, end))
        if self.title is not None and name in {"Text", "Code"}:
            self.title.append(str(value))

    def _item(self, start: int, end: int, own: int) -> Item:
        number = line_places.number_at(self.lines, start)
        mark = _ITEM_MARK.match(self.data, start)
        text_start = mark.end() if mark else start
        box = _BOX.match(self.data, text_start, own)
        if box:
            text_start = box.end()
        text_start = min(text_start, own)
        text_end = text_start + len(self.data[text_start:own].rstrip())
        # Ranges of items run on over the blank lines that follow.
        last = line_places.number_at(self.lines, max(start, start + len(self.data[start:end].rstrip()) - 1))
        return Item(
            " ".join(self.data[text_start:text_end].decode().split()),
            None if box is None else box.group(1) != b" ",
            self.open.count("List") - 1,
            start, self.lines[last].after, text_start, text_end,
            None if box is None else box.start() + 1,
            number + 1,
        )  # fmt: skip
