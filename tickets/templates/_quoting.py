"""Text that others wrote, put into a prompt as a quotation: nothing in it can become a part of the ticket."""

import re
from collections.abc import Iterable

from tickets.markdown.outline import fenced, left_open, unix_lines

_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
"""Around a quotation until its place in the prompt is known; removed from the text itself."""
_MARKED = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_MARKS = str.maketrans("", "", _OPEN + _CLOSE)


class FanOutOutput(str):
    """The outputs of all tickets of a fan-out: one text to the template, quoted one by one."""

    __slots__ = ("parts",)
    parts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str]]) -> "FanOutOutput":
        """Join outputs, each below the id of its ticket."""
        parts = tuple(parts)
        made = cls("\n\n".join(f"{id_}:\n\n{text}" for id_, text in parts))
        made.parts = parts
        return made


def marked(value: object) -> str:
    """Mark a value for `placed`."""
    if isinstance(value, FanOutOutput):
        return "\n\n".join(f"{id_}:\n\n{marked(text)}" for id_, text in value.parts)
    return f"{_OPEN}{str(value).translate(_MARKS)}{_CLOSE}"


def placed(text: str) -> str:
    """Put each marked value into a code fence longer than any in it, on lines of its own.

    Inside a fence or a comment of the template's own it stands as it is, or as a block quote where it
    would close that.
    """
    own, quoted = "", ""
    parts = _MARKED.split(text)
    for at, part in enumerate(parts):
        if at % 2 == 0:
            # On a line of its own, at its very beginning: an indented fence is none.
            is_next = at > 0 and part != "" and part[0] != "\n"
            own, quoted = own + "\n" * is_next + part, quoted + "\n" * is_next + part
            continue
        above, end, line = quoted.rpartition("\n")
        quoted = f"{quoted}\n" if line.strip() else above + end
        left = left_open(own)
        quoted += _within(part, left) if left else fenced(part)
        own += "\n"
    return quoted


def unmarked(text: str) -> str:
    """Remove the marks, where there is no room for quotations: in a key of the front matter."""
    return text.translate(_MARKS)


def _within(text: str, left: str) -> str:
    lines = unix_lines(text)
    if left == "-->":
        return lines.replace("-->", "-- >")
    closes = re.search(rf"^ {{0,3}}{left}", lines, re.MULTILINE)
    return "\n".join(f"> {line}" for line in lines.split("\n")) if closes else lines
