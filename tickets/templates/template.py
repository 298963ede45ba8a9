"""Template files, read and checked as far as possible without values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from tickets.problems import Problem, TicketError
from tickets.scopes.pattern import PatternError, parse_pattern
from tickets.templates._front_matter import Fields, Items, Node, Scalar, read_source
from tickets.templates._keys import AGENTS, KEYS, WrongValueError
from tickets.templates.jinja import Fault, faults_of, has_marks, nearest, unknown_names
from tickets.ticket import AssignedPlan, variable_fault
from tickets.value import Value

PATTERNS = ("owns", "excludes", "reads")
FOLDER = "docs/worker-ticket-templates"
_DELIVERABLE = re.compile(rb"\{[{%][^{}]*\bdeliverable\b")


class Values(Value):
    """The values of a project that a template may use."""

    project: str
    phase: str
    """The phase that is to run; a template that names none belongs to it."""
    deliverable: str = ""
    """The current one, for templates that name none."""
    status: str = ""
    """The text of STATUS.md."""
    decisions: str = ""
    """The text of DECISIONS.md."""
    plans: tuple[AssignedPlan, ...] | None = None
    """Those of the phase that have not landed; None: those that the phase worker's template names."""


BODY_NAMES = (*Values._fields, "worker", "matrix", "outputs", "ticket")


class Template(NamedTuple):
    """One template file, read and checked as far as possible without values."""

    path: str
    stem: str
    fields: Fields
    body: str
    body_line: int
    digest: str = ""
    """Of its bytes, whatever its line ends."""
    uses_deliverable: bool = False
    """Whether it uses the name of the current deliverable."""


def _plain(data: bytes) -> bytes:
    """Return a text without what differs between two checkouts of it."""
    return data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")


def is_template(path: str) -> bool:
    """Return whether a file of the templates' folder is a template: Markdown, neither README nor hidden."""
    name = PurePosixPath(path).name.lower()
    return name.endswith(".md") and name != "readme.md" and not name.startswith(".")


def read_template(path: str, data: bytes) -> Template:
    """Read one template; `path` is relative to the root. Raises TicketError with every problem of it."""
    source = read_source(path, data)
    uses_deliverable = _DELIVERABLE.search(data) is not None
    template = Template(
        path, PurePosixPath(path).stem, source.fields, source.body, source.body_line,
        sha256(_plain(data)).hexdigest(), uses_deliverable,
    )  # fmt: skip
    problems = list(_stem_problems(template))
    for name, node in source.fields.values.items():
        problems += _key_problems(path, name, node)
    broken = faults_of(source.body)
    problems += [problem_at(template, source.body_line, fault, "the body") for fault in broken]
    if not source.body.strip() and not _may_be_empty(template):
        problems.append(
            Problem(f"{path}:{source.body_line}", "there is no prompt", "write it below the front matter")
        )
    if problems:
        # Nothing of it will be rendered, so faults that do not depend on values are reported now.
        unknown = () if broken else unknown_names(source.body, BODY_NAMES)
        also = (problem_at(template, source.body_line, fault, "the body") for fault in unknown)
        raise TicketError(*problems, *wrong_values(path, source.fields), *also)
    return template


def read_templates(files: Mapping[str, bytes]) -> tuple[list[Template], list[Problem]]:
    """Read the templates among some files: those without faults, and the problems of the others."""
    templates: list[Template] = []
    problems: list[Problem] = []
    for path in filter(is_template, files):
        try:
            templates.append(read_template(path, files[path]))
        except TicketError as error:
            problems += error.problems
    return templates, problems


def agent_of(stem: str) -> str | None:
    """Return the agent that the first word of a file's name means, if it is one."""
    word = re.split(r"[-_. +]", stem, maxsplit=1)[0].lower()
    return word if word in AGENTS else None


def problem_at(template: Template, line: int, fault: Fault, where: str) -> Problem:
    """Return the problem of a fault in a string that begins at `line`."""
    return Problem(f"{template.path}:{line + fault.line - 1}", f"{where}: {fault.what}", fault.do)


_STEM = re.compile(r"\w[\w.+-]*")
_MATRIX_NAME = re.compile(r"[A-Za-z_]\w*")


def _stem_problems(template: Template) -> Iterator[Problem]:
    if not _STEM.fullmatch(template.stem):
        do = "name the file with letters, digits, `-`, `_` and `.`"
        yield Problem(template.path, f"`{template.stem}` cannot be a ticket's id", do)


def _key_problems(path: str, name: str, node: Node) -> list[Problem]:
    """Check one key without values: its name, its shape, the syntax of its strings."""
    place = f"{path}:{node.line}"
    if name not in KEYS:
        do = nearest(name, KEYS) or "known are " + ", ".join(KEYS)
        return [Problem(place, f"`{name}` is not a key of a template", do)]
    key = KEYS[name]
    wrong = Problem(place, f"`{name}` {_WANTED[key.shape]}", f"write `{name}: {key.example}`")
    if isinstance(node, Scalar):
        if node.is_null:
            return []
        return _syntax(path, name, [node]) if key.shape == "one" else [wrong]
    if isinstance(node, Items):
        scalars = [item for item in node.values if isinstance(item, Scalar) and not item.is_null]
        if key.shape != "many" or len(scalars) < len(node.values):
            return [wrong]
        return _syntax(path, name, scalars)
    if key.shape == "variables":
        return _variable_problems(path, name, node, wrong)
    if key.shape != "matrix":
        return [wrong]
    problems: list[Problem] = []
    for each, items in node.values.items():
        scalars = [item for item in getattr(items, "values", ()) if isinstance(item, Scalar)]
        if nothing := [item for item in scalars if item.is_null or not item.text.strip()]:
            what = f"`matrix.{each}` holds an empty value"
            problems.append(Problem(f"{path}:{nothing[0].line}", what, "write one, quoted, or take it out"))
        if not isinstance(items, Items) or not scalars or len(scalars) < len(items.values):
            what = f"`matrix.{each}` must be a list of at least one value"
            problems.append(Problem(f"{path}:{items.line}", what, f"write `matrix: {key.example}`"))
        elif not _MATRIX_NAME.fullmatch(each):
            what = f"`{each}` cannot be used as `matrix.NAME`"
            problems.append(Problem(f"{path}:{items.line}", what, "use letters, digits and `_`"))
        problems += _syntax(path, name, scalars)
    return problems


def _variable_problems(path: str, name: str, node: Fields, wrong: Problem) -> list[Problem]:
    problems: list[Problem] = []
    for variable, value in node.values.items():
        if fault := variable_fault(variable):
            what, do = fault
            problems.append(Problem(f"{path}:{value.line}", f"`{name}`: {what}", do))
        problems += _syntax(path, name, [value]) if isinstance(value, Scalar) else [wrong]
    return problems


def wrong_values(path: str, fields: Fields) -> Iterator[Problem]:
    """Yield the faults of strings that their keys refuse, or that are no patterns, where none is rendered."""
    for name, node in fields.values.items():
        if name not in KEYS or KEYS[name].shape in ("matrix", "variables"):
            continue
        for each in node.values if isinstance(node, Items) else (node,):
            if not isinstance(each, Scalar) or each.is_null or has_marks(each.text):
                continue
            try:
                KEYS[name].read(each.text)
                if name in PATTERNS:
                    parse_pattern(each.text)
            except WrongValueError as error:
                yield Problem(f"{path}:{each.line}", f"`{name}`: {error.what}", error.do)
            except PatternError as error:
                for one in error.problems:
                    what = f"`{name}`: `{one.place}`: {one.what}"
                    yield Problem(f"{path}:{each.line}", what, one.do)


_WANTED = {
    "one": "must be a single value",
    "many": "must be a list of strings",
    "matrix": "must be a mapping of lists",
    "variables": "must be a mapping of names to values",
}


def _syntax(path: str, name: str, scalars: Sequence[Scalar]) -> list[Problem]:
    return [
        Problem(f"{path}:{scalar.line + fault.line - 1}", f"`{name}` {fault.what}", fault.do)
        for scalar in scalars
        for fault in faults_of(scalar.text)
    ]


def _may_be_empty(template: Template) -> bool:
    """Return whether a template needs no prompt: only one whose command is complete."""
    agent = template.fields.values.get("agent")
    named = agent.text if isinstance(agent, Scalar) else agent_of(template.stem)
    return named == "command" and "fallback" not in template.fields.values
