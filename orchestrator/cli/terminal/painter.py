"""Lines at the bottom of a terminal that are redrawn in place; other lines scroll by above them.

Not Rich's `Live`: it goes up by the rows that it has drawn, so a terminal that was made narrower and has
wrapped them keeps the rest of the old picture; and its `…` is an error where the encoding has none.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from orchestrator.cli.terminal.terminal import say
from orchestrator.cli.terminal.width import cells
from orchestrator.redaction import printable

UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}A", "\x1b[2K", "\x1b[J"
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
OTHER_SCREEN, BACK, HOME = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FALLBACK = os.terminal_size((80, 24))


def can_paint(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal on which lines can be redrawn."""
    return stream.isatty() and environ.get("TERM", "dumb") not in ("", "dumb")


def has_colour(environ: Mapping[str, str]) -> bool:
    """Return whether colours may be used on a terminal (no-color.org)."""
    return not environ.get("NO_COLOR")


class Painter:
    """Owns the last lines of a terminal; log lines can be written to it, too.

    One that draws `alone` does so on the terminal's other screen, where no change of size leaves anything
    behind; `leave` puts the last picture where a person can read it.
    """

    def __init__(self, stream: TextIO, *, alone: bool = False) -> None:
        self._stream = stream
        self._alone = alone
        self._is_away = False
        self._lines: Sequence[str] = ()
        self._log = ""

    @property
    def size(self) -> os.terminal_size:
        """Return the terminal's current size."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return _FALLBACK
        # A terminal without a known size reports 0.
        return os.terminal_size((found.columns or _FALLBACK.columns, found.lines or _FALLBACK.lines))

    def draw(self, lines: Sequence[str]) -> bool:
        """Draw these lines in place of the last ones; return whether they could be written."""
        # All in one write, each line cleared just before it is written: nothing flickers. A width that the
        # terminal counts otherwise than we do is cut at its edge, and scrolls nothing.
        text = "".join(f"{CLEAR_LINE}{line}\n" for line in lines)
        before = self._start()
        self._lines = tuple(lines)
        return self._write(f"{before}{NO_WRAP}{text}{WRAP}{CLEAR_BELOW}")

    def leave(self) -> None:
        """Leave the other screen, and print the last picture on the normal one."""
        if self._is_away:
            text = "".join(f"{line}\n" for line in self._lines)
            self._alone = self._is_away = False
            self._write(BACK + text)

    def erase(self) -> None:
        """Erase the lines; the next output takes their place."""
        if self._lines:
            before, self._lines = self._start(), ()
            self._write(before + CLEAR_BELOW)

    def above(self, line: str) -> None:
        """Print a permanent line, above the others."""
        lines = self._lines
        self.erase()
        if say(line, self._stream) and lines:
            self.draw(lines)

    def write(self, text: str) -> int:
        """Accept a part of a log line, and print the line once it is whole."""
        *whole, self._log = (self._log + text).split("\n")
        for line in whole:
            self.above(line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: whole lines are printed already."""

    def _start(self) -> str:
        """Return the codes that move back to the first line; a narrower terminal has wrapped the lines."""
        if self._alone:
            before = HOME if self._is_away else OTHER_SCREEN + HOME
            self._is_away = True
            return before
        size = self.size
        rows = sum(max(1, -(-cells(_COLOUR.sub("", line)) // size.columns)) for line in self._lines)
        rows = min(rows, size.lines - 1)
        return "\r" + (UP.format(rows) if rows else "")

    def _write(self, text: str) -> bool:
        try:
            self._stream.write(printable(text))
            self._stream.flush()
        except (OSError, ValueError):
            return say("", self._stream)
        return True


def standard_painter(environ: Mapping[str, str], *, alone: bool = False) -> Painter | None:
    """Return a painter for standard output; None where that is no terminal with cursor control."""
    return Painter(sys.stdout, alone=alone) if can_paint(sys.stdout, environ) else None
