"""Jinja2 as templates may use it: sandboxed, strict, one file, no surprises. The only user of jinja2."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment

MAX_RENDERED = 10_000_000  # characters; a loop in a loop must not fill the memory of the runtime
_FILE = "<template>"
_MARKS = ("{{", "{%", "{#")


class Choices(dict[str, Any]):
    """A mapping that a template sees under a name, so that a missing key can be explained."""

    def __init__(self, name: str, values: Mapping[str, Any], *, otherwise: str = "") -> None:
        super().__init__(values)
        self.name = name
        self.otherwise = otherwise


class Fault(NamedTuple):
    """What is wrong with one string; `line` counts within that string, from 1."""

    line: int
    what: str
    do: str
    certain: bool = True
    """False: it may be due to what a stand-in held."""


class Fill(NamedTuple):
    """A string once rendered; `text` is empty where there are faults."""

    text: str
    faults: tuple[Fault, ...] = ()


def nearest(word: str, known: Collection[str]) -> str:
    """Say which known word was probably meant; empty where none is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def faults_of(source: str) -> tuple[Fault, ...]:
    """Find what is wrong with a string whatever the values are: its syntax, and what it may not use."""
    return _compiled(source).faults if has_marks(source) else ()


def unknown_names(
    source: str, known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> tuple[Fault, ...]:
    """Find the names that a string uses and nobody defines, in branches too that no values take."""
    return tuple(
        Fault(
            line,
            f"`{name}` is not defined",
            (elsewhere or {}).get(name) or nearest(name, known) or "known are " + ", ".join(sorted(known)),
        )
        for name, line in (_compiled(source).names if has_marks(source) else ())
        if name not in known
    )


def fill(source: str, values: Mapping[str, Any], *, elsewhere: Mapping[str, str] | None = None) -> Fill:
    """Render a string. `elsewhere` says of names that are not there where they would be.

    Never raises: whatever a template does wrong comes back as faults.
    """
    if not has_marks(source):
        return Fill(source)
    compiled = _compiled(source)
    if compiled.template is None:
        return Fill("", compiled.faults)
    if unknown := unknown_names(source, tuple(values), elsewhere):
        return Fill("", unknown)
    pieces: list[str] = []
    size = 0
    try:
        for piece in compiled.template.generate(values):
            size += len(piece)
            if size > MAX_RENDERED:
                return Fill(
                    "", (Fault(1, f"renders to more than {MAX_RENDERED:,} characters", "shorten it"),)
                )
            pieces.append(piece)
    except _MissingKeyError as error:
        return Fill("", (Fault(_line(error), str(error), error.do),))
    except UndefinedError as error:
        return Fill("", (Fault(_line(error), str(error), "check the expression", certain=False),))
    except SecurityError as error:
        return Fill("", (Fault(_line(error), str(error), "templates may not do this"),))
    except Exception as error:  # noqa: BLE001 - an expression in a template can raise whatever Python can
        return Fill("", (Fault(_line(error), f"{type(error).__name__}: {error}", "check it", certain=False),))
    return Fill("".join(pieces))


class _MissingKeyError(UndefinedError):
    """A key that a `Choices` does not hold."""

    do = ""


class _Missing(StrictUndefined):
    """Names what is not there in the template's own words."""

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: Any = None, exc: Any = UndefinedError
    ) -> None:
        if isinstance(obj, Choices):
            hint = f"`{obj.name}` has no `{name}`"
            do = nearest(str(name), obj) or obj.otherwise
            exc = type("MissingKeyError", (_MissingKeyError,), {"do": do})
        super().__init__(hint, obj, name, exc)


class _Environment(SandboxedEnvironment):
    """Looks into a `Choices` before its methods: a matrix may have a key named `items`."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Choices):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse what would fill the memory: repeated strings, powers, printf widths."""
        if operator == "**" or (operator in "*%" and not (_is_number(left) and _is_number(right))):
            raise SecurityError(f"`{operator}` is for numbers of a usual size only")
        return super().call_binop(context, operator, left, right)


class _Compiled(NamedTuple):
    template: Template | None
    names: tuple[tuple[str, int], ...]
    faults: tuple[Fault, ...]


_ENVIRONMENT = _Environment(
    undefined=_Missing,
    autoescape=False,  # prompts are Markdown for an agent, never HTML for a browser
    keep_trailing_newline=True,
)
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


@lru_cache(maxsize=512)
def _compiled(source: str) -> _Compiled:
    try:
        tree = _ENVIRONMENT.parse(source)
        others = tuple(
            Fault(node.lineno, "reads another file", "write its text here: a template is one file")
            for node in tree.find_all(_OTHER_FILES)
        )
        if others:
            return _Compiled(None, (), others)
        return _Compiled(_ENVIRONMENT.from_string(tree), tuple(_names(tree)), ())
    except TemplateSyntaxError as error:
        what = f"is not valid Jinja2: {error.message}"
        return _Compiled(
            None, (), (Fault(error.lineno, what, "close it, or wrap literal braces in {% raw %}"),)
        )
    except Exception as error:  # noqa: BLE001 - the compiler gives up in other ways too (nesting, huge numbers)
        return _Compiled(
            None, (), (Fault(1, f"cannot be compiled: {type(error).__name__}", "make it simpler"),)
        )


def _names(tree: nodes.Template) -> list[tuple[str, int]]:
    """List the names that the template takes from outside, each where it stands first."""
    outside = find_undeclared_variables(tree)
    found: dict[str, int] = {}
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load" and node.name in outside:
            found.setdefault(node.name, node.lineno)
    return sorted(found.items(), key=lambda pair: pair[1])


def has_marks(source: str) -> bool:
    """Tell whether there is anything to render: most strings of front matter hold nothing of the kind."""
    return any(mark in source for mark in _MARKS)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e12


def _line(error: BaseException) -> int:
    """Find the line of the template in the traceback, which Jinja2 rewrites to say it."""
    line, frame = 1, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == _FILE:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
