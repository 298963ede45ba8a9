"""Values from JSON that another process may have changed, checked against the annotations of their classes.

An unfenced worker can write into a run's directory, and half a record can stand in it after a full disk: a
number that is none, or a path that leads out of the project, would surface long after it was read.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from tickets.value import SCALARS, Value, as_json

Reader = Callable[[Any], Any]
"""Returns the value of a part of JSON. Raises UnsoundError."""
T = TypeVar("T")


class UnsoundError(ValueError):
    """Raised for a value of another shape than ours."""


def typed(cls: type[T], found: Any) -> T:
    """Return a Value or NamedTuple made from a JSON object, with defaults. Raises UnsoundError."""
    if type(found) is not dict:
        raise UnsoundError(cls.__name__)
    shape = _SHAPES.get(cls) or _shape_of(cls)
    made: T = tuple.__new__(cast("Any", cls), shape.values_of(found))
    return made


# What an annotation can require: `Annotated[TYPE, MARK]`, where a mark is a reader, or a number's limit


def text(value: Any) -> Any:
    """Mark a `Literal` that may have other members in older or newer versions: any text is accepted."""


def unread(value: Any) -> Any:
    """Mark a field that no reader of ours needs: its default is used."""


def _name(value: Any) -> str:
    if not is_name(value):
        raise UnsoundError(value)
    return cast("str", value)


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
Count = Annotated[int, 10**6]
"""Attempts of one worker, numbered from one; the limit is far above any real number."""
Amount = Annotated[float, 10**15]
"""Seconds or USD."""
Tokens = Annotated[int, 10**15]
Time = Annotated[str, _time]
"""ISO 8601, with its zone."""
Inside = Annotated[str, _inside]
"""A path, relative to the project, that stays in it."""


def is_name(value: Any) -> bool:
    """Return whether a value can be the name of a file, and of nothing outside its folder."""
    return isinstance(value, str) and value.isprintable() and "/" not in value and value.strip(".") != ""


def is_time(value: Any) -> bool:
    """Return whether a value is a time in our format: ISO 8601, with its zone."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


class _Kind(Value):
    """The values that an annotation permits: exact types, and further conditions."""

    types: frozenset[type] | None
    """None where the reader decides."""
    below: float | None = None
    """A number is not negative, and less than this."""
    words: frozenset[str | None] | None = None
    items: frozenset[type] | None = None
    """The exact types of a list's items."""
    read: Reader | None = None


class _Shape:
    """The fields of a NamedTuple, with the check of each.

    A `status` may read the journals of ten thousand workers, so nothing is called for a field that a look at
    its value can check, and the types of all fields are compared at once with those that were right before.
    """

    def __init__(self, annotations: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self._names = names = tuple(annotations)
        kinds = [_kind_of(annotation) for annotation in annotations.values()]
        self._types = [kind.types for kind in kinds]
        self._numbers = [(at, kind.below) for at, kind in enumerate(kinds) if kind.below is not None]
        self._words = [(at, kind.words) for at, kind in enumerate(kinds) if kind.words is not None]
        self._lists = [(at, kind.items) for at, kind in enumerate(kinds) if kind.items is not None]
        self._readers = [
            (at, kind.read) for at, kind in enumerate(kinds) if kind.read and kind.read is not unread
        ]
        self._unread = [(at, defaults[names[at]]) for at, kind in enumerate(kinds) if kind.read is unread]
        self._is_plain = not (self._words or self._lists or self._readers or self._unread)
        self._defaults = as_json(defaults)
        self._get = itemgetter(*names) if len(names) > 1 else None
        self._known: set[tuple[type, ...]] = set()

    def values_of(self, found: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values of an object in the order of the fields. Raises UnsoundError."""
        if len(found) < len(self._names):
            found = {**self._defaults, **found}
        try:
            values = self._get(found) if self._get else tuple(found[name] for name in self._names)
        except KeyError as error:
            if error.args[0] not in self._defaults:
                raise UnsoundError(*error.args) from None
            return self.values_of({**self._defaults, **found})
        kinds = tuple(map(type, values))
        if kinds not in self._known:
            self._check(kinds)
        for at, below in self._numbers:
            if (number := values[at]) is not None and not 0 <= number < below:
                raise UnsoundError(self._names[at])
        return values if self._is_plain else self._read(list(values))

    def _read(self, values: list[Any]) -> list[Any]:
        for at, words in self._words:
            if values[at] not in words:
                raise UnsoundError(self._names[at])
        for at, items in self._lists:
            if (listed := values[at]) is not None:
                if not items.issuperset(map(type, listed)):
                    raise UnsoundError(self._names[at])
                values[at] = tuple(listed)
        for at, read in self._readers:
            values[at] = read(values[at])
        for at, default in self._unread:
            values[at] = default
        return values

    def _check(self, kinds: tuple[type, ...]) -> None:
        for name, kind, types in zip(self._names, kinds, self._types, strict=True):
            if types is not None and kind not in types:
                raise UnsoundError(name)
        self._known.add(kinds)


_TEXT, _NOTHING = frozenset((str,)), frozenset((NoneType,))
_SHAPES: dict[type, _Shape] = {}


def _kind_of(annotation: Any) -> _Kind:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation in SCALARS:
        return _Kind(frozenset((annotation,)))
    if origin is Annotated:
        return _marked(*parts)
    if origin is Literal:
        return _Kind(_TEXT, words=frozenset(parts))
    if origin in {UnionType, Union}:
        return _or_none(*(_kind_of(part) for part in parts if part is not NoneType))
    if origin is tuple:
        items = _kind_of(parts[0])
        if items[1:] == (None, None, None, None):
            return _Kind(frozenset((list,)), items=items.types)
        return _Kind(frozenset((list,)), read=_each(_reader(parts[0])))
    if origin is not None and issubclass(origin, Mapping):
        return _Kind(frozenset((dict,)), read=_each_value(_reader(parts[1])))
    return _Kind(None, read=_reader(annotation))


def _marked(kind: Any, mark: Any) -> _Kind:
    if mark is text:
        return _Kind(_TEXT)
    if isinstance(mark, int | float):
        return _Kind(frozenset((int, float) if kind is float else (int,)), below=mark)
    return _Kind(None, read=mark)


def _or_none(kind: _Kind) -> _Kind:
    read = kind.read
    return kind._replace(
        types=None if kind.types is None else kind.types | _NOTHING,
        words=None if kind.words is None else kind.words | {None},
        read=None if read is None else lambda value: None if value is None else read(value),
    )


def _reader(annotation: Any) -> Reader:
    """Return the reader of one item of a list or a mapping."""
    if hasattr(annotation, "_fields"):
        return _object_reader(annotation)
    shape = _Shape({"one": annotation}, {})
    return lambda value: shape.values_of({"one": value})[0]


def _shape_of(cls: Any) -> _Shape:
    return _SHAPES.setdefault(cls, _Shape(cls.__annotations__, cls._field_defaults))


def _object_reader(cls: Any) -> Reader:
    shape = _shape_of(cls)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise UnsoundError(cls.__name__)
        return tuple.__new__(cls, shape.values_of(value))

    return read


def _each(read: Reader) -> Reader:
    return lambda value: tuple(map(read, value)) if value else ()


def _each_value(read: Reader) -> Reader:
    return lambda value: {name: read(one) for name, one in value.items()}
