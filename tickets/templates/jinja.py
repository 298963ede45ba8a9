"""Jinja2 for the strings of templates: rendered text, or faults.

Jinja2 itself is imported only for a string with marks of it: most templates have none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tickets.templates._faults import Choices, Fault, Fill, nearest
from tickets.templates._quoting import placed, unmarked

__all__ = ["Choices", "Fault", "Fill", "faults_of", "fill", "has_marks", "nearest", "unknown_names"]

_MARKS = ("{{", "{%", "{#")


def faults_of(source: str) -> tuple[Fault, ...]:
    """Return the faults of a string that hold for any values: its syntax, and forbidden constructs."""
    if not has_marks(source):
        return ()
    from tickets.templates._sandbox import compiled  # noqa: PLC0415 - imports jinja2

    return compiled(source).faults


def unknown_names(
    source: str, known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> tuple[Fault, ...]:
    """Return the names that a string uses and nothing defines, also in branches that are not taken."""
    if not has_marks(source):
        return ()
    from tickets.templates._sandbox import compiled  # noqa: PLC0415 - imports jinja2

    return tuple(
        Fault(
            line,
            f"`{name}` is not defined",
            (elsewhere or {}).get(name) or nearest(name, known) or "known are " + ", ".join(sorted(known)),
        )
        for name, line in compiled(source).names
        if name not in known
    )


def fill(
    source: str,
    values: Mapping[str, Any],
    *,
    elsewhere: Mapping[str, str] | None = None,
    is_prompt: bool = False,
) -> Fill:
    """Render a string. `elsewhere` tells for undefined names where they are defined.

    In a prompt the values that others wrote are quoted.
    Never raises: every mistake of the template is returned as a fault.
    """
    if not has_marks(source):
        return Fill(source)
    from tickets.templates._sandbox import compiled, render  # noqa: PLC0415 - imports jinja2

    read = compiled(source)
    if read.template is None:
        return Fill("", read.faults)
    if unknown := unknown_names(source, tuple(values), elsewhere):
        return Fill("", unknown)
    filled = render(read.template, values)
    return filled._replace(text=placed(filled.text) if is_prompt else unmarked(filled.text))


def has_marks(source: str) -> bool:
    """Return whether there is anything to render: most strings of front matter have no marks of Jinja."""
    return any(mark in source for mark in _MARKS)
