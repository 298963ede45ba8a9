"""`messages.jsonl` of a run: the runtime's copy of what its participants wrote, byte for byte."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator.runs.message_log import decoded_copy
from workers.files.durable import append_line
from workers.files.read import read_parts
from workers.messages.record import Record, split


class Copy:
    """The copy of one run, for the runtime that holds the run's lock."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self.lines: set[int] = set()
        """Hashes of those that an earlier runtime has copied: themselves they take tens of megabytes."""

    def read(self) -> Iterator[list[Record]]:
        """Yield, in parts, what an earlier runtime has copied of records of the run."""
        with suppress(FileNotFoundError):
            for part in read_parts(self._path):
                yield list(self._records(part.split(b"\n")))

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for line in lines:
            record = decoded_copy(line)
            if record is not None and split(record.sender)[0] == self._run:
                self.lines.add(hash(line))
                yield record

    def add(self, lines: Iterable[bytes]) -> None:
        """Append lines that this runtime has not added before, where no earlier one has. Raises OSError."""
        new = [line for line in dict.fromkeys(lines) if hash(line) not in self.lines]
        if new:
            append_line(self._path, b"\n".join(new), 0o600, synced=False)
