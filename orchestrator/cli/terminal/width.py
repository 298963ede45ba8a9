"""Lines that fit the terminal: cut in one line, wrapped over several, paths shortened in their middle."""

import re
from collections.abc import Iterable, Iterator

from orchestrator.cli.terminal.terminal import columns
from orchestrator.cli.text import clean

# Left as text until a line is too long: in a pipe none is.
_COMMAND = r"(?:next: | *)orchestrate "
_HEAD = r" *\S(?:.{0,40}\S)? {2,}(?=\S)|(?:error|warning|info): "


def laid_out(lines: Iterable[str]) -> Iterator[str]:
    """Wrap the lines of an answer; those that are commands stay whole, to be copied."""
    for line in lines:
        if cells(line) <= columns() or re.match(_COMMAND, line):
            yield line
            continue
        head = re.match(_HEAD, line)
        if head is None:
            own = len(line) - len(line.lstrip())
            yield from wrapped(line[own:], " " * (own + 2), first=" " * own)
        else:
            is_column = head[0].endswith("  ") and head.end() <= columns() // 2
            indent = head.end() if is_column else 2
            yield from wrapped(line[head.end() :], " " * indent, first=head[0])


def cells(text: str) -> int:
    """Count the columns of a text: East Asian wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def cut(text: str, room: int) -> str:
    """Cut a text that is too long for one line."""
    text = clean(text).rstrip()
    if cells(text) <= room:
        return text
    return _beginning(text, room - 1).rstrip() + "…"


def shortened(path: str, room: int) -> str:
    """Cut the middle out of a path: its first folder and its name are the most useful parts."""
    path = clean(path)
    if cells(path) <= room:
        return path
    head = _beginning(path, room // 3)
    tail = path[len(head) :]
    while cells(tail) > room - 1 - cells(head):
        tail = tail[1:]
    return f"{head}…{tail}"


def wrapped(text: str, indent: str, *, first: str | None = None) -> list[str]:
    """Wrap a text to lines that begin with `indent`, the first one with `first`; a long word is broken."""
    lines: list[str] = []
    line = indent if first is None else first
    empty = True
    for each in clean(text).split():
        word = each
        if not empty and cells(line) + 1 + cells(word) > columns():
            lines.append(line)
            line, empty = indent, True
        while cells(line) + (not empty) + cells(word) > columns():
            part = _beginning(word, columns() - cells(line))
            lines.append(line + part)
            line, word = indent, word[len(part) :]
        line += word if empty else f" {word}"
        empty = False
    return [*lines, line]


def elapsed(seconds: float) -> str:
    """Return a span as `0:07`, `12:34` or `1:02:03`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _beginning(text: str, room: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += _cells_of(char)
        if taken > room:
            # At least one character, or a loop that cuts a text into parts would never end.
            return text[: max(at, 1)]
    return text


def _cells_of(char: str) -> int:
    import unicodedata  # noqa: PLC0415 - for start-up time: most text is ASCII

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
