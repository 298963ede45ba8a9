"""Counts and lists in plain English, in one grammar for every message."""

from collections.abc import Sequence


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Describe a number of things: `1 file`, `2 files`; `plural` where an `s` does not make it."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def some_of(names: Sequence[str], most: int = 3, *, total: int | None = None, between: str = ", ") -> str:
    """Name the first of some things and count the rest: `a, b and 3 more`.

    `total` is how many exist, where `names` are not all of them.
    """
    shown = names[:most]
    return between.join(shown) + "".join(f" {more}" for more in rest_of(total or len(names), len(shown)))


def rest_of(total: int, shown: int) -> list[str]:
    """Return the line that counts what is not shown, where there is any: `and 3 more`."""
    return [f"and {total - shown:,} more"] if total > shown else []
