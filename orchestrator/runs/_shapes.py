"""Values from JSON that another process may have changed, checked against the annotations of NamedTuples.

An unfenced worker can write into a run's directory, and half a record can stand in it after a full disk: a
number that is none, or a path that leads out of the project, would surface long after it was read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

MOST = 10**6
"""Attempts of one worker, far above what any could make."""

Reader = Callable[[Any], Any]
"""Returns the value that a part of JSON stands for. Raises UnsoundError."""
T = TypeVar("T")


class UnsoundError(ValueError):
    """A value has another shape than ours."""


def typed(cls: type[T], found: Any) -> T:
    """Return a NamedTuple made of a JSON object; only fields with a default may lack. Raises UnsoundError."""
    if type(found) is not dict:
        raise UnsoundError(cls.__name__)
    shape = _SHAPES.get(cls) or _SHAPES.setdefault(cls, _Shape(cls))
    made: T = tuple.__new__(cast("Any", cls), shape.values_of(found))
    return made


def as_json(value: Any) -> Any:
    """Return a value with its NamedTuples as objects and its tuples as lists, as `typed` reads it back."""
    if type(value) in _JSON:
        return value
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if hasattr(value, "_fields"):
        return {name: as_json(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(one) for one in value]
    return value


# What an annotation can ask for: `Annotated[TYPE, READER]`


def unread(_: Any) -> Any:
    """Mark what no reader of ours needs: its default stands for it."""


def text(value: Any) -> str:
    """Accept any text: for a `Literal` of which an older or a newer version may know other words."""
    if type(value) is not str:
        raise UnsoundError(value)
    return value


def _name(value: Any) -> str:
    if not is_name(value):
        raise UnsoundError(value)
    return cast("str", value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < MOST:
        raise UnsoundError(value)
    return value


def _amount(value: Any) -> float:
    if type(value) not in {int, float} or not 0 <= value < math.inf:
        raise UnsoundError(value)
    return cast("float", value)


def _time(value: Any) -> str:
    if not is_time(value):
        raise UnsoundError(value)
    return cast("str", value)


def _inside(value: Any) -> str:
    if type(value) is not str or "\0" in value or value[:1] == "/" or ".." in value.split("/"):
        raise UnsoundError(value)
    return value


Name = Annotated[str, _name]
"""A file's name."""
Count = Annotated[int, _count]
"""Attempts, numbered from one."""
Amount = Annotated[float, _amount]
"""Seconds or USD."""
Tokens = Annotated[int, _amount]
Time = Annotated[str, _time]
"""ISO 8601, with its zone."""
Inside = Annotated[str, _inside]
"""A path, relative to the project, that stays in it."""


def is_name(value: Any) -> bool:
    """Return whether a value can be the name of a file, and of nothing outside its folder."""
    return isinstance(value, str) and value.isprintable() and "/" not in value and value.strip(".") != ""


def is_time(value: Any) -> bool:
    """Return whether a value is a time as we write it: ISO 8601, with its zone."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


class _Shape:
    """The fields of a NamedTuple, and how each of them is read.

    Most of what is read has the types of what was read before: a journal of ten thousand workers is read by
    each `status`, so those are known as a whole and not asked for one by one.
    """

    def __init__(self, cls: Any) -> None:
        self._names = tuple(cls._fields)
        self._defaults = cls._field_defaults
        kinds = [_kind_of(cls.__annotations__[name]) for name in self._names]
        self._types = [types for types, _ in kinds]
        """The exact types that each field may have; None where its reader says."""
        self._readers = [
            (at, _constant(self._defaults[self._names[at]]) if read is unread else read)
            for at, (_, read) in enumerate(kinds)
            if read is not None
        ]
        self._get = itemgetter(*self._names) if len(self._names) > 1 else None
        self._known: set[tuple[type, ...]] = set()

    def values_of(self, found: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values of an object in the order of the fields. Raises UnsoundError."""
        try:
            values = [*self._get(found)] if self._get else [found[name] for name in self._names]
        except KeyError:
            return self._filled(found)
        self._check(tuple(map(type, values)))
        for at, read in self._readers:
            values[at] = read(values[at])
        return values

    def _filled(self, found: Mapping[str, Any]) -> Sequence[Any]:
        values = [found.get(name, _ABSENT) for name in self._names]
        absent = [at for at, value in enumerate(values) if value is _ABSENT]
        if not all(self._names[at] in self._defaults for at in absent):
            raise UnsoundError(self._names)
        for at, types in enumerate(self._types):
            if types is not None and at not in absent and type(values[at]) not in types:
                raise UnsoundError(self._names[at])
        for at, read in self._readers:
            values[at] = values[at] if at in absent else read(values[at])
        for at in absent:
            values[at] = self._defaults[self._names[at]]
        return values

    def _check(self, kinds: tuple[type, ...]) -> None:
        if kinds in self._known:
            return
        for name, kind, types in zip(self._names, kinds, self._types, strict=True):
            if types is not None and kind not in types:
                raise UnsoundError(name)
        self._known.add(kinds)


_ABSENT = object()
_JSON = frozenset((str, int, bool, float, NoneType))
_SHAPES: dict[type, _Shape] = {}


def _constant(value: Any) -> Reader:
    return lambda _: value


def _kind_of(kind: Any) -> tuple[frozenset[type] | None, Reader | None]:
    """Return the exact types that an annotation permits, or how it is read where that does not say it all."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _JSON:
        return frozenset((kind,)), None
    if origin is Annotated:
        return None, parts[1]
    if origin is Literal:
        return None, _word_reader(frozenset(parts))
    if origin in {UnionType, Union}:
        return _union_of(parts)
    if origin is tuple:
        return None, _list_reader(parts[0])
    if origin is not None and issubclass(origin, Mapping):
        return None, _mapping_reader(parts[1])
    return None, lambda value: typed(kind, value)


def _union_of(parts: Sequence[Any]) -> tuple[frozenset[type] | None, Reader | None]:
    kinds = [_kind_of(part) for part in parts]
    types = frozenset[type]().union(*(types for types, _ in kinds if types))
    readers = [read for _, read in kinds if read is not None]
    if not readers:
        return types, None
    (read,) = readers  # beside plain types, most often None
    return None, lambda value: value if type(value) in types else read(value)


def _word_reader(words: frozenset[str]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str or value not in words:
            raise UnsoundError(value)
        return value

    return read


def _list_reader(part: Any) -> Reader:
    types, read_one = _kind_of(part)

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise UnsoundError(value)
        if read_one is not None:
            return tuple(map(read_one, value))
        if not types or not types.issuperset(map(type, value)):
            raise UnsoundError(value)
        return tuple(value)

    return read


def _mapping_reader(part: Any) -> Reader:
    types, read_one = _kind_of(part)

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise UnsoundError(value)
        if read_one is not None:
            return {name: read_one(one) for name, one in value.items()}
        if not types or not types.issuperset(map(type, value.values())):
            raise UnsoundError(value)
        return value

    return read
