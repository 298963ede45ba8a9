"""Shared by all documents: figures, dates, and the texts of new files."""

import re
from datetime import datetime
from pathlib import Path

from tickets.markdown import one_line
from tickets.value import Value

_FIELD = r"\*\*(?P<key>[^*]+):\*\* (?P<value>.*)"
_RULE = "\n\n---\n\n"


class Facts(Value):
    """The values of a new project's files that differ from project to project; `at` is UTC."""

    project: str
    lead: str
    at: datetime
    phase: str = "Review"
    """The name of phase 1."""
    milestone: str = "Baseline reviewed"


class NewFile(Value):
    """The text of a new state file, and its parts, which complete a file that lacks some."""

    text: str
    title: str
    """With its mark: `# Project Status`."""
    fields: dict[str, str]
    """Of the header, in order."""
    sections: dict[str, str]
    """Heading, up to a remark in brackets, to the section's text."""


def new_file(path: Path, facts: Facts) -> NewFile:
    """Read the text of a new file, a file of this package with names of facts in braces."""
    text = filled(
        path,
        lead=one_line(facts.lead) or "Lead",
        at=minute(facts.at),
        day=day(facts.at),
        second=second(facts.at),
        phase=one_line(facts.phase),
        milestone=one_line(facts.milestone),
    )
    head, *parts = text.split(_RULE)
    title, *lines = head.splitlines()
    found = (re.fullmatch(_FIELD, line) for line in lines)
    sections = {heading_of(part): part for part in parts if part.startswith("## ")}
    return NewFile(text, title, {one["key"]: one["value"] for one in found if one}, sections)


def filled(path: Path, **said: str) -> str:
    """Return the text of a file of this package, with names in braces filled in."""
    return path.read_text("utf-8").format(**said)


def heading_of(section: str) -> str:
    """Return the heading by which a section is found: `TODO` for `## TODO (Prioritized)`."""
    return section.partition("\n")[0].lstrip("# ").partition(" (")[0]


def minute(at: datetime) -> str:
    """Format a time as state files do."""
    return at.strftime("%Y-%m-%d %H:%M")


def second(at: datetime) -> str:
    """Format a time as the state files of families do."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def day(at: datetime) -> str:
    """Format a date as state files do."""
    return at.strftime("%Y-%m-%d")


def percent(done: int, total: int) -> int:
    """Return a percentage, rounded half up; 100 only where all are done, 0 only where none is."""
    if done <= 0 or total <= 0:
        return 0
    if done >= total:
        return 100
    return min(99, max(1, (200 * done + total) // (2 * total)))
