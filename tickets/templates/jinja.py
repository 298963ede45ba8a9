"""Jinja2 as templates may use it: strings rendered, or what is wrong with them.

Jinja2 itself is imported where a string has marks of it: most templates have none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tickets.templates._faults import Choices, Fault, Fill, nearest

__all__ = ["Choices", "Fault", "Fill", "faults_of", "fill", "has_marks", "nearest", "unknown_names"]

_MARKS = ("{{", "{%", "{#")


def faults_of(source: str) -> tuple[Fault, ...]:
    """Find what is wrong with a string whatever the values are: its syntax, and what it may not use."""
    if not has_marks(source):
        return ()
    from tickets.templates._sandbox import compiled  # noqa: PLC0415 - imports jinja2

    return compiled(source).faults


def unknown_names(
    source: str, known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> tuple[Fault, ...]:
    """Find the names that a string uses and nobody defines, in branches too that no values take."""
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


def fill(source: str, values: Mapping[str, Any], *, elsewhere: Mapping[str, str] | None = None) -> Fill:
    """Render a string. `elsewhere` says of names that are not there where they would be.

    Never raises: whatever a template does wrong comes back as faults.
    """
    if not has_marks(source):
        return Fill(source)
    from tickets.templates._sandbox import compiled, render  # noqa: PLC0415 - imports jinja2

    read = compiled(source)
    if read.template is None:
        return Fill("", read.faults)
    if unknown := unknown_names(source, tuple(values), elsewhere):
        return Fill("", unknown)
    return render(read.template, values)


def has_marks(source: str) -> bool:
    """Tell whether there is anything to render: most strings of front matter hold nothing of the kind."""
    return any(mark in source for mark in _MARKS)
