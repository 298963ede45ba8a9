"""The result of rendering a string of a template: its text or its faults; and the values that it uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

MAX_RENDERED = 10_000_000  # characters; a loop in a loop must not fill the memory of the runtime


class Choices(dict[str, Any]):
    """A mapping under a name that a template sees, so that a missing key can be explained."""

    def __init__(self, name: str, values: Mapping[str, Any], *, otherwise: str = "") -> None:
        super().__init__(values)
        self.name = name
        self.otherwise = otherwise


class Fault(NamedTuple):
    """A fault of one string; `line` counts within that string, from 1."""

    line: int
    what: str
    do: str
    certain: bool = True
    """False: it may be due to what a stand-in held."""


class Fill(NamedTuple):
    """A rendered string; `text` is empty where there are faults."""

    text: str
    faults: tuple[Fault, ...] = ()


def nearest(word: str, known: Collection[str]) -> str:
    """Return a hint at the known word that was probably meant; empty where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - for start-up time: only where a word is wrong

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""
