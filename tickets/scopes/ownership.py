"""The owner of each existing file: the map that a lead reads before a phase runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tickets.scopes._route_trie import Node, tree_of
from tickets.scopes.pattern import Pattern, split_path
from tickets.scopes.scope import Scope

NOBODY: frozenset[int] = frozenset()


class Ownership(NamedTuple):
    """The files of a repository by owner."""

    owned: Mapping[str, int]
    """By ticket, how many existing files it owns."""
    unowned: tuple[str, ...]
    """Files without an owner, in order, without those that may have none."""
    reserved: int
    """How many files may have no owner."""


class _Place(NamedTuple):
    """A folder's position in the tree of all patterns."""

    nodes: tuple[Node, ...]
    """The nodes of the patterns that match the folder's path so far."""
    takers: frozenset[int]
    """The owners of everything below it."""


def ownership(files: Iterable[str], scopes: Mapping[str, Scope], reserved: Scope) -> Ownership:
    """Find the owners of each file, folder by folder: the time does not grow with the number of tickets.

    `reserved` is what every scope excludes. Scopes and `reserved` all ignore case, or none does.
    """
    names, values = list(scopes), list(scopes.values())
    known = set(reserved.owns)
    nobody_may = _Map([reserved.owns])
    owners = _Map([scope.owns for scope in values])
    left_out = _Map([[one for one in scope.excludes if one not in known] for scope in values])
    counts = [0] * len(names)
    unowned: list[str] = []
    kept_back = 0
    for file in files:
        path = split_path(file, ignore_case=reserved.ignore_case)
        if path is None:
            continue
        if nobody_may.owners(path):
            kept_back += 1
            continue
        found = owners.owners(path)
        if found:
            found -= left_out.owners(path)
        for number in found:
            counts[number] += 1
        if not found:
            unowned.append(file)
    return Ownership(dict(zip(names, counts, strict=True)), tuple(sorted(unowned)), kept_back)


class _Map:
    """The patterns of many owners, asked for one path after another; each folder is resolved once."""

    def __init__(self, patterns: Sequence[Iterable[Pattern]]) -> None:
        routes = (
            (number, route) for number, many in enumerate(patterns) for one in many for route in one.routes
        )
        start = tuple(_with_deeper([tree_of(routes)]))
        self._places: dict[tuple[str, ...], _Place] = {(): _Place(start, _takers(start, NOBODY))}

    def owners(self, path: tuple[str, ...]) -> frozenset[int]:
        """Return the numbers of the owners of a path."""
        nodes, takers = _step(self._place(path[:-1]), path[-1])
        ends = [owner for node in nodes for owner in node.ends]
        return takers.union(ends) if ends else takers

    def _place(self, path: tuple[str, ...]) -> _Place:
        depth = len(path)
        while path[:depth] not in self._places:
            depth -= 1
        place = self._places[path[:depth]]
        for at in range(depth, len(path)):
            place = self._places[path[: at + 1]] = _step(place, path[at])
        return place


def _step(place: _Place, name: str) -> _Place:
    if not place.nodes:
        return place
    found: dict[int, Node] = {}
    for node in place.nodes:
        if node.loops:
            found[node.number] = node
        if (plain := node.plain.get(name)) is not None:
            found[plain.number] = plain
        for glob in node.globs_matching(name) if node.globs else ():
            child = node.globs[glob]
            found[child.number] = child
    nodes = tuple({node.number: node for node in _with_deeper(found.values())}.values())
    return _Place(nodes, _takers(nodes, place.takers))


def _with_deeper(nodes: Iterable[Node]) -> Iterator[Node]:
    """Add the nodes that a `**` leads to when it matches no segment."""
    for node in nodes:
        at: Node | None = node
        while at is not None:
            yield at
            at = at.deep


def _takers(nodes: Iterable[Node], known: frozenset[int]) -> frozenset[int]:
    found = [owner for node in nodes for owner in node.takers]
    return known.union(found) if found else known
