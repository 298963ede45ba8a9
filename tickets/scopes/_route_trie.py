"""A tree of many routes, intersected with itself: which owners share a path, without trying every pair."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from tickets.scopes._segment_index import GlobIndex, NameIndex
from tickets.scopes._segment_intersection import common_name
from tickets.scopes.pattern import Route
from tickets.scopes.segment import ANY_DEPTH, ANY_NAME, Glob

_Pair: TypeAlias = tuple[int, int]
_Step: TypeAlias = tuple["Node", "Node", str]
"""Two nodes of the tree that one path leads to, and that path."""

_SEVERAL: Final = -1
_NOBODY: Final = -2
_FEW: Final = 8


def shared_paths(
    routes: Iterable[tuple[int, Route]], wanted: Callable[[int, int], bool]
) -> dict[tuple[int, int], str]:
    """Return a path for every two owners (the lower number first) that have routes matching the same path.

    `wanted` is asked once for each pair that is found, and only those it wants are kept.
    """
    return _walk(tree_of(routes), wanted)


def tree_of(routes: Iterable[tuple[int, Route]]) -> "Node":
    """Put the routes of many owners into one tree; the routes of each owner must be adjacent."""
    root = Node(0)
    count = 1
    for owner, route in routes:
        count = _insert(root, owner, route, count)
    return root


_NO_OWNERS: Final[list[int]] = []
_NO_NAMES: Final[dict[str, "Node"]] = {}
_NO_GLOBS: Final[dict[Glob, "Node"]] = {}


class Node:
    """The continuations of one prefix of routes."""

    __slots__ = (
        "all_below",
        "deep",
        "ends",
        "glob_index",
        "globs",
        "loops",
        "name_index",
        "number",
        "owner",
        "plain",
        "takers",
    )

    def __init__(self, number: int, *, loops: bool = False) -> None:
        self.number = number
        self.loops = loops
        """Whether this node stands behind a `**`: any segment leads back here."""
        # Most nodes are leaves: with a dict or two for each, the collector took half the time.
        self.plain: dict[str, Node] = _NO_NAMES
        self.globs: dict[Glob, Node] = _NO_GLOBS
        self.deep: Node | None = None
        self.ends: list[int] = _NO_OWNERS
        self.takers: list[int] = _NO_OWNERS
        """The owners of all paths that lead to this node or below it."""
        self.owner = _NOBODY
        """The one owner of all routes that pass this node, or _SEVERAL."""
        self.name_index: NameIndex | None = None
        self.glob_index: GlobIndex | None = None
        self.all_below: list[tuple[int, str]] | None = None

    def pass_by(self, owner: int) -> None:
        """Note that a route of an owner passes this node or ends at it."""
        if self.owner != owner:
            self.owner = owner if self.owner == _NOBODY else _SEVERAL

    def below(self) -> list[tuple[int, str]]:
        """Return the owner of each route that ends here or below, with a path that leads there."""
        if self.all_below is None:
            found = [(owner, "") for owner in (*self.ends, *self.takers)]
            if self.deep is not None:
                found += self.deep.below()
            for name, child in [*self.plain.items(), *self.named_globs()]:
                found += [(owner, f"{name}/{rest}" if rest else name) for owner, rest in child.below()]
            self.all_below = found
        return self.all_below

    def named_globs(self) -> "Iterator[tuple[str, Node]]":
        """Yield a name that each glob here matches, with the node that follows it."""
        for glob, child in self.globs.items():
            name = common_name(glob, ANY_NAME)
            if name is not None:
                yield name, child

    def names_matching(self, glob: Glob) -> Iterable[str]:
        """Return the plain segments here that a glob matches."""
        if len(self.plain) <= _FEW:
            return [name for name in self.plain if glob.matches(name)]
        if self.name_index is None:
            self.name_index = NameIndex(self.plain)
        return self.name_index.matching(glob)

    def globs_matching(self, name: str) -> Iterable[Glob]:
        """Return the globs here that match a name."""
        if len(self.globs) <= _FEW:
            return [glob for glob in self.globs if glob.matches(name)]
        return self.indexed_globs().matching(name)

    def globs_agreeing(self, glob: Glob) -> Iterable[Glob]:
        """Return the globs here that may share a name with another."""
        return self.globs if len(self.globs) <= _FEW else self.indexed_globs().agreeing(glob)

    def indexed_globs(self) -> GlobIndex:
        """Return the globs here as an index."""
        if self.glob_index is None:
            self.glob_index = GlobIndex(self.globs)
        return self.glob_index


def _insert(root: Node, owner: int, route: Route, count: int) -> int:
    node = root
    takes_all = route[-1] is ANY_DEPTH
    for segment in route[:-1] if takes_all else route:
        node.pass_by(owner)
        if isinstance(segment, str):
            if node.plain is _NO_NAMES:
                node.plain = {}
            child = node.plain.get(segment)
            if child is None:
                child = node.plain[segment] = Node(count)
        elif segment is ANY_DEPTH:
            child = node.deep
            if child is None:
                child = node.deep = Node(count, loops=True)
        else:
            if node.globs is _NO_GLOBS:
                node.globs = {}
            child = node.globs.get(segment)
            if child is None:
                child = node.globs[segment] = Node(count)
        count += child.number == count
        node = child
    node.pass_by(owner)
    if takes_all:
        node.takers = _added(node.takers, owner)
    else:
        node.ends = _added(node.ends, owner)
    return count


def _added(owners: list[int], owner: int) -> list[int]:
    if owners is _NO_OWNERS:
        return [owner]
    if owners[-1] != owner:
        owners.append(owner)
    return owners


def _walk(root: Node, wanted: Callable[[int, int], bool]) -> dict[_Pair, str]:
    found: dict[_Pair, str | None] = {}
    seen: set[_Pair] = set()
    stack: list[_Step] = [(root, root, "")]
    while stack:
        one, two, path = stack.pop()
        if one.owner == two.owner != _SEVERAL:
            continue
        if one.owner != _SEVERAL != two.owner and _ordered(one.owner, two.owner) in found:
            continue
        key = _ordered(one.number, two.number)
        if key in seen:
            continue
        seen.add(key)
        start = f"{path}/" if path else ""
        for ours, theirs in ((one.takers, two), (two.takers, one)):
            if ours:
                _keep(ours, theirs.below(), start, found, wanted)
        if one.ends and two.ends:
            _keep(one.ends, [(owner, "") for owner in two.ends], start, found, wanted)
        _follow(one, two, path, stack)
    return {pair: path for pair, path in found.items() if path is not None}


def _ordered(one: int, two: int) -> _Pair:
    return (one, two) if one < two else (two, one)


def _keep(
    ours: list[int],
    theirs: list[tuple[int, str]],
    start: str,
    found: dict[_Pair, str | None],
    wanted: Callable[[int, int], bool],
) -> None:
    for one in ours:
        for two, rest in theirs:
            pair = (one, two) if one < two else (two, one)
            if one != two and pair not in found:
                found[pair] = (start + rest).rstrip("/") or "x" if wanted(*pair) else None


def _follow(one: Node, two: Node, path: str, stack: list[_Step]) -> None:
    if one.deep is not None:
        stack.append((one.deep, two, path))
    if two.deep is not None and one is not two:
        stack.append((one, two.deep, path))
    start = f"{path}/" if path else ""
    if one.loops:
        _follow_any(one, two, start, stack)
    if two.loops and one is not two:
        _follow_any(two, one, start, stack)
    if (one.plain or one.globs) and (two.plain or two.globs):
        _follow_both(one, two, start, stack)


def _follow_any(staying: Node, moving: Node, start: str, stack: list[_Step]) -> None:
    stack.extend((staying, child, start + name) for name, child in moving.plain.items())
    stack.extend((staying, child, start + name) for name, child in moving.named_globs())


def _follow_both(one: Node, two: Node, start: str, stack: list[_Step]) -> None:
    if one is two:
        stack.extend(
            (child, child, start + name) for name, child in one.plain.items() if child.owner == _SEVERAL
        )
    else:
        few, many = (one.plain, two.plain) if len(one.plain) <= len(two.plain) else (two.plain, one.plain)
        stack.extend((child, many[name], start + name) for name, child in few.items() if name in many)
        _follow_globs_and_names(two, one, start, stack)
    _follow_globs_and_names(one, two, start, stack)
    fewer, more = (one, two) if len(one.globs) <= len(two.globs) else (two, one)
    for glob, child in fewer.globs.items():
        for other in more.globs_agreeing(glob):
            name = common_name(glob, other)
            if name is not None:
                stack.append((child, more.globs[other], start + name))


def _follow_globs_and_names(globs: Node, names: Node, start: str, stack: list[_Step]) -> None:
    if len(globs.globs) <= len(names.plain):
        for glob, child in globs.globs.items():
            stack.extend((child, names.plain[name], start + name) for name in names.names_matching(glob))
    else:
        for name, child in names.plain.items():
            stack.extend((child, globs.globs[glob], start + name) for glob in globs.globs_matching(name))
