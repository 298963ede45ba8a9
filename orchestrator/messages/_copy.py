"""`messages.jsonl` of a run: the runtime's copy of what its participants wrote, byte for byte."""

from collections.abc import Iterable
from pathlib import Path

from workers.files.durable import append_line
from workers.files.read import read_whole
from workers.messages.record import Record, decode, sender_of, split

NAME = "messages.jsonl"


class Copy:
    """The copy of one run, for the runtime that holds the run's lock."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._known: set[int] = set()
        """Hashes of the lines: the lines of a long run would take tens of megabytes."""

    def read(self) -> list[Record]:
        """Read what an earlier runtime has copied; a line that is no record of the run is skipped."""
        try:
            data = read_whole(self._path)
        except FileNotFoundError:
            return []
        found = []
        for line in data.split(b"\n"):
            record = decoded(line)
            if record is not None and split(record.sender)[0] == self._run:
                self._known.add(hash(line))
                found.append(record)
        return found

    def add(self, lines: Iterable[bytes]) -> None:
        """Append the lines that are not there yet. Raises OSError."""
        new = [line for line in dict.fromkeys(lines) if hash(line) not in self._known]
        if new:
            append_line(self._path, b"\n".join(new), 0o600, synced=False)
            self._known.update(map(hash, new))


def decoded(line: bytes) -> Record | None:
    """Return the record of a copied line; None where it is none."""
    # In its log the sender is known by the file's name; here only the id can tell it.
    head = line[: line.find(b'","')].rpartition(b'"')[2]
    found = decode(line, sender_of(head.decode("ascii", "replace")))
    return found if isinstance(found, Record) else None
