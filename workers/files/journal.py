"""`events.jsonl`: the events of a run, one object a line; one process writes, any process may read along."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workers.files.read import read_parts


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

    def append(self, *records: Mapping[str, Any]) -> None:
        """Append records in one write."""
        data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
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
        return list(self.records(until))

    def records(self, until: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the same, a part at a time: a long journal takes many times its size in memory."""
        with contextlib.suppress(FileNotFoundError):
            for part in read_parts(self._path, self.offset, until):
                if part.endswith(b"\n"):
                    self.offset += len(part)
                    yield from _records(part)


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all records; a line that was cut by a kill is skipped."""
    with contextlib.suppress(FileNotFoundError):
        for part in read_parts(path):
            yield from _records(part)


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        try:
            # As `json.loads` does, but for a look at each line for its encoding.
            record = _read(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


_read = json.JSONDecoder().decode
