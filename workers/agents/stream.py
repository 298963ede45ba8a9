"""Records in an agent's standard output: one JSON object a line, among noise."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tickets.types import LARGEST_FIGURE

_DIGITS = 20
"""More than `LARGEST_FIGURE` has."""

MAX_RECORD = 16 * 2**20
"""Bytes. A codex record holds up to 1 MiB of a command's output, a final answer is not limited."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


class Lines:
    """Cuts a stream of bytes into lines, and holds at most `MAX_RECORD` of an unfinished line.

    A longer line comes out as its first `MAX_RECORD + 1` bytes, by which `Records` knows it.
    """

    def __init__(self, limit: int = MAX_RECORD) -> None:
        self._limit = limit + 1
        self._held = bytearray()

    def add(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their ends."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(bytes(self._held))
            self._held.clear()
        self._hold(rest)
        return lines

    def rest(self) -> bytes:
        """Return the text after the last line's end: a record that was cut, or nothing."""
        return bytes(self._held)

    def _hold(self, part: bytes) -> None:
        self._held += part[: self._limit - len(self._held)]


class Records:
    """Reads the record of a line, and counts the faults of unreadable ones."""

    def __init__(self) -> None:
        self.count = 0
        self._oversize = False
        self._cut = False
        self._impossible = False

    def take(self, line: bytes) -> dict[str, Any] | None:
        """Return the line's record, or None for noise."""
        if len(line) > MAX_RECORD:
            self._oversize, self._cut = True, False
            return None
        start = _record_start(line)
        if start is None:
            return None
        try:
            record = _parsed(line[start:].decode("utf-8", "replace"))
        except (ValueError, RecursionError):  # a deeply nested record must not end the runtime
            self._cut = True
            return None
        if not isinstance(record, dict):
            return None
        self._cut = False
        self.count += 1
        return record

    def check(self, figures: object) -> None:
        """Note a figure of a closing record that cannot be: it counts as none."""
        values = figures.values() if isinstance(figures, Mapping) else (figures,)
        for value in values:
            if isinstance(value, Mapping):
                self.check(value)
            elif isinstance(value, int | float) and not 0 <= value < LARGEST_FIGURE:
                self._impossible = True

    def flags(self) -> tuple[str, ...]:
        """Return the faults of the records: `cut_record` only where no readable record came after it."""
        return (
            *(["oversize_record"] if self._oversize else []),
            *(["cut_record"] if self._cut else []),
            *(["impossible_usage"] if self._impossible else []),
        )


def text_at(record: Mapping[str, Any], *path: str) -> str:
    """Return the text at a path of keys, or nothing where the record has another shape."""
    found = value_at(record, *path)
    # A lone surrogate is valid in JSON and cannot be written to a file.
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""


def id_at(record: Mapping[str, Any], *path: str) -> str | None:
    """Return the id at a path of keys, or None where it is none: it may become an argument of a command."""
    found = text_at(record, *path)
    return found if _ID.fullmatch(found) else None


def number_at(record: Mapping[str, Any], *path: str) -> float | None:
    """Return the number at a path of keys, or None; one that cannot be counts as missing."""
    found = value_at(record, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found < LARGEST_FIGURE else None


def count_at(record: Mapping[str, Any], *path: str) -> int:
    """Return the count at a path of keys, or 0; one that cannot be counts as missing."""
    found = value_at(record, *path)
    if isinstance(found, bool) or not isinstance(found, int):
        return 0
    return found if 0 < found < LARGEST_FIGURE else 0


def value_at(record: object, *path: str) -> Any:
    """Return the value at a path of keys, or None."""
    for key in path:
        if not isinstance(record, Mapping):
            return None
        record = record.get(key)
    return record


def printable(text: str) -> str:
    """Put `text` on one line, without characters that act on a terminal."""
    return " ".join(plain(text).split())


def paragraphs(text: str) -> str:
    """Clean each line of `text`, and keep the lines: a report is read as a whole."""
    return "\n".join(plain(line).rstrip() for line in text.splitlines()).strip("\n")


def plain(text: str) -> str:
    """Remove characters that act on a terminal, and keep the spaces."""
    text = _ESCAPE.sub("", text.rstrip("\r").expandtabs())
    if text.isprintable():
        return text  # as most is: to test each character takes longer than to read the record
    return "".join(c if c.isprintable() else " " for c in text)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise
    except ValueError:
        # Python refuses to read a number of more than 4,300 digits, and the rest of its record with it.
        return json.loads(text, parse_int=lambda digits: int(digits[:_DIGITS]))


def _record_start(line: bytes) -> int | None:
    start = line.find(b"{")
    if start < 0:
        return None
    # A log line that quotes a record is not one: only invisible characters may stand before it.
    return None if start and printable(line[:start].decode("latin-1")) else start
