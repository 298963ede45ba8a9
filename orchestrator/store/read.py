"""Files that a person maintains: read whole, or a problem that names the obstacle."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from orchestrator.errors import Refusal
from orchestrator.store.intent import Move, decided, digest, read_intent
from tickets.problems import Problem
from workers.files.read import read_whole
from workers.git.run import find_repository

SAVING = 0.1
"""Seconds that an editor may take between emptying a file and writing it."""
LARGEST = 1 << 24
"""The most bytes that a file for people may have: parsed it takes many times its size."""


class FilesRead(Mapping[str, bytes | None]):
    """Files by path, each read when it is first asked for; as a sequence, those that were."""

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        paths: Iterable[str] = (),
        known: Mapping[str, bytes | None] = MappingProxyType({}),
    ) -> None:
        """Read some paths at once; `known` are texts that count in place of those that would be read."""
        self._read = read
        self._texts = {**{path: read(path) for path in paths}, **known}

    def __getitem__(self, path: str) -> bytes | None:
        """Return a file; None where there is none."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def __iter__(self) -> Iterator[str]:
        """Go over the files that were read."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return how many were read."""
        return len(self._texts)


def bytes_of(path: Path) -> bytes:
    """Read a file; empty Markdown is read again, since an editor may be about to write it.

    Raises OSError, also for anything but a regular file: a pipe would block for ever.
    """
    found = read_whole(path, LARGEST)
    until = time.monotonic() + SAVING
    while not found and path.suffix == ".md" and time.monotonic() < until:
        time.sleep(SAVING / 20)
        found = read_whole(path, LARGEST)
    return found


def read_file(root: Path, path: str) -> bytes | None:
    """Read a file by its path below `root`; None where there is none. Raises Refusal."""
    try:
        return bytes_of(root / path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise Refusal(Problem(path, f"cannot be read: {why}", "make it a file that you may read")) from None


def read_state(root: Path, path: str) -> bytes | None:
    """Read a state file as it was last decided, with moves that wait; None where there is none.

    Raises Refusal, also for a link that leads out of the repository.
    """
    target = led_to(root, path)
    if not target.is_relative_to(root.resolve()):
        raise Refusal(Problem(path, f"is a link to {target}, outside the repository", "make it a file"))
    found = read_file(root, path)
    waiting = _waiting(root, path, found)
    return found if waiting is None else waiting


def _waiting(root: Path, path: str, found: bytes | None) -> bytes | None:
    """Return the text of a file that a killed command had decided and not yet put in place."""
    repository = find_repository(root)
    if repository is None:
        return None
    intent = read_intent(decided(repository, "intent"))
    moves = (Move(*one) for one in (intent["moves"] if intent else ()))
    move = next((one for one in moves if one.path == path), None)
    if move is None or move.goes or digest(found) != move.old:
        return None
    with suppress(FileNotFoundError):
        if digest(decided_text := read_whole(root / move.temporary)) == move.new:
            return decided_text
    return read_file(root, path)  # it was moved while we read it


def led_to(root: Path, path: str) -> Path:
    """Resolve the links of a path below `root`; a circle of links is not followed."""
    # `Path.resolve` raises at a circle, which is an error of the user's and no bug.
    return Path(os.path.realpath(root / path))


def in_the_way(folder: Path, name: str) -> list[Problem]:
    """Return what prevents a folder of ours; it is made when it is first needed."""
    if folder.exists() and not folder.is_dir():
        return [Problem(name, "is not a folder", "move it away")]
    return []
