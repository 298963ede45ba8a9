"""`messages.jsonl` of a run: the runtime's copy of what its participants wrote, byte for byte."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from orchestrator.runs.message_log import decoded_copy
from workers.files.durable import append_line
from workers.files.read import read_whole
from workers.messages.record import Record, split


class Copy:
    """The copy of one run, for the runtime that holds the run's lock."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._known: set[int] = set()
        """Hashes of the lines: the lines of a long run would take tens of megabytes."""

    def read(self) -> Iterator[Record]:
        """Yield what an earlier runtime has copied; a line that is no record of the run is skipped."""
        with suppress(FileNotFoundError), BytesIO(read_whole(self._path)) as lines:
            for line in (line.removesuffix(b"\n") for line in lines):
                record = decoded_copy(line)
                if record is not None and split(record.sender)[0] == self._run:
                    self._known.add(hash(line))
                    yield record

    def add(self, lines: Iterable[bytes]) -> None:
        """Append the lines that are not there yet. Raises OSError."""
        new = [line for line in dict.fromkeys(lines) if hash(line) not in self._known]
        if new:
            append_line(self._path, b"\n".join(new), 0o600, synced=False)
            self._known.update(map(hash, new))
