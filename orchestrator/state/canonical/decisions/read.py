"""DECISIONS.md as entries: the dated headings of one level, with any text between them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.state.document import opened
from tickets.markdown import Document, Heading

PATH = "DECISIONS.md"
_INTEGRATED = rb"(?m)^## .*\bIntegrated run \d{8}_\d{6}(?:_\d+)? \((\S+)\)\s*$"
_DATED = r"\W*(?P<date>\d{4}-\d{2}-\d{2})\s*(?:[:\u2013\u2014-]\s*)?(?P<title>.*)$"


class Entry(NamedTuple):
    """One dated heading."""

    date: str
    title: str
    line: int


def read(text: bytes) -> list[Entry]:
    """Return the entries in the order of the file. Raises StateError where it cannot be read."""
    return [entry for _, entry in dated_headings(opened(PATH, text))]


def spans(text: bytes) -> list[tuple[str, str]]:
    """Return (heading, text below it) of each entry. Raises StateError where the log cannot be read."""
    return spans_of(opened(PATH, text))


def spans_of(document: Document) -> list[tuple[str, str]]:
    """Return the same for a parsed log."""
    starts = [found for found, _ in dated_headings(document)]
    found = []
    for number, top in enumerate(starts):
        end = starts[number + 1].start if number + 1 < len(starts) else len(document.data)
        found.append((top.title, document.text(min(top.end, end), end)))
    return found


def dated_headings(document: Document) -> Iterator[tuple[Heading, Entry]]:
    """Yield the headings of the entries in the order of the file."""
    level = 0
    for heading in document.headings:
        match = dated(heading)
        # Entries are the dated headings of one level; a dated heading inside an entry is part of it.
        if match and heading.level == (level or heading.level):
            level = heading.level
            yield heading, Entry(match["date"], match["title"], heading.line)


def dated(heading: Heading) -> re.Match[str] | None:
    """Match the heading of an entry; None for other headings."""
    return re.match(_DATED, heading.title) if heading.level > 1 else None


def phases_run(log: bytes | None) -> frozenset[str]:
    """Return the phases that the log of an old version records as run; now the completions do."""
    if not log or b"Integrated run " not in log:
        return frozenset()
    return frozenset(name.decode("utf-8", "replace") for name in re.findall(_INTEGRATED, log))
