"""The structure of a document: sections by title path, fields in five spellings, list items."""

import re
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

from tickets.markdown._damage import absent
from tickets.markdown._text import plain
from tickets.markdown.document import Document, Heading, Item
from tickets.problems import MarkdownError, Problem

_FIELD = re.compile(
    rb"(?P<lead>[ \t]*(?:[-*+][ \t]+)?)"
    rb"(?:\*\*(?P<bold>[^*\r\n]+?):\*\*|\*\*(?P<loose>[^*\r\n]+?)\*\*[ \t]*:"
    rb"|(?P<bare>[^\W\d_][\w /&()'.-]{0,60}?):(?=[ \t]|$))"
    rb"(?P<gap>[ \t]*)(?P<value>.*?)(?P<tail>[ \t]*)$"
)
_TRAILER = re.compile(rb"\*\*[^*\r\n]+ End\*\*[ \t]*$")
_LONE_TAG = re.compile(rb"[ \t]*</?[A-Za-z][\w-]*(?:\s[^<>]*)?>[ \t]*$")
_CLOSING_TAG = re.compile(rb"[ \t]*</[A-Za-z][\w-]*[ \t]*>[ \t]*$")
_start = attrgetter("start")
_DOCUMENTS = 8
_EDGES = re.compile(r"^\W+|\W+$")


class Part(NamedTuple):
    """A section, or the header above the sections. All offsets are at line starts (or the file's end).

    `own_end` is where the first section below it starts, `end` where the next one beside it does.
    `content_end` is behind the last line of content: before trailing blanks, `---`, closing tags and
    an end-of-file trailer; `own_content_end` is the same for the content before `own_end`.
    """

    title: str
    level: int
    start: int
    body: int
    own_end: int
    own_content_end: int
    content_end: int
    end: int
    line: int


Sections = dict[tuple[int, int, int] | None, tuple[Part, ...]]
"""Sections by what they stand below: its body, its end, its level."""
_known: dict[int, tuple[Document, Sections]] = {}
"""The documents that were asked last, by identity: dozens of questions are asked of each."""


class Field(NamedTuple):
    """A `key: value` line; `start` to `end` is the value, `line_start` to `line_after` the line."""

    key: str
    value: str
    start: int
    end: int
    line_start: int
    line_after: int
    in_list: bool
    line: int


def header(document: Document) -> Part:
    """Return the part above the first section: the H1, if there is one, and its fields."""
    first = next((found.start for found in document.headings if found.level > 1), len(document.data))
    top = next((found for found in document.headings if found.level == 1 and found.start < first), None)
    begin = document.body if top is None else _after(document, top)
    end = _content_end(document, begin, first)
    title, line = ("", 1) if top is None else (top.title, top.line)
    return Part(title, 1, document.body, begin, first, end, end, first, line)


def sections(document: Document, parent: Part | None = None) -> tuple[Part, ...]:
    """Return the sections directly below `parent`, or the document's own (level 2)."""
    found = _sections_of(document)
    place = None if parent is None else (parent.body, parent.end, parent.level)
    if place not in found:
        found[place] = _sections(document, parent)
    return found[place]


def _sections(document: Document, parent: Part | None) -> tuple[Part, ...]:
    low, high = (document.body, len(document.data)) if parent is None else (parent.body, parent.end)
    first = bisect_left(document.headings, low, key=_start)
    inside = document.headings[first : bisect_left(document.headings, high, lo=first, key=_start)]
    level = 2 if parent is None else parent.level + 1
    deep = [found for found in inside if found.level >= level]
    level = min((found.level for found in deep), default=level)
    return tuple(_part(document, found) for found in deep if found.level == level)


def find(document: Document, *path: str, ordinal: int | None = None) -> Part | None:
    """Return the section at a title path, or None. Raises MarkdownError where two match without a choice.

    `ordinal` counts the matches of the last title from 0. A title matches literally, else by its words.
    """
    here: Part | None = None
    for depth, title in enumerate(path):
        found = _titled(sections(document, here), title)
        if ordinal is not None and depth == len(path) - 1:
            found = found[ordinal : ordinal + 1]
        if len(found) > 1:
            lines = " and ".join(f"line {part.line}" for part in found)
            what = f"section `{' > '.join(path)}` is there {len(found)} times ({lines})"
            place = f"{document.place}:{found[0].line}"
            raise MarkdownError(Problem(place, what, "give each a title of its own"))
        if not found:
            return None
        here = found[0]
    return here


def section(document: Document, *path: str, ordinal: int | None = None) -> Part:
    """Return the section at a title path. Raises MarkdownError where there is none, or two."""
    found = find(document, *path, ordinal=ordinal)
    if found is None:
        name = f"section `{' > '.join(path)}`"
        above = (find(document, *path[:depth]) for depth in range(len(path) - 1, 0, -1))
        line = next((part.line for part in above if part), None)
        raise absent(document, line, name, f"{name} is missing")
    return found


def fields(document: Document, part: Part) -> tuple[Field, ...]:
    """Return the fields of a section's own content; lines in code, comments and tables are none."""
    first = bisect_left(document.blocks, part.body, key=_start)
    last = bisect_left(document.blocks, part.own_end, lo=first, key=_start)
    tables = [(block.start, block.end) for block in document.blocks[first:last] if block.kind == "table"]
    found = []
    starts = document.lines.starts
    for number in _lines(document, part.body, part.own_end):
        line_start, line_after = starts[number], starts[number + 1]
        text = document.data[line_start:line_after].rstrip(b"\r\n")
        match = _FIELD.match(text) if b":" in text else None
        if match is None:
            continue
        key = match.group("bold") or match.group("loose") or match.group("bare")
        at = line_start + match.end("lead")
        if document.opaque_at(at) or any(start <= at < end for start, end in tables):
            continue
        start, end = (line_start + place for place in match.span("value"))
        value = document.text(start, end)
        in_list = bool(match.group("lead").strip())
        found.append(Field(key.decode(), value, start, end, line_start, line_after, in_list, number + 1))
    return tuple(found)


def field(document: Document, part: Part, key: str) -> Field | None:
    """Return the one field of that name, or None. Raises MarkdownError where there are two."""
    wanted = key_of(key)
    found = [found for found in fields(document, part) if key_of(found.key) == wanted]
    if len(found) > 1:
        lines = " and ".join(f"line {one.line}" for one in found)
        what = f"field `{key}` is there {len(found)} times ({lines})"
        raise MarkdownError(Problem(f"{document.place}:{found[0].line}", what, "keep it once"))
    return found[0] if found else None


def items(document: Document, part: Part) -> tuple[Item, ...]:
    """Return the list items of a section's own content, nested ones too."""
    first = bisect_left(document.items, part.body, key=_start)
    return document.items[first : bisect_left(document.items, part.own_end, lo=first, key=_start)]


def labelled(document: Document, part: Part, label: str) -> Part | None:
    """Return the part below a label such as `**Active Workers:**`, up to the next label or the end."""
    own = [one for one in fields(document, part) if not one.in_list]
    found = field(document, part, label)
    if found is None or found.in_list:
        return None
    end = next((one.line_start for one in own if one.line_start > found.line_start), part.own_end)
    body = found.line_after
    content = _content_end(document, body, end)
    return Part(found.key, 7, found.line_start, body, end, content, content, end, found.line)


def trailer_start(document: Document) -> int | None:
    """Return where an end-of-file trailer such as `**Status File End**` starts, if there is one."""
    for line in reversed(document.lines):
        if document.data[line.start : line.end].strip():
            found = _TRAILER.match(document.data, line.start, line.end)
            return line.start if found and document.opaque_at(line.start) is None else None
    return None


def key_of(title: str) -> str:
    """Return the words of a title or a field's name: no case, no escapes, no marks at either end."""
    return " ".join(_EDGES.sub("", plain(title)).casefold().split())


def _sections_of(document: Document) -> Sections:
    kept = _known.get(id(document))
    if kept is not None and kept[0] is document:
        return kept[1]
    while len(_known) >= _DOCUMENTS:
        _known.pop(next(iter(_known), 0), None)
    found: Sections = {}
    _known[id(document)] = (document, found)
    return found


def _titled(parts: tuple[Part, ...], title: str) -> list[Part]:
    return [part for part in parts if part.title == title] or [
        part for part in parts if key_of(part.title) == key_of(title)
    ]


def _part(document: Document, heading: Heading) -> Part:
    index = bisect_right(document.headings, heading.start, key=lambda one: one.start)
    later = (document.headings[number] for number in range(index, len(document.headings)))
    end = next((one.start for one in later if one.level <= heading.level), len(document.data))
    body = _after(document, heading)
    own = document.headings[index].start if index < len(document.headings) else len(document.data)
    content = _content_end(document, body, end)
    words = content if own == end else _content_end(document, body, own)
    return Part(heading.title, heading.level, heading.start, body, own, words, content, end, heading.line)


def _after(document: Document, heading: Heading) -> int:
    return document.lines[document.line_at(max(heading.start, heading.end - 1)) - 1].after


def _lines(document: Document, start: int, end: int) -> range:
    """Return the numbers of the lines that start in a range."""
    first = document.lines.number_at(start)
    last = document.lines.number_at(end) if end < len(document.data) else len(document.lines)
    starts = document.lines.starts
    first += first < len(document.lines) and starts[first] < start
    last += last < len(document.lines) and starts[last] < end
    return range(first, last)


def _content_end(document: Document, body: int, end: int) -> int:
    """Walk back from `end` over the lines that close a section and hold no content."""
    trailer = trailer_start(document)
    for number in reversed(_lines(document, body, end)):
        line = document.lines[number]
        text = document.data[line.start : line.end]
        closes = not text.strip() or line.start in document.rules or line.start == trailer
        inside = document.opaque_at(line.start)
        if inside is None and _LONE_TAG.match(text):
            continue  # a closing tag, or an opening one glued to the next heading
        if inside and _CLOSING_TAG.match(text) and document.data[inside[0] :].lstrip().startswith(b"</"):
            continue
        if not closes or inside is not None:
            return line.after
    return body
