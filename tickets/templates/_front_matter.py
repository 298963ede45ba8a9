"""The YAML front matter of a template: its values as they are spelled, each with its line in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tickets.problems import Problem, TicketError

FENCE = "---"
DEPTH = 6  # no key of a template nests deeper; a bound keeps `[[[[…` from exhausting the stack
NULLS = frozenset({"", "~", "null", "Null", "NULL"})

# libyaml is ten times faster where PyYAML was built with it; both give the same events.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Scalar(NamedTuple):
    """One value as it is spelled: `07` stays `07`, `yes` stays `yes`. `line` is where its text begins."""

    text: str
    line: int
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """Whether the value means "no value"."""
        return self.plain and self.text in NULLS


class Items(NamedTuple):
    """A list."""

    values: tuple[Node, ...]
    line: int


class Fields(NamedTuple):
    """A mapping; `values` keeps the order of the file."""

    values: dict[str, Node]
    line: int


Node = Scalar | Items | Fields


class Source(NamedTuple):
    """A template file, split into its parts. Lines count from 1; line ends are plain newlines."""

    fields: Fields
    body: str
    body_line: int


def read_source(path: str, data: bytes) -> Source:
    """Split a file. Front matter may be missing; if it is there it must be closed, and a mapping.

    Raises TicketError with every problem of the file that can be found.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TicketError(Problem(f"{path}:{line}", "is not UTF-8", "save it as UTF-8")) from None
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        _refuse_late_start(path, lines)
        return Source(Fields({}, 1), "\n".join(lines), 1)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise TicketError(
            Problem(f"{path}:1", "the front matter is never closed", "add a line `---` after it")
        )
    fields = _read_fields(path, "\n".join(["", *lines[1:end], ""]))
    return Source(fields, "\n".join(lines[end + 1 :]), end + 2)


def _refuse_late_start(path: str, lines: list[str]) -> None:
    """Refuse blank lines above front matter: all of it would silently become the prompt."""
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first and lines[first].rstrip() == FENCE:
        what = "the front matter does not begin on the first line"
        raise TicketError(Problem(f"{path}:{first + 1}", what, "take out the blank lines above it"))


def _read_fields(path: str, text: str) -> Fields:
    """Read YAML whose first line is that of the opening fence, so that marks are lines of the file."""
    reading = _Reading(path, text)
    try:
        node = reading.document()
    except yaml.YAMLError as error:
        # Problems noted before the break are often its cause (an anchor that was meant as a pattern).
        raise TicketError(*reading.problems, _broken(path, text, error)) from None
    if reading.problems:
        raise TicketError(*reading.problems)
    if node is None or (isinstance(node, Scalar) and node.is_null):
        return Fields({}, 1)
    if not isinstance(node, Fields):
        what = "the front matter is not a mapping"
        raise TicketError(Problem(f"{path}:{node.line}", what, "write lines like `agent: codex`"))
    return node


class _Reading:
    """Turns YAML events into nodes; refuses aliases, anchors and tags: here they are unquoted patterns."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)

    def document(self) -> Node | None:
        """Read the one document that is allowed."""
        root: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._note(
                        event,
                        "a second YAML document begins here",
                        "keep one mapping between the `---` lines",
                    )
                    break
                root = self._node(next(self.events), 0)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            self._note(event, f"`*{event.anchor}` means something in YAML", f'quote it: "*{event.anchor}"')
            return Scalar(f"*{event.anchor}", line)
        if event.anchor is not None:
            self._note(event, f"`&{event.anchor}` means something in YAML", f'quote it: "&{event.anchor}"')
        if event.tag is not None and event.tag != "!":
            self._note(event, f"`{event.tag}` means something in YAML", f'quote it: "{event.tag}"')
        elif event.tag == "!" and isinstance(event, yaml.ScalarEvent) and not event.style:
            self._note(event, "`!` means something in YAML", f'quote it: "! {event.value}"')
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, line + (event.style in {"|", ">"}), not event.style)
        if depth >= DEPTH:
            raise yaml.MarkedYAMLError(None, None, f"nests deeper than {DEPTH} levels", event.start_mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return Items(tuple(self._until(yaml.SequenceEndEvent, depth)), line)
        return self._fields(line, depth)

    def _until(self, end: type[Any], depth: int) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)

    def _fields(self, line: int, depth: int) -> Fields:
        values: dict[str, Node] = {}
        nodes = self._until(yaml.MappingEndEvent, depth)
        for key in nodes:
            value = next(nodes)
            if not isinstance(key, Scalar):
                what = "a name is missing before the colon"
                do = "quote values that hold braces or brackets"
                self.problems.append(Problem(f"{self.path}:{key.line}", what, do))
            elif key.text in values:
                what = f"`{key.text}` is here twice"
                self.problems.append(Problem(f"{self.path}:{key.line}", what, "keep one of them"))
            else:
                values[key.text] = value
        return Fields(values, line)

    def _note(self, event: Any, what: str, do: str) -> None:
        self.problems.append(Problem(f"{self.path}:{event.start_mark.line + 1}", what, do))


def _broken(path: str, text: str, error: yaml.YAMLError) -> Problem:
    """Describe broken YAML, and whether quotes would fix it."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        at = getattr(error, "position", 0) or 0
        return Problem(
            f"{path}:{text.count(chr(10), 0, at) + 1}", "holds a character that YAML forbids", "take it out"
        )
    lines = text.split("\n")
    # An unclosed brace is noticed only where the text ends: the line that opened it is the one to fix.
    start = getattr(error, "context_mark", None) or mark
    numbers = range(max(min(start.line, mark.line), 1), min(mark.line, len(lines) - 1) + 1)
    for number in numbers:
        if wrong := _unquoted(lines[number]):
            what = f"`{wrong}` is not valid YAML here: `*`, `{{`, `[`, `!` and `: ` mean something in it"
            return Problem(f"{path}:{number + 1}", what, f'quote it: "{wrong}"')
    problem = getattr(error, "problem", None) or "cannot be read"
    if "escape" in problem:
        # In "app/\\[slug\\]" the backslash is YAML's before it is the pattern's.
        return Problem(f"{path}:{mark.line + 1}", f"is not valid YAML: {problem}", "put it in single quotes")
    do = (
        "indent with spaces, never tabs"
        if "\t" in lines[min(mark.line, len(lines) - 1)]
        else "quote the value"
    )
    return Problem(f"{path}:{mark.line + 1}", f"is not valid YAML: {problem}", do)


def _unquoted(line: str) -> str | None:
    """Return the value of a line that was probably meant as a string."""
    text = line.strip().removeprefix("- ").strip()
    name, colon, value = text.partition(":")
    if colon and name.replace("_", "").isalnum():
        text = value.strip()
    items = [text]
    if text.startswith("[") and not text.startswith("[["):
        items = [item.strip() for item in text.removeprefix("[").removesuffix("]").split(", ")]
    for item in items:
        if (
            item
            and item[0] not in "\"'#"
            and (item[0] in "*{[!&%@`" or "{" in item or "[" in item[1:] or ": " in item)
        ):
            return item
    return None
