"""What is wrong with settings, and where: pydantic models of the NamedTuples in `values.py`.

Imported only where the plain reader gives up: pydantic takes longer to import than most commands run.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    create_model,
)

from orchestrator.settings.toml_text import FILE
from orchestrator.settings.values import ByName, Tables, Text
from tickets.problems import Problem


class _Section(BaseModel):
    # Keys are aliases, since `copy` is a method of each model.
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=lambda name: name.removesuffix("_")
    )


def checked(values: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values as the plain reader reads them, or every problem, each with its line of `text`."""
    try:
        found = _model_of(Tables).model_validate(values)
    except ValidationError as error:
        lines = text.splitlines()
        return {}, [_problem(dict(one), values, lines) for one in error.errors()]
    return _as_lists(found.model_dump(by_alias=True, exclude_unset=True)), []


def _as_lists(value: Any) -> Any:
    """Return a value as TOML has it."""
    if isinstance(value, dict):
        return {name: _as_lists(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


@cache
def _model_of(kind: Any) -> type[BaseModel]:
    """Return a model with the keys of a NamedTuple."""
    fields: dict[str, Any] = {
        f"{name}_": (_annotation_of(of), kind._field_defaults.get(name, ...))
        for name, of in kind.__annotations__.items()
    }
    made: type[BaseModel] = create_model(kind.__name__, __base__=_Section, **fields)
    return made


def _annotation_of(kind: Any) -> Any:
    """Return an annotation as pydantic reads it."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is bool:
        return StrictBool
    if hasattr(kind, "_fields"):
        return _model_of(kind)
    if origin is Mapping:
        return dict[str, _annotation_of(parts[1])]  # type: ignore[misc]  # made at run time
    if origin is tuple:
        return tuple[_annotation_of(parts[0]), ...]  # type: ignore[misc]  # as above
    if origin is not Annotated:
        return _annotation_of(parts[0]) | None if type(None) in parts else kind
    rule = parts[1]
    if isinstance(rule, Text):
        return Annotated[_annotation_of(parts[0]), AfterValidator(rule.check)]
    if isinstance(rule, ByName):
        return _model_of_names(tuple(rule.kinds.items()))
    bounds: dict[str, Any] = {"le": rule.most, "ge": rule.least, "gt": rule.above}
    limits = Field(**{name: most for name, most in bounds.items() if most is not None}, allow_inf_nan=False)
    return Annotated[parts[0], BeforeValidator(rule.read), limits]


@cache
def _model_of_names(kinds: tuple[tuple[str, Any], ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {f"{name}_": (_model_of(kind) | None, None) for name, kind in kinds}
    made: type[BaseModel] = create_model("Tables", __base__=_Section, **fields)
    return made


_LONGEST = 80
"""Characters of a value that a message quotes."""
_SAID = {
    "tuple_type": ("not a list", 'write it in brackets: `["..."]`'),
    "string_type": ("not text", "put it in quotes"),
    "bool_type": ("neither true nor false", "write `true` or `false`, without quotes"),
    "dict_type": ("not a table", 'write one for each model: `[prices."MODEL"]`'),
    "model_type": ("not a table", "write its keys below a line `[{name}]`"),
    "greater_than": ("too small", "write more than 0"),
    "greater_than_equal": ("too small", "write 0 or more"),
    "less_than_equal": ("too large", "write {most:_} or less"),
    "finite_number": ("without an end", "write a number"),
    "int_parsing_size": ("too large", "write a smaller number"),
    "int_type": ("not a whole number", "write a number"),
    "int_from_float": ("not a whole number", "write a whole number"),
    "float_type": ("not a number", "write a number"),
}
"""Messages for the faults that pydantic names by a word."""


def _problem(error: Mapping[str, Any], values: Mapping[str, Any], lines: Sequence[str]) -> Problem:
    *above, name = error["loc"]
    where = ".".join(f'"{part}"' if "." in str(part) else str(part) for part in (*above, name))
    place = _place((*above, name), lines)
    if error["type"] == "missing":
        return Problem(place, f"`{where}` is missing", f"write `{name} = ...` there as well")
    if error["type"] == "extra_forbidden":
        known = _keys_at(above)
        if above[0:1] == ["prices"] and isinstance(values["prices"][above[1]][name], dict):
            do = f'put the whole name of the model in quotes: `[prices."{above[1]}.{name}"]`'
            return Problem(place, f"`{where}` is a table of its own", do)
        return Problem(place, f"unknown key `{where}`", _nearest(name, known) or f"known: {', '.join(known)}")
    given: Any = values
    for part in (*above, name):
        given = given[part]
    if error["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        do = _nearest(given, known) or f"write one of: {', '.join(known)}"
        return Problem(place, f"`{where}` is {given!r}: not a word that is known here", do)
    what, _, do = str(error["msg"]).removeprefix("Value error, ").partition("; ")
    said = "model_type" if error["type"] == "dict_type" and name == "env" else error["type"]
    what, do = _SAID.get(said, (what, do or "fix that value"))
    do = do.format(name=where, most=int(error.get("ctx", {}).get("le", 0)))
    return Problem(place, f"`{where}` is {_shown(given)}: {what}", do)


def _shown(given: object) -> str:
    said = repr(given)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _nearest(word: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word), known, 1)
    return f"did you mean `{near[0]}`?" if near else ""


def _place(path: Sequence[object], lines: Sequence[str]) -> str:
    """Return the line of a key, or else that of the nearest table around it."""
    names = [str(part) for part in path if not isinstance(part, int)]
    table: list[str] = []
    best, number = 0, 0
    for at, line in enumerate(lines, 1):
        head = re.match(r"\s*\[+([^\]]+)\]", line)
        if head:
            table = _keys_in(head[1])
            here = table
        else:
            key = re.match(r"\s*([\w.\"'-]+)\s*=", line)
            here = [*table, *_keys_in(key[1])] if key else []
        if len(here) > best and names[: len(here)] == here:
            best, number = len(here), at
    return f"{FILE}:{number}" if number else FILE


def _keys_in(dotted: str) -> list[str]:
    """Split a key of TOML; the name of a model has dots of its own, within quotes."""
    parts = re.findall(r"""\"([^"]*)"|'([^']*)'|([^\s."']+)""", dotted)
    return ["".join(part) for part in parts]


def _keys_at(above: Sequence[str]) -> list[str]:
    kind: Any = Tables
    for part in above:
        kind = get_args(kind)[1] if get_origin(kind) is Mapping else _kinds_in(kind)[part]
    return list(_kinds_in(kind))


def _kinds_in(kind: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (
        get_args(kind)[1].kinds if get_origin(kind) is Annotated else kind.__annotations__
    )
    return found
