"""Front matter: found strictly, read by the marks of PyYAML's nodes, changed in place.

PyYAML is imported only where a file begins with `---`: it costs more than all the rest of a `status`.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tickets.markdown._lines import Lines, prevailing_end
from tickets.problems import MarkdownError, Problem

if TYPE_CHECKING:
    from yaml import Node

_FENCE = re.compile(rb"---[ \t]*(?:\r\n|\n|\r|\Z)")
_CLOSE = rb"(?:(?<=\n)|(?<=\r))---[ \t]*(?:\r\n|\n|\r|\Z)"
_KEY = rb"\s*(?:#[^\r\n]*\s+)*[\w\"'][\w .\"'-]*:(?:\s|\Z)"
_FIRST_LINE = 2  # front matter is the top of the file, its fence the first line
_STR = "tag:yaml.org,2002:str"


class Front(NamedTuple):
    """The place of front matter: `start` to `end` with its fences, the YAML between `text` and `text_end`."""

    start: int
    text: int
    text_end: int
    end: int
    problems: tuple[Problem, ...]


def find_front(data: bytes, at: int, place: str) -> Front | None:
    """Find front matter at `at`: fenced by `---` lines, and a mapping or at least meant as one."""
    opening = _FENCE.match(data, at)
    closing = re.compile(_CLOSE).search(data, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    from yaml import MappingNode  # noqa: PLC0415 - for start-up time

    source = data[opening.end() : closing.start()]
    try:
        root = _compose(source)
    except _NotYamlError as error:
        if not re.match(_KEY, source):
            return None  # text between two rules
        line, what = _FIRST_LINE + error.line, f"front matter is not YAML: {error}"
        found: tuple[Problem, ...] = (Problem(f"{place}:{line}", what, "quote the value or fix the line"),)
    else:
        if not isinstance(root, MappingNode):
            return None
        found = tuple(_duplicates(root, place))
    return Front(at, opening.end(), closing.start(), closing.end(), found)


def scalar_at(data: bytes, front: Front, path: tuple[str, ...]) -> str | None:
    """Return a scalar as it is spelled (`07` stays `07`), or None where there is none."""
    from yaml import ScalarNode  # noqa: PLC0415 - for start-up time

    try:
        found = _nodes(_compose(data[front.text : front.text_end]), path)
    except _NotYamlError:
        return None
    if len(found) != 1 or not isinstance(found[0][1], ScalarNode):
        return None
    value = found[0][1].value
    return value if isinstance(value, str) else None


def changed_front(
    data: bytes, front: Front | None, place: str, path: tuple[str, ...], value: str
) -> tuple[int, int, bytes]:
    """Return the replacement that sets the scalar at `path` to `value`. Raises MarkdownError."""
    from yaml import ScalarNode  # noqa: PLC0415 - for start-up time

    name = ".".join(path)
    if front is None:
        what = f"no front matter, so `{name}` was not updated"
        raise MarkdownError(Problem(f"{place}:1", what, "add it"))
    source = data[front.text : front.text_end]
    try:
        before = _scalars(_compose(source))
    except _NotYamlError:
        raise MarkdownError(*front.problems) from None
    found = _nodes(_compose(source), path)
    if len(found) != 1:
        lines = " and ".join(f"line {_FIRST_LINE + key.start_mark.line}" for key, _ in found)
        what = f"front matter holds `{name}` {len(found)} times ({lines})"
        what = what if found else f"front matter has no `{name}`"
        at = f"{place}:{_FIRST_LINE + found[0][0].start_mark.line if found else 1}"
        raise MarkdownError(Problem(at, f"{what}, so it was not updated", "keep it exactly once"))
    key, node = found[0]
    begin, end = _offsets(source, node)
    if not isinstance(node, ScalarNode) or node.style in {"|", ">"} or begin < _offsets(source, key)[1]:
        what = f"`{name}` in the front matter is not a plain value, so it was not updated"
        raise MarkdownError(Problem(f"{place}:{_FIRST_LINE + node.start_mark.line}", what, "edit it by hand"))
    gap = b" " if begin == end and source[begin - 1 : begin] == b":" else b""
    for spelled in _spellings(value, node.style):
        after = source[:begin] + gap + spelled + source[end:]
        if _says(after, path, value, before, quoted=node.tag == _STR):
            return front.text + begin, front.text + end, gap + spelled
    what = f"`{name}` cannot be set to {value!r} in its form, so it was not updated"
    place = f"{place}:{_FIRST_LINE + node.start_mark.line}"
    raise MarkdownError(Problem(place, what, "edit it by hand"))


def inserted_front(
    data: bytes, front: Front | None, place: str, key: tuple[str | None, str], value: str
) -> tuple[int, bytes]:
    """Return where a new key of the first depth goes, and its line. Raises MarkdownError.

    `key` is the one that it stands below, with all of its value, and its own; None: on top.
    """
    after, new = key
    if front is None:
        raise MarkdownError(Problem(f"{place}:1", f"no front matter, so `{new}` was not added", "add it"))
    source = data[front.text : front.text_end]
    end = prevailing_end(data)
    try:
        root = _compose(source)
    except _NotYamlError:
        raise MarkdownError(*front.problems) from None
    found = _nodes(root, (after,)) if after is not None else []
    at, indent = 0, b""
    if found:
        name, node = found[-1]
        begin = _offsets(source, name)[0]
        indent = b" " * (begin - 1 - max(source.rfind(b"\n", 0, begin), source.rfind(b"\r", 0, begin)))
        stop = max(_offsets(source, name)[1], _offsets(source, node)[1])
        # A block's end is the start of what follows it.
        is_over = source[:stop].endswith((b"\n", b"\r"))
        lines = Lines(source)
        at = stop if is_over else lines[lines.number_at(stop)].after
    for spelled in _spellings(value, '"'):
        line = indent + new.encode() + b": " + spelled + end
        added = source[:at] + line + source[at:]
        if _says(added, (new,), value, _scalars(root), quoted=True):
            return front.text + at, line
    what = f"`{new}` cannot be added in its form"
    raise MarkdownError(Problem(f"{place}:{_FIRST_LINE}", what, "add it by hand"))


class _NotYamlError(Exception):
    """Raised for text that PyYAML cannot read; `line` counts from 0 in the YAML."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def _compose(source: bytes) -> "Node | None":
    import yaml  # noqa: PLC0415 - for start-up time

    text = source.decode()
    try:
        node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        what = f"it holds the character U+{ord(text[error.position]):04X}"
        raise _NotYamlError(what, len(Lines(text[: error.position].encode())) - 1) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it cannot be read"
        raise _NotYamlError(what, mark.line if mark else 0) from None
    except (ValueError, OverflowError):  # PyYAML leaves it to `chr`
        raise _NotYamlError("an escape names no character", 0) from None
    except RecursionError:
        raise _NotYamlError("it is nested too deep", 0) from None
    return node


def _spellings(value: str, style: str | None) -> tuple[bytes, ...]:
    try:
        plain = value.encode()
    except UnicodeEncodeError:
        return ()  # half a character: no spelling of it is UTF-8
    double = json.dumps(value, ensure_ascii=False).encode()
    single = ("'" + value.replace("'", "''") + "'").encode()
    first = {'"': double, "'": single}.get(style or "", plain)
    # The last one: YAML folds U+2028 and its like inside quotes unless they are escaped.
    return (first, double, json.dumps(value).encode())


def _says(
    source: bytes, path: tuple[str, ...], value: str, before: list[tuple[str, str]], *, quoted: bool
) -> bool:
    """Check that the new text holds `value` at `path` and is otherwise unchanged."""
    try:
        root = _compose(source)
    except _NotYamlError:
        return False
    found = _nodes(root, path)
    if len(found) != 1 or found[0][1].value != value or (quoted and found[0][1].tag != _STR):
        return False
    name = "/".join(path)
    return [pair for pair in _scalars(root) if pair[0] != name] == [
        pair for pair in before if pair[0] != name
    ]


def _offsets(source: bytes, node: "Node") -> tuple[int, int]:
    text = source.decode()
    return len(text[: node.start_mark.index].encode()), len(text[: node.end_mark.index].encode())


def _nodes(root: "Node | None", path: tuple[str, ...]) -> list[tuple["Node", "Node"]]:
    """Return every (key, value) pair at `path`."""
    from yaml import MappingNode  # noqa: PLC0415 - for start-up time

    if not isinstance(root, MappingNode) or not path:
        return []
    here = [(key, node) for key, node in root.value if key.value == path[0]]
    if len(path) == 1:
        return here
    return [found for _, node in here for found in _nodes(node, path[1:])]


def _scalars(root: "Node | None") -> list[tuple[str, str]]:
    from yaml import ScalarNode  # noqa: PLC0415 - for start-up time

    return [(at, f"{node.tag} {node.value}") for at, node in _walk(root) if isinstance(node, ScalarNode)]


def _walk(root: "Node | None") -> Iterator[tuple[str, "Node"]]:
    """Yield every node once with its path; an alias may point at its own parent."""
    from yaml import MappingNode, SequenceNode  # noqa: PLC0415 - for start-up time

    seen: set[int] = set()
    waiting = [("", root)] if root is not None else []
    while waiting:
        at, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield at.removeprefix("/"), node
        if isinstance(node, MappingNode):
            waiting += [(f"{at}/{key.value}", value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            waiting += [(f"{at}/{index}", value) for index, value in enumerate(node.value)]


def _duplicates(root: "Node", place: str) -> list[Problem]:
    from yaml import MappingNode  # noqa: PLC0415 - for start-up time

    found = []
    for _, node in _walk(root):
        seen: dict[str, int] = {}
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            name, line = str(key.value), _FIRST_LINE + key.start_mark.line
            if name in seen:
                what = f"front matter holds `{name}` again (first on line {seen[name]})"
                found.append(Problem(f"{place}:{line}", what, "keep it once", "warning"))
            seen.setdefault(name, line)
    return found
