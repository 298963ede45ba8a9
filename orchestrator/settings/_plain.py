"""Values of well-formed TOML, made without pydantic, which takes longer to import than most commands run."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from orchestrator.settings.values import ByName, Number, Text

T = TypeVar("T")


class UnclearError(ValueError):
    """Raised for a value that is wrong, or valid in a form that only the models know."""


def plain(kind: type[T], table: object) -> T:
    """Return a NamedTuple made from a table, each value by its annotation. Raises UnclearError."""
    known: Mapping[str, Any] = kind.__annotations__
    if type(table) is not dict or not table.keys() <= known.keys():
        raise UnclearError
    try:
        return kind(**{name: _value(known[name], value) for name, value in table.items()})
    except TypeError:
        raise UnclearError from None  # a key is missing


def _value(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _READ[type(parts[1])](parts[0], parts[1], value)
    if origin is Literal:
        return _sound(value, is_sound=type(value) is str and value in parts)
    if origin is tuple:
        items = _sound(value, is_sound=type(value) is list)
        return tuple([_value(parts[0], item) for item in items])
    if origin is Mapping:
        items = _sound(value, is_sound=type(value) is dict)
        return {name: _value(parts[1], item) for name, item in items.items()}
    if NoneType in parts:
        return _value(parts[0], value)  # TOML has no null
    if hasattr(kind, "_fields"):
        return plain(kind, value)
    return _sound(value, is_sound=type(value) is kind)


def _number(kind: Any, number: Number, value: object) -> Any:
    try:
        found = number.read(value)
    except ValueError:
        raise UnclearError from None
    if type(found) is int and kind is float:
        found = float(found)
    return _sound(found, is_sound=type(found) is kind and number.within(found))


def _text(kind: Any, text: Text, value: Any) -> Any:
    try:
        return text.check(_value(kind, value))
    except ValueError:
        raise UnclearError from None


def _by_name(_: type, by_name: ByName, value: Any) -> dict[str, Any]:
    tables = _sound(value, is_sound=type(value) is dict and value.keys() <= by_name.kinds.keys())
    return {name: plain(by_name.kinds[name], table) for name, table in tables.items()}


_READ: Mapping[type, Callable[..., Any]] = {Number: _number, Text: _text, ByName: _by_name}


def _sound(value: Any, *, is_sound: bool) -> Any:
    if not is_sound:
        raise UnclearError
    return value
