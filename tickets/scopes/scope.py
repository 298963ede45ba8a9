"""Scopes: the paths that a ticket owns while it runs, and the proof that two scopes share none.

A path is text here: one that does not exist yet counts as much as one that does.
"""

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from tickets.problems import Problem
from tickets.scopes._route_intersection import find_witness
from tickets.scopes._route_trie import shared_paths
from tickets.scopes._segment_intersection import TooComplexError
from tickets.scopes.pattern import (
    NO_LINKS,
    Links,
    Pattern,
    PatternError,
    Route,
    normalised_links,
    parse_normalised,
    parse_pattern,
    route_matches,
    split_path,
)
from tickets.scopes.segment import ANY_DEPTH
from tickets.value import Value

__all__ = [
    "Overlap",
    "Pattern",
    "PatternError",
    "Scope",
    "collector_at_rest",
    "find_overlaps",
    "parse_pattern",
]

_EVERYTHING: Route = (ANY_DEPTH,)


class Overlap(NamedTuple):
    """Two scopes, and a path that both cover."""

    first: str
    second: str
    witness: str


class Scope(Value):
    """The paths that match one of `owns` and none of `excludes`.

    Two scopes can only be compared when both or neither ignore case (else ValueError). What compares them
    raises PatternError when the excludes are too complex to decide; ordinary patterns never are.
    """

    owns: tuple[Pattern, ...]
    excludes: tuple[Pattern, ...] = ()
    ignore_case: bool = False

    @classmethod
    def of(
        cls,
        owns: Iterable[str],
        excludes: Iterable[str] = (),
        *,
        ignore_case: bool = False,
        links: Links = NO_LINKS,
        files: Container[str] = frozenset(),
    ) -> "Scope":
        """Read the patterns of a scope. Raises PatternError with every bad pattern.

        `files` are known to be regular files: a pattern that names one owns it alone, and nothing below it.
        So `src/README.md` and `src/**/*.py` share no path, as everybody expects.
        """
        links = normalised_links(links, ignore_case=ignore_case)
        problems: list[Problem] = []

        def parsed(texts: Iterable[str]) -> tuple[Pattern, ...]:
            patterns = []
            for text in texts:
                try:
                    pattern = parse_normalised(text, ignore_case, links)
                    patterns.append(_without_below(pattern, files) if files else pattern)
                except PatternError as error:
                    problems.extend(error.problems)
            return tuple(patterns)

        scope = cls(parsed(owns), parsed(excludes), ignore_case)
        if problems:
            raise PatternError(*problems)
        return scope

    def covers(self, path: str) -> bool:
        """Return whether a path, relative to the root, is owned and not excluded."""
        names = split_path(path, ignore_case=self.ignore_case)
        return names is not None and _any_matches(self.owns, names) and not _any_matches(self.excludes, names)

    def leaves_out(self, path: str) -> bool:
        """Return whether a path is excluded, owned or not."""
        if not self.excludes:
            return False
        names = split_path(path, ignore_case=self.ignore_case)
        return names is None or _any_matches(self.excludes, names)

    def overlaps(self, other: "Scope") -> str | None:
        """Return a path, existing or not, that both scopes cover; None if there provably is none."""
        _check_comparable(self, other)
        without = tuple(dict.fromkeys([*_routes(self.excludes), *_routes(other.excludes)]))
        return _first_witness(self.owns, other.owns, without)

    def within(self, other: "Scope") -> bool:
        """Return whether the other scope covers every path of this one."""
        _check_comparable(self, other)
        excluded = _routes(self.excludes)
        outside = (*excluded, *_routes(other.owns))
        if any(_witness(self, own, _EVERYTHING, outside) for own in _routes(self.owns)):
            return False
        return _first_witness(self.owns, other.excludes, excluded) is None

    def is_empty(self) -> bool:
        """Return whether the scope covers no path at all."""
        excluded = _routes(self.excludes)
        return not any(_witness(self, own, _EVERYTHING, excluded) for own in _routes(self.owns))


def never(_first: str, _second: str) -> bool:
    """Return False: no two scopes may overlap."""
    return False


def find_overlaps(
    scopes: Mapping[str, Scope], may_overlap: Callable[[str, str], bool] = never
) -> list[Overlap]:
    """Return every two scopes that share a path, in the order of the mapping, without those that may."""
    names, values = list(scopes), list(scopes.values())
    for value in values[1:]:
        _check_comparable(values[0], value)
    exact: dict[tuple[int, int], str] = {}

    def wanted(first: int, second: int) -> bool:
        return not may_overlap(names[first], names[second])

    routes = ((number, route) for number, value in enumerate(values) for route in _routes(value.owns))
    with collector_at_rest():
        shared_by = shared_paths(routes, wanted)
    for (first, second), path in shared_by.items():
        one, two = values[first], values[second]
        # The tree knows nothing of excludes; most often the path it found is not excluded.
        shared = one.overlaps(two) if one.leaves_out(path) or two.leaves_out(path) else path
        if shared is not None:
            exact[first, second] = shared
    return [Overlap(names[first], names[second], exact[first, second]) for first, second in sorted(exact)]


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Suspend the garbage collector while many values are made that are all kept.

    With fifty thousand patterns, its scans of all of them take half the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _without_below(pattern: Pattern, files: Container[str]) -> Pattern:
    """Remove the paths below a known file from a pattern; one that ends in `/` means a folder anyway."""
    if pattern.text.endswith("/") or pattern.ignore_case:
        return pattern
    routes = tuple(
        route[:-1]
        if route[-1] is ANY_DEPTH
        and all(isinstance(name, str) for name in route[:-1])
        and "/".join(map(str, route[:-1])) in files
        else route
        for route in pattern.routes
    )
    return pattern if routes == pattern.routes else Pattern(pattern.text, routes, pattern.ignore_case)


def _routes(patterns: Iterable[Pattern]) -> tuple[Route, ...]:
    return tuple(route for pattern in patterns for route in pattern.routes)


def _any_matches(patterns: Iterable[Pattern], names: tuple[str, ...]) -> bool:
    return any(route_matches(route, names) for pattern in patterns for route in pattern.routes)


def _check_comparable(one: Scope, two: Scope) -> None:
    if one.ignore_case != two.ignore_case:
        raise ValueError("one scope ignores case and the other does not; read both for the same file system")


def _first_witness(
    ours: tuple[Pattern, ...], theirs: tuple[Pattern, ...], without: tuple[Route, ...]
) -> str | None:
    for own in ours:
        for pattern in theirs:
            try:
                for one in own.routes:
                    for two in pattern.routes:
                        found = find_witness(one, two, without)
                        if found is not None:
                            return found
            except TooComplexError:
                raise _too_complex(own.text) from None
    return None


def _witness(scope: Scope, own: Route, other: Route, without: tuple[Route, ...]) -> str | None:
    try:
        return find_witness(own, other, without)
    except TooComplexError:
        raise _too_complex(scope.owns[0].text) from None


def _too_complex(place: str) -> PatternError:
    return PatternError(
        Problem(place, "the excludes are too complex to compare", "use fewer `?` and `*` in one segment")
    )
