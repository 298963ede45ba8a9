"""Values from JSON that another process may have changed, checked against the annotations of NamedTuples.

An unfenced worker can write into a run's directory, and half a record can stand in it after a full disk: a
number that is none, or a path that leads out of the project, would surface long after it was read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

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
    values = []
    for name, types, read, default in _fields_of(cls):
        value = found.get(name, _ABSENT)
        if value is _ABSENT:
            if default is _ABSENT:
                raise UnsoundError(name)
            value = default
        elif read is not None:
            value = read(value)
        elif type(value) not in types:
            raise UnsoundError(name)
        values.append(value)
    made: T = tuple.__new__(cast("Any", cls), values)  # faster than its own `__new__`, which names each field
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


def checked(is_kind: Callable[[Any], bool]) -> Reader:
    """Return a reader to annotate a type with, by which the check alone decides."""

    def read(value: Any) -> Any:
        if not is_kind(value):
            raise UnsoundError(value)
        return value

    return read


def unread(_: Any) -> Any:
    """Mark what no reader of ours needs, `Annotated[TYPE, unread]`: its default stands for it."""


def is_name(value: Any) -> bool:
    """Return whether a value can be the name of a file, and of nothing outside its folder."""
    return isinstance(value, str) and value.isprintable() and "/" not in value and value.strip(".") != ""


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_amount(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value < math.inf


def is_time(value: Any) -> bool:
    """Return whether a value is a time as we write it: ISO 8601, with its zone."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _is_inside(value: Any) -> bool:
    return type(value) is str and "\0" not in value and value[:1] != "/" and ".." not in value.split("/")


TEXT = checked(_is_text)
"""For a `Literal` of which an older or a newer version may know other words."""
Name = Annotated[str, checked(is_name)]
Count = Annotated[int, checked(_is_count)]
"""Attempts, numbered from one."""
Amount = Annotated[float, checked(_is_amount)]
"""Seconds or USD."""
Tokens = Annotated[int, checked(_is_amount)]
Time = Annotated[str, checked(is_time)]
"""ISO 8601, with its zone."""
Inside = Annotated[str, checked(_is_inside)]
"""A path, relative to the project, that stays in it."""


class _Field(NamedTuple):
    name: str
    types: frozenset[type]
    read: Reader | None
    """Where an exact type does not say it all."""
    default: Any


_ABSENT = object()
_JSON = frozenset((str, int, bool, float, NoneType))
_KNOWN: dict[type, tuple[_Field, ...]] = {}


def _fields_of(cls: Any) -> tuple[_Field, ...]:
    if cls not in _KNOWN:
        fields = []
        for name, kind in cls.__annotations__.items():
            default = cls._field_defaults.get(name, _ABSENT)
            types, read = _kind_of(kind)
            fields.append(_Field(name, types, _constant(default) if read is unread else read, default))
        _KNOWN[cls] = tuple(fields)
    return _KNOWN[cls]


def _constant(value: Any) -> Reader:
    return lambda _: value


def _kind_of(kind: Any) -> tuple[frozenset[type], Reader | None]:
    """Return the exact types that an annotation permits, or how it is read."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is None or kind in _JSON:
        return frozenset((kind or NoneType,)), None
    if origin is Annotated:
        return frozenset(), parts[1]
    if origin is Literal:
        return frozenset(), checked(lambda value: type(value) is str and value in parts)
    if origin in {UnionType, Union}:
        return _union_of(parts)
    if origin is tuple:
        return frozenset(), _list_reader(parts[0])
    if origin is not None and issubclass(origin, Mapping):
        return frozenset(), _mapping_reader(parts[1])
    return frozenset(), lambda value: typed(kind, value)


def _union_of(parts: Sequence[Any]) -> tuple[frozenset[type], Reader | None]:
    kinds = [_kind_of(part) for part in parts]
    types = frozenset[type]().union(*(types for types, _ in kinds))
    readers = [read for _, read in kinds if read is not None]
    if not readers:
        return types, None
    (read,) = readers  # beside plain types, most often None
    return frozenset(), lambda value: value if type(value) in types else read(value)


def _list_reader(part: Any) -> Reader:
    types, read_one = _kind_of(part)

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise UnsoundError(value)
        if read_one is not None:
            return tuple(map(read_one, value))
        if not all(type(one) in types for one in value):
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
        if not all(type(one) in types for one in value.values()):
            raise UnsoundError(value)
        return value

    return read
