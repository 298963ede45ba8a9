"""What became of old runs, as a person reads it."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

SHOWN = 20
"""Of each kind, those that a person is shown by name before the rest is counted."""


def lines_of(document: dict[str, Any], noun: str = "leftover") -> list[str]:
    """Say what moved, what stays and why, and what was deleted; `noun` is what one of those is."""
    moved, kept, deleted = document["moved"], document["kept"], document["deleted"]
    moves, deletes = ("would move", "would go") if document["dry_run"] else ("moved", "deleted")
    lines = [f"{moves:<11} {one['what']} ({size_of(one['bytes'])}) -> {one['to']}" for one in moved[:SHOWN]]
    if len(moved) > SHOWN:
        lines.append(f"{'':<11} and {len(moved) - SHOWN} more")
    lines += _with_reasons("stays", "run", kept) + _with_reasons(deletes, "what", deleted)
    said = [counted for counted in (_counted(moved, "run"), _counted(deleted, noun)) if counted]
    nothing = "no archive is to go" if noun == "archive" else "no run is to go"
    return [*lines, f"{' and '.join(said)}, {size_of(document['bytes'])}" if said else nothing]


def size_of(number: int) -> str:
    """Write a number of bytes in short."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"


def spelled(age: timedelta) -> str:
    """Write an age as the option takes it."""
    hours = age // timedelta(hours=1)
    return f"{hours}h" if hours % 24 else str(hours // 24)


def _counted(found: Sequence[Any], noun: str) -> str:
    return f"{len(found)} {noun}{'' if len(found) == 1 else 's'}" if found else ""


def _with_reasons(verb: str, name: str, found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"{verb:<11} {one[name]} ({size_of(one['bytes'])}): {one['reason']}" for one in found[:SHOWN]]
    reasons = Counter(one["reason"] for one in found[SHOWN:])
    return lines + [f"{'':<11} and {number} more: {reason}" for reason, number in reasons.items()]
