"""Files that are replaced as one: written beside their targets, decided by an intent, then moved.

The store's own hands: nobody else may call them, and they decide nothing.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_NUMBERS = itertools.count(1)


class Move(NamedTuple):
    """One file to be replaced; plain data, so that another command can finish it."""

    path: str
    temporary: str
    """Below the root, as `target` is: a project that was moved meanwhile is finished all the same."""
    target: str
    """Where `path` leads: a state file may be a symlink."""
    old: str
    new: str
    """Digests; the old one is `absent` where there was no file."""
    was: str
    """The old text itself, byte for byte as latin-1: without it a hand's later edit could not be merged."""


def planned(root: Path, path: str, target: Path, old: bytes | None, new: bytes) -> Move:
    """Name the temporary file of a move, which no other move of any process has."""
    temporary = target.with_name(f".{target.name}.orchestrate-{os.getpid()}-{next(_NUMBERS)}.tmp")
    return Move(
        path,
        temporary.relative_to(root).as_posix(),
        target.relative_to(root).as_posix(),
        digest(old),
        digest(new),
        (old or b"").decode("latin-1"),
    )


def digest(text: bytes | None) -> str:
    """Give what tells two texts apart."""
    return "absent" if text is None else hashlib.sha256(text).hexdigest()


def write_beside(root: Path, move: Move, text: bytes) -> None:
    """Write the new text, with the mode of the file that it will replace."""
    target = root / move.target
    if not target.parent.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    _write(root / move.temporary, text, mode)


def place(root: Path, move: Move) -> None:
    """Put the new text in place of the old."""
    (root / move.temporary).replace(root / move.target)
    _sync_folder((root / move.target).parent)


def write_intent(path: Path, intent: Mapping[str, Any]) -> None:
    """Decide: when this returns, or is killed after its rename, the intent will be carried out."""
    temporary = path.with_suffix(".tmp")
    _write(temporary, json.dumps(intent).encode(), 0o644)
    temporary.replace(path)
    _sync_folder(path.parent)


def read_intent(path: Path) -> dict[str, Any] | None:
    """Give an intent, None where nothing is decided."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def note(path: Path, moves: Iterable[Move], earlier: Iterable[str] = ()) -> None:
    """Remember which temporary files are about to be there, for whoever comes after a kill."""
    names = [*earlier, *(move.temporary for move in moves)]
    _write(path, json.dumps(names).encode(), 0o644, synced=False)


def noted(path: Path) -> list[str]:
    """Give what was noted; nothing where the note was torn, for then nothing was written after it."""
    try:
        found: list[str] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return found


def _write(path: Path, data: bytes, mode: int, *, synced: bool = True) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
