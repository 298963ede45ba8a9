"""The search for the workers that break the gate: the fewest without which it is green.

The search yields sets of workers and is sent whether the gate is green on their changes. Workers are in an
order in which each comes after those that it depends on, and each set has all dependencies of its members.
All together are known to be red; the empty set is known to be green.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

FEW = 2
"""How many breaking sets are searched by halves; after them, in growing steps from a green set."""
MEMBERS = 4
"""How many workers that break the gate only together are named at most."""
CHOICES = 4096
"""How many ways to pick one of each breaking set are compared."""

Names = frozenset[str]


class Ask(NamedTuple):
    """Asks whether the gate is green with only these changes; `again`: even if it was asked before."""

    kept: Names
    again: bool = False


class Breaking(NamedTuple):
    """Workers that break the gate together, each of them needed for it; the last in order comes first."""

    members: tuple[str, ...]
    seen: Names
    """The smallest set in which that was seen."""


class Found(NamedTuple):
    """What is to land, and why the rest is not to."""

    kept: Names
    """Seen green, or empty."""
    dropped: tuple[str, ...]
    """The fewest that had to go, in order; their dependents are not kept either."""
    breaking: tuple[Breaking, ...]
    flaky: Names | None = None
    """A set that was red once and green once; the search ended there."""


Search = Generator[Ask, bool, Found]
_Asking = Generator[Ask, bool, bool]


def breakers(order: Sequence[str], needs: Mapping[str, Collection[str]]) -> Search:
    """Find the fewest workers to drop, and end with a set that was seen green.

    No worker is named because of one red run: the set that breaks the gate was asked for twice.
    """
    search = _Search(order, needs)
    breaking: list[Breaking] = []
    while True:
        dropped = search.fewest(breaking)
        kept = search.without(dropped)
        # Where many break it, the next is near: then the steps begin small.
        found = yield from search.breaking_in(kept, step=len(order) if len(breaking) < FEW else 1)
        if found is None:
            return Found(kept, dropped, tuple(breaking))
        if isinstance(found, Breaking):
            breaking.append(found)
            continue
        green = search.known.get(kept) or (yield Ask(kept, again=kept in search.known))
        return Found(kept if green else frozenset(), dropped, tuple(breaking), found)


def reached(name: str, needs: Mapping[str, Collection[str]]) -> Names:
    """Return a worker and all that it depends on, directly or not."""
    found, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += needs.get(one, ())
    return frozenset(found)


class _Search:
    """The sets of workers whose colour is known so far."""

    def __init__(self, order: Sequence[str], needs: Mapping[str, Collection[str]]) -> None:
        self.order = tuple(order)
        self.place = {name: at for at, name in enumerate(order)}
        self.above = {name: reached(name, needs).intersection(order) for name in order}
        """Worker to itself and all that it depends on."""
        self.known: dict[Names, bool] = {frozenset(): True, frozenset(order): False}
        self.sure: set[Names] = set()
        """The sets that were red twice."""

    def without(self, dropped: Iterable[str]) -> Names:
        gone = frozenset(dropped)
        return frozenset(name for name in self.order if not self.above[name] & gone)

    def is_green(self, kept: Names) -> _Asking:
        if kept not in self.known:
            self.known[kept] = yield Ask(kept)
        return self.known[kept]

    def fewest(self, breaking: Sequence[Breaking]) -> tuple[str, ...]:
        """Pick one of each breaking set so that the fewest are lost; among equals, the later ones."""

        def cost(chosen: Names) -> tuple[int, list[int]]:
            return -len(self.without(chosen)), sorted(-self.place[name] for name in chosen)

        ways = islice(product(*(one.members for one in breaking)), CHOICES)
        best = min([frozenset(way) for way in ways], key=cost)
        return tuple(sorted(best, key=self.place.__getitem__))

    def breaking_in(self, kept: Names, step: int) -> Generator[Ask, bool, Breaking | Names | None]:
        """Find workers that break a set together; return None if it is green.

        A set of names that is returned was red once and green once.
        """
        line = [name for name in self.order if name in kept]
        firsts = [frozenset(line[:count]) for count in range(len(line) + 1)]
        low = max(count for count, first in enumerate(firsts) if self.known.get(first))
        reds = [count for count in range(low, len(firsts)) if self.known.get(firsts[count]) is False]
        high = min(reds, default=len(firsts))
        while high - low > 1:
            middle = min((low + high) // 2 if high < len(firsts) else len(line), low + step)
            step *= 2
            if (yield from self.is_green(firsts[middle])):
                low = middle
            else:
                high = middle
        if high == len(firsts):
            return None
        last, red = line[high - 1], firsts[high]
        alone = self.above[last]
        if alone == red or not (yield from self.is_green(alone)):
            found = Breaking((last,), alone)
        elif (yield from self._passes_again(red)):
            return red  # before partners are looked for, which would cost many runs
        else:
            found = yield from self._partners(firsts[:high], line, last)
        if found.seen in self.sure or not (yield from self._passes_again(found.seen)):
            return found
        return found.seen

    def _passes_again(self, kept: Names) -> _Asking:
        """Ask once more for a set that was red, and return whether it is green now."""
        if (yield Ask(kept, again=True)):
            self.known[kept] = True
            return True
        self.sure.add(kept)
        return False

    def _partners(
        self, firsts: Sequence[Names], line: Sequence[str], last: str
    ) -> Generator[Ask, bool, Breaking]:
        """Find the other workers with which a worker breaks the gate that does not break it alone."""
        members, held, limit = [last], self.above[last], len(firsts) - 1
        seen = firsts[limit] | held
        while len(members) < MEMBERS and not (yield from self._is_red(held)):
            low, high = 0, limit
            while high - low > 1:
                middle = (low + high) // 2
                if (yield from self.is_green(firsts[middle] | held)):
                    low = middle
                else:
                    high = middle
            members.append(line[high - 1])
            seen = firsts[high] | held
            held, limit = held | self.above[line[high - 1]], high - 1
        return Breaking(tuple(members), held if self.known.get(held) is False else seen)

    def _is_red(self, kept: Names) -> _Asking:
        return not (yield from self.is_green(kept))
