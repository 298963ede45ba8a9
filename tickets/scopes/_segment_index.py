"""Index of segments: finds those that may match a given one by their first and last characters."""

import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from tickets.scopes.segment import Glob

V = TypeVar("V")


class Starts(Generic[V]):
    """Values by text, found by the beginning of the text."""

    def __init__(self, values: Mapping[str, V]) -> None:
        self._values = values
        self._sorted = sorted(values)
        self._longest = max(map(len, values), default=0)

    def below(self, start: str) -> Iterator[V]:
        """Yield the values of each text that begins with `start`."""
        for at in range(bisect.bisect_left(self._sorted, start), len(self._sorted)):
            text = self._sorted[at]
            if not text.startswith(start):
                return
            yield self._values[text]

    def above(self, text: str) -> Iterator[V]:
        """Yield the values of each beginning of `text`, the whole text included."""
        for length in range(min(len(text), self._longest) + 1):
            value = self._values.get(text[:length])
            if value is not None:
                yield value

    def beside(self, text: str) -> Iterator[V]:
        """Yield the values of each text that begins with `text`, or that `text` begins with."""
        yield from (
            value for length in range(len(text)) if (value := self._values.get(text[:length])) is not None
        )
        yield from self.below(text)


class NameIndex:
    """Plain segments, found by a glob."""

    def __init__(self, names: Iterable[str]) -> None:
        self._forward = Starts({name: name for name in names})
        self._backward: Starts[str] | None = None

    def matching(self, glob: Glob) -> Iterator[str]:
        """Return the names that a glob matches."""
        names = self._forward.below(glob.head)
        if glob.tail and not glob.head:
            if self._backward is None:
                self._backward = Starts({name[::-1]: name for name in self._forward.below("")})
            names = self._backward.below(glob.tail[::-1])
        return (name for name in names if glob.matches(name))


class GlobIndex:
    """Globs, found by a name or by another glob."""

    def __init__(self, globs: Iterable[Glob]) -> None:
        ends: dict[str, dict[str, list[Glob]]] = {}
        for glob in globs:
            ends.setdefault(glob.head, {}).setdefault(glob.tail[::-1], []).append(glob)
        self._heads = Starts({head: Starts(tails) for head, tails in ends.items()})

    def matching(self, name: str) -> Iterator[Glob]:
        """Yield the globs that match a name."""
        backward = name[::-1]
        for tails in self._heads.above(name):
            for globs in tails.above(backward):
                yield from (glob for glob in globs if glob.matches(name))

    def agreeing(self, glob: Glob) -> Iterator[Glob]:
        """Yield the globs whose first and last characters allow a name in common with this one."""
        backward = glob.tail[::-1]
        for tails in self._heads.beside(glob.head):
            for globs in tails.beside(backward):
                yield from globs
