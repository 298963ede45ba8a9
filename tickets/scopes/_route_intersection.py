"""A path that two routes match and others do not: the product of their automata, segment by segment."""

from collections import deque
from collections.abc import Collection, Iterator
from typing import TypeAlias

from tickets.scopes._segment_intersection import MOST_STATES, TooComplexError, common_name, shared_names
from tickets.scopes.pattern import Route, route_matches
from tickets.scopes.segment import ANY_DEPTH, Segment

_Rest: TypeAlias = frozenset[Route]
_State: TypeAlias = tuple[Route, Route, _Rest]
_Path: TypeAlias = tuple["_Path | None", str] | None


def find_witness(first: Route, second: Route, without: Collection[Route] = ()) -> str | None:
    """Return a path that both routes match and none of the others does, or None if there is none.

    Raises TooComplexError when the routes left out need too many states.
    """
    start = _without_common_start(first, second)
    if start is None:
        return None
    found = _search((*start[1:], frozenset()), start[0])
    if found is None or not without:
        return found
    names = found.split("/")
    if not any(route_matches(route, names) for route in without):
        return found
    return _search((first, second, _closed(without)), None)


def _without_common_start(first: Route, second: Route) -> tuple[_Path, Route, Route] | None:
    path: _Path = None
    at = 0
    for one, two in zip(first, second, strict=False):
        if not (isinstance(one, str) and isinstance(two, str)):
            break
        if one != two:
            return None
        path = (path, one)
        at += 1
    return path, first[at:], second[at:]


def _search(start: _State, path: _Path) -> str | None:
    seen = {start}
    queue: deque[tuple[_State, _Path]] = deque([(start, path)])
    while queue:
        (first, second, others), path = queue.popleft()
        if path is not None and () not in others and _may_end(first) and _may_end(second):
            return _spelled(path)
        for one, first_then in _moves(first):
            for two, second_then in _moves(second):
                if one is two is ANY_DEPTH and path is not None and not others:
                    continue
                for name, others_then in _steps(one, two, others):
                    then = (first_then, second_then, others_then)
                    if then not in seen or path is None:
                        seen.add(then)
                        queue.append((then, (path, name)))
        if len(seen) > MOST_STATES:
            raise TooComplexError
    return None


def _steps(one: Segment, two: Segment, others: _Rest) -> Iterator[tuple[str, _Rest]]:
    """Yield names that both segments match, each with what then remains of the routes to avoid."""
    if not others:
        name = common_name(one, two)
        if name is not None:
            yield name, others
        return
    # Sorted, so that the same question has the same key in the cache and the same answer in every process.
    active = sorted({route[0] for route in others if route and route[0] is not ANY_DEPTH}, key=repr)
    staying = {route for route in others if route and route[0] is ANY_DEPTH}
    for matched, name in shared_names(one, two, tuple(active)):
        hit = {segment for bit, segment in enumerate(active) if matched >> bit & 1}
        then = _closed([*staying, *(route[1:] for route in others if route and route[0] in hit)])
        # A route that avoids `**` avoids it for every further segment.
        if (ANY_DEPTH,) not in then:
            yield name, then


def _moves(route: Route) -> Iterator[tuple[Segment, Route]]:
    """Yield the segments that can come next, each with the rest of the route after it."""
    if route and route[0] is ANY_DEPTH:
        yield ANY_DEPTH, route
        route = route[1:]
    if route:
        yield route[0], route[1:]


def _may_end(route: Route) -> bool:
    return not route or route == (ANY_DEPTH,)


def _closed(routes: Collection[Route]) -> _Rest:
    """Add the rest of each route whose `**` matches no segment."""
    return frozenset(routes) | {route[1:] for route in routes if route and route[0] is ANY_DEPTH}


def _spelled(path: _Path) -> str:
    names = []
    while path is not None:
        path, name = path
        names.append(name)
    return "/".join(reversed(names))
