"""A path pattern, parsed to routes: what remains when braces, `.`, `..` and links are resolved."""

import functools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tickets.problems import Problem, TicketError
from tickets.scopes._segment_intersection import common_name
from tickets.scopes.segment import (
    ANY_DEPTH,
    ANY_NAME,
    NOT_NAMES,
    Glob,
    Segment,
    SegmentError,
    fold,
    parse_segment,
    segment_matches,
)

Route: TypeAlias = tuple[Segment, ...]
"""Segments from the root down; it matches a path when they match its segments one by one."""
Links: TypeAlias = Mapping[str, str | None]
"""Symlinks: path to real path, both relative to the root; None for a link that leaves it."""

NO_LINKS: Final[Links] = MappingProxyType({})
MOST_ALTERNATIVES: Final = 1_000
LONGEST_PATTERN: Final = 4_096
DEEPEST_PATTERN: Final = 256
_MOST_LINKS_FOLLOWED: Final = 40

_BRACE_PARTS: Final = re.compile(r"\\.|[{},]|[^\\{},]+|\\", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\{}\[*?]")
_SEQUENCE: Final = re.compile(r"-?\w+\.\.-?\w+(\.\.-?\w+)?")


class PatternError(TicketError):
    """Raised for patterns that cannot be owned; the place of each problem is the pattern's text."""


class Pattern(NamedTuple):
    """One pattern as it was written, and its routes."""

    text: str
    routes: tuple[Route, ...]
    ignore_case: bool = False

    def matches(self, path: str) -> bool:
        """Return whether the pattern owns a path, relative to the root."""
        names = split_path(path, ignore_case=self.ignore_case)
        return names is not None and any(route_matches(route, names) for route in self.routes)


def parse_pattern(text: str, *, ignore_case: bool = False, links: Links = NO_LINKS) -> Pattern:
    """Read one pattern. Raises PatternError.

    A pattern without wildcards, or one that ends in `/`, also owns all below it; `.` is the whole repository.
    A `..` is taken back from where a link leads, as the system does it.
    """
    return parse_normalised(text, ignore_case, normalised_links(links, ignore_case=ignore_case))


def parse_normalised(text: str, ignore_case: bool, links: Links) -> Pattern:  # noqa: FBT001 - called per pattern
    """Read one pattern whose links are spelled as by `normalised_links`. Raises PatternError."""
    return _parse(text, ignore_case, links) if links else _parse_without_links(text, ignore_case)


def normalised_links(links: Links, *, ignore_case: bool) -> Links:
    """Spell the paths of links in the form in which patterns are compared."""
    if not links:
        return links
    return {"/".join(split_path(path, ignore_case=ignore_case) or ()): to for path, to in links.items()}


def split_path(path: str, *, ignore_case: bool) -> tuple[str, ...] | None:
    """Return a path's names in the form in which routes are compared, or None if it is not below the root."""
    if not path.isascii():
        path = unicodedata.normalize("NFC", path)
    names = (fold(path) if ignore_case else path).split("/")
    return None if "\0" in path or not NOT_NAMES.isdisjoint(names) else tuple(names)


def route_matches(route: Route, names: Sequence[str]) -> bool:
    """Return whether the segments of a route match names one by one."""
    at, here, deep, mark = 0, 0, -1, 0
    # As within a segment: going back to the last `**` alone is enough.
    while here < len(names):
        if at < len(route) and route[at] is ANY_DEPTH:
            deep, mark, at = at, here, at + 1
        elif at < len(route) and segment_matches(route[at], names[here]):
            at, here = at + 1, here + 1
        elif deep >= 0:
            mark += 1
            at, here = deep + 1, mark
        else:
            return False
    return all(segment is ANY_DEPTH for segment in route[at:])


@functools.lru_cache(maxsize=1 << 12)
def _parse_without_links(text: str, ignore_case: bool) -> Pattern:  # noqa: FBT001 - as parse_normalised
    # The same few state files are excluded from every scope.
    return _parse(text, ignore_case, NO_LINKS)


def _parse(text: str, ignore_case: bool, links: Links) -> Pattern:  # noqa: FBT001 - as parse_normalised
    try:
        _check_length(text)
        plain = text if text.isascii() else unicodedata.normalize("NFC", text)
        if "{" not in plain and "}" not in plain:
            return Pattern(text, (_route(plain, ignore_case, links),), ignore_case)
        routes = [_route(alternative, ignore_case, links) for alternative in _expand(plain)]
    except SegmentError as error:
        raise PatternError(Problem(text, error.what, error.do)) from None
    return Pattern(text, tuple(dict.fromkeys(routes)), ignore_case)


def _route(text: str, ignore_case: bool, links: Links) -> Route:  # noqa: FBT001 - called for every alternative
    _check_start(text)
    special = _SPECIAL.search(text) is not None
    if not special and ignore_case:
        text = fold(text)
    if not (special or links):
        names = text.split("/")
        if NOT_NAMES.isdisjoint(names) and len(names) < DEEPEST_PATTERN:
            return (*names, ANY_DEPTH)  # most patterns are such paths, and a phase may have fifty thousand
    route: list[Segment] = []
    wild = False
    for raw in text.split("/"):
        plain = not special or (_SPECIAL.search(raw) is None and not ignore_case)
        segment = raw if plain else parse_segment(raw, ignore_case=ignore_case)
        if segment in {"", "."}:
            continue
        if segment == "..":
            if wild:
                raise SegmentError("`..` comes after a wildcard", "write the path without `..`")
            if not route:
                raise SegmentError("the path leaves the repository", "name a path below its root")
            route.pop()
            continue
        if isinstance(segment, Glob):
            wild = True
            if not segment.sample and common_name(segment, ANY_NAME) is None:
                raise SegmentError(f"`{raw}` matches no file name", "write it without the impossible class")
            if segment is ANY_DEPTH and route and route[-1] is ANY_DEPTH:
                continue
        route.append(segment)
        if links and not wild:
            route = _real(route, links, ignore_case)
    if (not wild or text.endswith("/")) and not (route and route[-1] is ANY_DEPTH):
        route.append(ANY_DEPTH)
    if len(route) > DEEPEST_PATTERN:
        raise SegmentError("the path is too deep", f"keep it below {DEEPEST_PATTERN} segments")
    return tuple(route)


def _check_length(text: str) -> None:
    if not text:
        raise SegmentError("the pattern is empty", "name a path, or `.` for the whole repository")
    if len(text) > LONGEST_PATTERN:
        raise SegmentError("the pattern is too long", f"keep it below {LONGEST_PATTERN} characters")


def _check_start(text: str) -> None:
    if not text:
        raise SegmentError("one of the alternatives is empty", "name a path in each of them")
    if text[0] == "/":
        raise SegmentError("the path is absolute", "write it relative to the repository's root")
    if text[0] in "!-":
        what = "a pattern cannot start with !" if text[0] == "!" else "a pattern cannot start with -"
        raise SegmentError(what, f"use `excludes` to leave paths out, or ./{text[0]} for a file of that name")
    if "\0" in text:
        raise SegmentError("the path holds a NUL", "remove it")


def _real(route: list[Segment], links: Links, ignore_case: bool) -> list[Segment]:  # noqa: FBT001 - as _route
    """Resolve the link at the end of a plain route, and the links on the way to its target."""
    rest = [str(segment) for segment in reversed(route)]
    real: list[str] = []
    followed = 0
    while rest:
        name = rest.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            if not real:
                raise SegmentError("a link on the path leaves the repository", "own the files themselves")
            real.pop()
            continue
        real.append(name)
        here = "/".join(real)
        if here not in links:
            continue
        target = links[here]
        followed += 1
        if target is None or target.startswith("/"):
            raise SegmentError(f"the link {here} leaves the repository", "own a path inside it")
        if followed > _MOST_LINKS_FOLLOWED:
            raise SegmentError(f"the link {here} leads back to itself", "own the files themselves")
        plain = unicodedata.normalize("NFC", target)
        rest += reversed((fold(plain) if ignore_case else plain).split("/"))
        real = []
    return list(real)


def _expand(text: str) -> list[str]:
    """Expand the braces of a pattern; escapes stay for the segments to read."""
    outer: list[tuple[list[str], list[str]]] = []
    done: list[str] = []
    current = [""]
    for part in _BRACE_PARTS.findall(text):
        if part == "{":
            outer.append((done, current))
            done, current = [], [""]
        elif part == "," and outer:
            done, current = _capped([*done, *current]), [""]
        elif part == "}":
            if not outer:
                raise SegmentError("a } was never opened", r"write \} for the character itself")
            if not done and len(current) == 1 and _SEQUENCE.fullmatch(current[0]):
                raise SegmentError(
                    f"{{{current[0]}}} is not a range here", "write the alternatives out, with commas"
                )
            inner = [*done, *current]
            done, before = outer.pop()
            _capped(range(len(before) * len(inner)))
            current = [start + end for start in before for end in inner]
        else:
            current = [start + part for start in current]
    if outer:
        raise SegmentError("a { is never closed", r"close it with }, or write \{ for the character itself")
    return list(dict.fromkeys(current))


def _capped(alternatives: list[str] | range) -> list[str]:
    if len(alternatives) > MOST_ALTERNATIVES:
        raise SegmentError(
            f"the braces stand for more than {MOST_ALTERNATIVES} patterns", "use `*`, or split the ticket"
        )
    return alternatives if isinstance(alternatives, list) else []
