"""What became of old runs, as a person reads it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

SHOWN = 20
"""Of each kind, those that a person is shown by name before the rest is counted."""


def lines_of(document: dict[str, Any]) -> list[str]:
    """Say what moved, what stays and why, and what was deleted."""
    moved, kept, deleted = document["moved"], document["kept"], document["deleted"]
    moves, deletes = ("would move", "would go") if document["dry_run"] else ("moved", "deleted")
    lines = [f"{moves:<11} {one['what']} ({size_of(one['bytes'])}) -> {one['to']}" for one in moved[:SHOWN]]
    if len(moved) > SHOWN:
        lines.append(f"{'':<11} and {len(moved) - SHOWN} more")
    lines += _with_reasons("stays", "run", kept) + _with_reasons(deletes, "what", deleted)
    said = [f"{len(moved)} run{'' if len(moved) == 1 else 's'}"] if moved else []
    said += [f"{len(deleted)} leftover{'' if len(deleted) == 1 else 's'}"] if deleted else []
    return [*lines, f"{' and '.join(said)}, {size_of(document['bytes'])}" if said else "no run is to go"]


def size_of(number: int) -> str:
    """Write a number of bytes in short."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"


def _with_reasons(verb: str, name: str, found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"{verb:<11} {one[name]} ({size_of(one['bytes'])}): {one['reason']}" for one in found[:SHOWN]]
    reasons = Counter(one["reason"] for one in found[SHOWN:])
    return lines + [f"{'':<11} and {number} more: {reason}" for reason, number in reasons.items()]
