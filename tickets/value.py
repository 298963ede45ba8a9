"""Values with named fields, whose classes are defined in a seventh of a NamedTuple's time.

A question of a lead takes some 40 ms of processor time. To define a NamedTuple takes 0.1 ms, and each
question would define fifty. To make one value takes longer: what is made by the thousand is a NamedTuple.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Self, dataclass_transform

SCALARS = frozenset((str, int, bool, float, type(None)))
"""The types of what JSON has beside objects and lists."""


@dataclass_transform(frozen_default=True)
class _ValueType(type):
    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "_ValueType":
        fields = tuple(one for one in body.get("__annotations__", ()) if one[0] != "_")
        defaults = {one: body.pop(one) for one in fields if one in body}
        getters = {one: property(itemgetter(at)) for at, one in enumerate(fields)}
        own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
        return super().__new__(cls, name, bases, {**body, **getters, **own})


class Value(tuple[Any, ...], metaclass=_ValueType):
    """A tuple with named fields, declared like a NamedTuple."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]]
    _field_defaults: ClassVar[Mapping[str, Any]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Return a value of the class, with the defaults of missing fields."""
        fields, defaults = cls._fields, cls._field_defaults
        if len(values) == len(fields) and not named:
            return tuple.__new__(cls, values)
        rest = fields[len(values) :]
        more = (named.pop(one) if one in named else defaults[one] for one in rest)
        try:
            made = tuple.__new__(cls, [*values, *more])
        except KeyError as missing:
            raise TypeError(f"{cls.__name__} lacks {missing}") from None
        if named or len(made) != len(fields):
            raise TypeError(f"{cls.__name__}: {values}, {named}")
        return made

    def __repr__(self) -> str:
        """Return the class and its fields as source text."""
        return f"{type(self).__name__}({', '.join(f'{name}={one!r}' for name, one in self._pairs())})"

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        return zip(self._fields, self, strict=True)

    def _asdict(self) -> dict[str, Any]:
        return dict(self._pairs())

    def _replace(self, **changes: Any) -> Self:
        made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(changes)}")
        return made


def as_json(value: Any) -> Any:
    """Return a value with its Values as objects and its tuples as lists, as JSON has them."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if hasattr(value, "_fields"):
        return {name: as_json(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(one) for one in value]
    return value
