"""The active context as values: sections, their keys and items, each item with its source."""

import re
from collections.abc import Iterator
from functools import lru_cache

from orchestrator.state.ai_memory.context_keys import (
    NONE,
    SECONDARY,
    SECONDARY_KEYS,
    Section,
    section_named,
)
from orchestrator.state.document import opened
from tickets.markdown import Document, Field, Item, Part, fields, items, plain, sections
from tickets.value import Value

PATH = "ai_memory/active_context.md"
PATTERNS = 17
"""The number of the section whose keys may repeat under any name."""
ARROW = " \u2190 "
_KEY = re.compile(r"(?P<key>[a-z][a-z_]*):(?:\s+(?P<value>.*))?$", re.DOTALL)
_SOURCE = re.compile(
    r"STATUS\.md|DECISIONS\.md|P0|run \S+|uncommitted|landed [0-9a-f]{7,40}|changelog|orchestrate\.toml|sync"
    r"|[A-Z][A-Z0-9-]*-\d{3,}|docs/progress/\S+|phases/\S+|[\w.-]+-\d+(?:\[.*\])?"
)


class ContextItem(Value):
    """One item of a list, with all that is nested below it."""

    text: str
    source: str
    """Empty: it is its author's."""
    start: int
    """Where its first line begins."""
    end: int


class ContextKey(Value):
    """One key: a text, or the items below it."""

    name: str
    value: str
    items: tuple[ContextItem, ...]
    start: int
    """Where its line begins."""
    end: int
    """Behind all that is nested below it."""
    value_start: int
    value_end: int
    line: int


class ContextSection(Value):
    """One section that is there."""

    section: Section
    part: Part
    keys: tuple[ContextKey, ...]
    items: tuple[ContextItem, ...]
    """Of a section without keys; of others what is no key."""


class SecondaryTask(Value):
    """One of the tasks that are not the current one; missing keys read as an empty text."""

    task_id: str
    goal: str
    status: str
    next: str
    start: int
    end: int
    lacks: tuple[str, ...]


class Context(Value):
    """The file, as far as it is known to us."""

    document: Document
    sections: tuple[ContextSection, ...]
    secondary: tuple[SecondaryTask, ...]

    def section(self, title: str) -> ContextSection | None:
        """Return the first section of a title of the table."""
        return next((one for one in self.sections if one.section.title == title), None)

    def key(self, name: str) -> ContextKey | None:
        """Return a key, wherever in its section it is."""
        found = (key for one in self.sections for key in one.keys if key.name == name)
        return next(found, None)

    def text(self, name: str) -> str:
        """Return the text of a key; empty where it is missing."""
        found = self.key(name)
        return found.value if found else ""

    def list(self, name: str) -> tuple[ContextItem, ...]:
        """Return the items of a key, or of a section without keys by its title."""
        if (section := self.section(name)) is not None:
            return section.items
        found = self.key(name)
        return found.items if found else ()


@lru_cache(maxsize=16)
def read(text: bytes) -> Context:
    """Read the active context. Raises StateError where it is empty or not UTF-8."""
    document = opened(PATH, text)
    found = [(section_named(part.title), part) for part in sections(document)]
    known = tuple(_section(document, section, part) for section, part in found if section is not None)
    task = next((part for section, part in found if section and section.number == 2), None)
    return Context(document, known, tuple(_secondary(document, task)) if task else ())


def item_of(line: str) -> tuple[str, str]:
    """Return the text of an item and its source, which only the runtime's have."""
    text, arrow, source = line.rpartition(ARROW)
    return (text, source) if arrow and _SOURCE.fullmatch(source) else (line, "")


def _section(document: Document, section: Section, part: Part) -> ContextSection:
    own = items(document, part)
    depth = min((item.depth for item in own), default=0)
    top = {_line_start(document, item): item for item in own if item.depth == depth}
    names = {key.name for key in section.keys}
    keys: list[ContextKey] = []
    for field in fields(document, part):
        name = "_".join(field.key.strip().lower().split())
        is_pattern = section.number == PATTERNS and field.in_list
        if (name in names or is_pattern) and (field.line_start in top or not field.in_list):
            keys.append(_key(document, field, top.get(field.line_start), own)._replace(name=name))
    taken = {key.start for key in keys}
    rest = [_item(document, item) for start, item in top.items() if start not in taken]
    if not section.keys:
        rest = [one for one in rest if one.text.strip(" .").casefold() != NONE]
    return ContextSection(section, part, tuple(keys), tuple(rest))


def _key(document: Document, field: Field, item: Item | None, own: tuple[Item, ...]) -> ContextKey:
    inside = [one for one in own if item is not None and item.start < one.start < item.end]
    depth = min((one.depth for one in inside), default=0)
    nested = tuple(_item(document, one) for one in inside if one.depth == depth)
    end = field.line_after if item is None else item.end
    return ContextKey(
        field.key, plain(field.value), nested, field.line_start, end, field.start, field.end, field.line
    )


def _line_start(document: Document, item: Item) -> int:
    return document.lines[document.line_at(item.start) - 1].start


def _item(document: Document, item: Item) -> ContextItem:
    text, source = item_of(plain(item.text))
    return ContextItem(text, source, _line_start(document, item), item.end)


def _secondary(document: Document, task: Part) -> Iterator[SecondaryTask]:
    part = next(
        (one for one in sections(document, task) if one.title.casefold() == SECONDARY.casefold()), None
    )
    if part is None:
        return
    own = items(document, part)
    top = [one for one in own if one.depth == 0]
    for item in top:
        said: dict[str, str] = {}
        for one in (item, *(other for other in own if item.start < other.start < item.end)):
            if (found := _KEY.match(one.text)) and found["key"] in SECONDARY_KEYS:
                said.setdefault(found["key"], plain(found["value"] or ""))
        start = _line_start(document, item)
        lacks = tuple(key for key in SECONDARY_KEYS if not said.get(key))
        id_, goal, status, next_ = (said.get(key, "") for key in SECONDARY_KEYS)
        yield SecondaryTask(id_, goal, status, next_, start, item.end, lacks)
