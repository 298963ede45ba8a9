"""Names that two segments share and others do not: the product of their automata by code points."""

import functools
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tickets.scopes.segment import CharSet, Glob, Segment, char_sets, fold, segment_matches

MOST_STATES: Final = 200_000
_FILLERS: Final = "xyzabcdefghijklmnopqrstuvw0123456789_-XYZABCDEFGHIJKLMNOPQRSTUVW.+=@#%~,;()&$^!"

_State: TypeAlias = tuple[int, int, tuple[int, ...], int]
"""State: place in the first, in the second, in each of the others as bits, dots so far (3: a name)."""


class TooComplexError(Exception):
    """Raised where the patterns need more states than the limit allows."""


class Shared(NamedTuple):
    """A name that both segments match; `matched` has a bit for each of the others that matches it too."""

    matched: int
    name: str


@functools.lru_cache(maxsize=1 << 16)
def common_name(first: Segment, second: Segment) -> str | None:
    """Return a name that both segments match, or None if there is none."""
    if isinstance(first, str):
        return first if segment_matches(second, first) else None
    if isinstance(second, str):
        return second if first.matches(second) else None
    heads = first.head.startswith(second.head) or second.head.startswith(first.head)
    tails = first.tail.endswith(second.tail) or second.tail.endswith(first.tail)
    if not (heads and tails):
        return None
    if first.one_star and second.one_star:
        head, tail = max(first.head, second.head, key=len), max(first.tail, second.tail, key=len)
        # A combining mark at the start of the tail would melt into an `x`; nothing melts into a `q`.
        return f"{head}{'x' if tail.isascii() else 'q'}{tail}"
    for one, other in ((first, second), (second, first)):
        if one.sample and other.tokens == (None,):
            return one.sample
    found = shared_names(first, second, ())
    return found[0].name if found else None


@functools.lru_cache(maxsize=1 << 12)
def shared_names(first: Segment, second: Segment, others: tuple[Segment, ...]) -> tuple[Shared, ...]:
    """Return one name for each smallest set of the others that a name of both must match.

    Raises TooComplexError.
    """
    plain = first if isinstance(first, str) else second
    if isinstance(plain, str):
        if segment_matches(first, plain) and segment_matches(second, plain):
            return (Shared(_matched_by(others, plain), plain),)
        return ()
    found: dict[int, str] = {}
    for shared in _search(first, second, others):
        found.setdefault(shared.matched, shared.name)
        if shared.matched == 0:
            # A name that none of the others matches leaves more open than any other name could.
            return (shared,)
    return tuple(
        Shared(bits, name)
        for bits, name in found.items()
        if not any(less != bits and less & bits == less for less in found)
    )


def _matched_by(others: Sequence[Segment], name: str) -> int:
    return sum(1 << bit for bit, other in enumerate(others) if segment_matches(other, name))


def _search(first: Segment, second: Segment, others: tuple[Segment, ...]) -> Iterator[Shared]:
    everyone = (first, second, *others)
    alphabet = _representatives(everyone)
    one, two = _Steps(first, alphabet), _Steps(second, alphabet)
    rest = [_Steps(other, alphabet) for other in others]
    start: _State = (0, 0, tuple(steps.closed(1) for steps in rest), 0)
    reached_from: dict[_State, tuple[_State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        here, there, masks, dots = state
        if dots == 3 and one.ends_at(here) and two.ends_at(there):
            matched = sum(1 << bit for bit, steps in enumerate(rest) if steps.ends(masks[bit]))
            yield Shared(matched, _spelled(reached_from, state))
        for index, char in enumerate(alphabet):
            dots_then = dots + 1 if char == "." and dots < 2 else 3
            targets = [(a, b) for a in one.after(here, index) for b in two.after(there, index)]
            if not targets:
                continue
            masks_then = tuple(steps.step(mask, index) for steps, mask in zip(rest, masks, strict=True))
            for a, b in targets:
                then: _State = (a, b, masks_then, dots_then)
                if then not in reached_from:
                    reached_from[then] = (state, char)
                    queue.append(then)
        if len(reached_from) > MOST_STATES:
            raise TooComplexError


def _spelled(reached_from: dict[_State, tuple[_State, str] | None], state: _State) -> str:
    chars = []
    while (step := reached_from[state]) is not None:
        state, char = step
        chars.append(char)
    return "".join(reversed(chars))


def _representatives(segments: tuple[Segment, ...]) -> list[str]:
    """Return one code point of each class into which the segments' sets divide all code points."""
    sets = {chars for segment in segments for chars in char_sets(segment) if chars is not None}
    folded = any(segment.ignore_case for segment in segments if isinstance(segment, Glob))
    ordered = sorted(sets)
    found: dict[tuple[bool, ...], str] = {}
    # A combining mark after an `x` can melt into it, and the name is another then; nothing melts into a `q`.
    fillers = _FILLERS if all(low < 0x80 for chars in sets for low, _ in chars) else f"q{_FILLERS}"
    for char in fillers:
        if not folded or fold(char) == char:
            found.setdefault(_membership(ordered, ord(char)), char)
    bounds = sorted(
        {1, 0x110000, *(bound for chars in ordered for low, high in chars for bound in (low, high + 1))}
    )
    for low, after in itertools.pairwise(bounds):
        signature = _membership(ordered, low)
        if signature not in found:
            char = next((char for code in range(low, after) if _usable(char := chr(code), folded=folded)), "")
            if char:
                found[signature] = char
    return list(found.values())


def _membership(sets: list[CharSet], code: int) -> tuple[bool, ...]:
    return tuple(any(low <= code <= high for low, high in chars) for chars in sets)


def _usable(char: str, *, folded: bool) -> bool:
    return char not in "/\0" and not "\ud800" <= char <= "\udfff" and not (folded and fold(char) != char)


class _Steps:
    """Transitions of one segment's automaton: bit or place `n` means "the first n tokens are matched"."""

    def __init__(self, segment: Segment, alphabet: list[str]) -> None:
        self._tokens = char_sets(segment)
        self._stars = sum(1 << at for at, chars in enumerate(self._tokens) if chars is None)
        self._hits = [
            sum(
                1 << at
                for at, chars in enumerate(self._tokens)
                if chars is not None and any(low <= ord(char) <= high for low, high in chars)
            )
            for char in alphabet
        ]

    def closed(self, mask: int) -> int:
        """Add the places reached when a star matches nothing. Two stars are never adjacent."""
        return mask | ((mask & self._stars) << 1)

    def step(self, mask: int, index: int) -> int:
        """Advance a closed set of places by the alphabet's code point at an index."""
        return self.closed(((mask & self._hits[index]) << 1) | (mask & self._stars))

    def ends(self, mask: int) -> bool:
        """Return whether a set of places holds the end."""
        return bool(mask >> len(self._tokens) & 1)

    def ends_at(self, place: int) -> bool:
        """Return whether the end is reached from a place without another code point."""
        return self.ends(self.closed(1 << place))

    def after(self, place: int, index: int) -> list[int]:
        """Return the places after a code point, one by one: sets of them could grow without bound."""
        mask = self.closed(1 << place)
        found = [place] if self._stars >> place & 1 else []
        moved = (mask & self._hits[index]) << 1
        while moved:
            low = moved & -moved
            found.append(low.bit_length() - 1)
            moved ^= low
        return found
