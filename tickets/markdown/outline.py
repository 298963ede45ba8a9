"""The lines of a Markdown answer or prompt, classified as heading, text or code. Only reads, never fails."""

import re
from functools import lru_cache
from typing import NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_NUMBER = re.compile(r"[0-9]+[.)]\s+")


class OutlineLine(NamedTuple):
    """One line. `level` is that of a heading, else 0; `number` counts from 1."""

    number: int
    text: str
    code: bool = False
    level: int = 0
    title: str = ""


class Section(NamedTuple):
    """A heading and the content below it, down to the next heading of its level or above."""

    heading: OutlineLine
    lines: tuple[OutlineLine, ...]

    @property
    def text(self) -> str:
        """The content below the heading, without the blank lines around it."""
        return text_of(self.lines)


def outline(text: str) -> tuple[OutlineLine, ...]:
    """Classify the lines of a text. A heading inside a code fence or an HTML comment is none."""
    return tuple(_scan(text)[0])


def closed(text: str) -> str:
    """Close the code fence or comment that a text leaves open: it would swallow all text added below."""
    left = left_open(text)
    return f"{text}\n{left}\n" if left else text


def left_open(text: str) -> str:
    """Return what closes the code fence or comment that a text leaves open; empty where there is none."""
    return _scan(text)[1]


def fenced(text: str) -> str:
    """Quote a text in a code fence longer than any in it: no line of it can close that."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{unix_lines(text)}\n{fence}"


def unix_lines(text: str) -> str:
    """Return a text with plain line ends and no blank lines around it: a lone return ends a line, too."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def sections(
    lines: tuple[OutlineLine, ...], level: int
) -> tuple[tuple[OutlineLine, ...], tuple[Section, ...]]:
    """Split lines at the headings of one level: the lines above the first, then the sections."""
    starts = [at for at, line in enumerate(lines) if line.level == level]
    ends = [*starts, len(lines)][1:]
    above = lines[: starts[0]] if starts else lines
    return above, tuple(
        Section(lines[start], lines[start + 1 : end]) for start, end in zip(starts, ends, strict=True)
    )


def text_of(lines: tuple[OutlineLine, ...]) -> str:
    """Join lines as they stood, without the blank lines around them."""
    return "\n".join(line.text for line in lines).strip("\n").rstrip()


@lru_cache(maxsize=1024)
def plain(title: str) -> str:
    """Normalise a title or label for comparison: no decoration, no number, no case."""
    words = _NUMBER.sub("", title.strip(" \t*_`#:"), count=1)
    letters = "".join(char if char.isalnum() else " " for char in words.casefold().replace("&", " and "))
    return " ".join(letters.split())


def _scan(text: str) -> tuple[list[OutlineLine], str]:
    """Return the lines, and the text that closes a fence or comment that is open at the end."""
    found: list[OutlineLine] = []
    fence = ""
    comment = False
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        mark = None if comment else _FENCE.fullmatch(raw)
        if fence:
            found.append(OutlineLine(number, raw, code=True))
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            found.append(OutlineLine(number, raw, code=True))
            fence = mark[1]
        elif comment or raw.lstrip().startswith("<!--"):
            comment = "-->" not in raw
            found.append(OutlineLine(number, raw, code=True))
        elif heading := _HEADING.fullmatch(raw):
            title = re.sub(r"[ \t]+#+[ \t]*$", "", heading[2] or "").strip()
            found.append(OutlineLine(number, raw, level=len(heading[1]), title=title))
        else:
            found.append(OutlineLine(number, raw))
    return found, fence or ("-->" if comment else "")
