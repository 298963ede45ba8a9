"""Strings compiled and rendered by Jinja2: sandboxed, strict, one file. The only user of jinja2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment

from tickets.templates._faults import MAX_RENDERED, Choices, Fault, Fill, nearest
from tickets.templates._quoting import marked

_FILE = "<template>"


class Compiled(NamedTuple):
    """A string that Jinja2 has compiled."""

    template: Template | None
    names: tuple[tuple[str, int], ...]
    """The names that it takes from outside, each with the line where it stands first."""
    faults: tuple[Fault, ...]


def render(template: Template, values: Mapping[str, Any]) -> Fill:
    """Render a string. Never raises: every mistake of the template is returned as a fault."""
    pieces: list[str] = []
    size = 0
    try:
        for piece in template.generate(values):
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
        return Fill("", (Fault(_line(error), str(error), "templates must not do this"),))
    except Exception as error:  # noqa: BLE001 - an expression in a template can raise whatever Python can
        return Fill("", (Fault(_line(error), f"{type(error).__name__}: {error}", "check it", certain=False),))
    return Fill("".join(pieces))


class _MissingKeyError(UndefinedError):
    """Raised for a key that a `Choices` does not hold."""

    do = ""


class _Missing(StrictUndefined):
    """An undefined value, which is named in the template's own words."""

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: Any = None, exc: Any = UndefinedError
    ) -> None:
        if isinstance(obj, Choices):
            hint = f"`{obj.name}` has no `{name}`"
            do = nearest(str(name), obj) or obj.otherwise
            exc = type("MissingKeyError", (_MissingKeyError,), {"do": do})
        super().__init__(hint, obj, name, exc)


class _Environment(SandboxedEnvironment):
    """Looks up keys of a `Choices` before its methods: a matrix may have a key named `items`."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Choices):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse operations that could fill the memory: repeated strings, powers, printf widths."""
        if operator == "**" or (operator in "*%" and not (_is_number(left) and _is_number(right))):
            raise SecurityError(f"`{operator}` is for numbers of a usual size only")
        return super().call_binop(context, operator, left, right)


_ENVIRONMENT = _Environment(
    undefined=_Missing,
    autoescape=False,  # prompts are Markdown for an agent, never HTML for a browser
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["quoted"] = marked
QUOTED = frozenset({"outputs", "status", "decisions"})
"""Values that others wrote: what is made of them is quoted."""
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


@lru_cache(maxsize=512)
def compiled(source: str) -> Compiled:
    """Compile a string, and return its faults."""
    try:
        tree = _ENVIRONMENT.parse(source)
        others = tuple(
            Fault(node.lineno, "reads another file", "write its text here: a template is one file")
            for node in tree.find_all(_OTHER_FILES)
        )
        if others:
            return Compiled(None, (), others)
        names = tuple(_names(tree))
        _quote(tree)
        return Compiled(_ENVIRONMENT.from_string(tree), names, ())
    except TemplateSyntaxError as error:
        what = f"is not valid Jinja2: {error.message}"
        return Compiled(
            None, (), (Fault(error.lineno, what, "close it, or wrap literal braces in {% raw %}"),)
        )
    except Exception as error:  # noqa: BLE001 - the compiler gives up in other ways too (nesting, huge numbers)
        return Compiled(
            None, (), (Fault(1, f"cannot be compiled: {type(error).__name__}", "make it simpler"),)
        )


def _quote(tree: nodes.Template) -> None:
    """Mark each value that is inserted and made of what others wrote, by whatever name or expression."""
    names = _made_of(tree)
    for output in tree.find_all(nodes.Output):
        output.nodes = [_marked(node) if _mentions(node, names) else node for node in output.nodes]


def _marked(node: nodes.Expr) -> nodes.Expr:
    marked_by = nodes.Filter(node, "quoted", [], [], None, None)
    marked_by.set_lineno(node.lineno).set_environment(_ENVIRONMENT)
    return marked_by


def _made_of(tree: nodes.Template) -> set[str]:
    """Return the names whose values others may have written: `QUOTED`, and what is assigned from them."""
    pairs: list[tuple[nodes.Node, nodes.Node]] = []
    pairs += [(one.target, one.iter) for one in tree.find_all(nodes.For)]
    pairs += [(one.target, one.node) for one in tree.find_all(nodes.Assign)]
    for each in tree.find_all(nodes.With):
        pairs += zip(each.targets, each.values, strict=True)
    # What a macro is called with may come from anywhere.
    pairs += [(argument, tree) for one in tree.find_all(nodes.Macro) for argument in one.args]
    pairs += [(argument, tree) for one in tree.find_all(nodes.CallBlock) for argument in one.args]
    names, before = set(QUOTED), 0
    while len(names) > before:
        before = len(names)
        names |= {name for target, value in pairs if _mentions(value, names) for name in _named(target)}
    return names


def _mentions(node: nodes.Node, names: set[str]) -> bool:
    return any(name in names for name in _named(node))


def _named(node: nodes.Node) -> list[str]:
    found = [node, *node.find_all((nodes.Name, nodes.NSRef))]
    return [one.name for one in found if isinstance(one, nodes.Name | nodes.NSRef)]


def _names(tree: nodes.Template) -> list[tuple[str, int]]:
    """List the names that the template does not define itself, each at its first use."""
    outside = find_undeclared_variables(tree)
    found: dict[str, int] = {}
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load" and node.name in outside:
            found.setdefault(node.name, node.lineno)
    return sorted(found.items(), key=lambda pair: pair[1])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e12


def _line(error: BaseException) -> int:
    """Return the line of the template from the traceback, which Jinja2 rewrites for this."""
    line, frame = 1, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == _FILE:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
