"""`events.jsonl`: the events of a run, one object a line; one process writes, any process may read along."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.files.read import opened, read_whole, refuse_larger


class Journal:
    """The journal of a run, for its one writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        status = os.fstat(self._descriptor)
        size, self._inode = status.st_size, status.st_ino
        # A killed writer may have left half a line: end it, so that the next record stands on its own.
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")
        self._stands = self._now()
        self._is_disturbed = False

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record in one write."""
        data = json.dumps(record).encode() + b"\n"
        ours = self._stands[1] + len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._stands = self._now()
        # A foreign line written just before ours is in the same file, and is reported the next time.
        self._is_disturbed |= self._stands[1] != ours

    def was_disturbed(self) -> bool:
        """Return, once, whether another process has written to the journal since this one did."""
        before, self._stands = self._stands, self._now()
        found, self._is_disturbed = self._is_disturbed or self._stands != before, False
        return found

    def _now(self) -> tuple[int, int, int]:
        there = -1
        with contextlib.suppress(OSError):
            status = os.lstat(self._path)
            there = status.st_ino
        if there != self._inode:
            status = os.fstat(self._descriptor)
        # The time of its inode change, since a writer can set that of its content.
        return there, status.st_size, status.st_ctime_ns

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class JournalReader:
    """Reads a journal while it is written, each line once it is whole."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self.offset = offset
        """The offset of the unread part, in bytes: always the beginning of a line."""

    def read(self, until: int | None = None) -> list[dict[str, Any]]:
        """Return new records, up to an offset; half a line is left for the next call."""
        try:
            descriptor = opened(self._path)
        except FileNotFoundError:
            return []
        try:
            size = os.fstat(descriptor).st_size if until is None else until
            refuse_larger(self._path, size - self.offset)
            data = os.pread(descriptor, size - self.offset, self.offset) if size > self.offset else b""
        finally:
            os.close(descriptor)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return _records(whole)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read all records; a line that was cut by a kill is skipped."""
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return []
    return _records(data)


def _records(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                found.append(record)
    return found
