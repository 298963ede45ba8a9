"""The user's files that a landing replaces or removes: nothing is gone before it was looked at.

Private to the store. Whoever saves between the last look at a file and its move would lose that text: so
each file is moved aside, compared with what it was, and put back where it is another; also after a kill.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from workers.files.durable import exchange, write_over
from workers.files.read import read_whole

Mark = list[int] | None
"""The inode, size and time of change of a file; None where there is none."""
_NOTE = "moves.json"


def mark_of(path: Path) -> Mark:
    """Return what tells a file from any other that stands in its place, before or later."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    is_folder = path.is_dir() and not path.is_symlink()
    return None if is_folder else [found.st_ino, found.st_size, found.st_mtime_ns]


class Placing:
    """The moves of one landing; new files stand in `folder/tree`, removed ones go to `folder/gone`."""

    def __init__(self, root: Path, folder: Path, before: Mapping[str, Mark]) -> None:
        self._root, self._folder, self._before = root, folder, before

    def begin(self, written: list[str], removed: list[str]) -> None:
        """Note the moves, so that the next command can finish looking."""
        (self._folder / "gone").mkdir()
        aside = {path: f"tree/{path}" for path in written}
        aside |= {path: f"gone/{number}" for number, path in enumerate(removed)}
        self._aside = {path: self._folder / where for path, where in aside.items()}
        note = {
            path: [where, self._before[path], mark_of(self._aside[path])] for path, where in aside.items()
        }
        write_over(self._folder / _NOTE, json.dumps(note).encode(), synced=False)

    def write(self, path: str) -> bool:
        """Put a new file in its place; False where somebody has saved there meanwhile: that stays."""
        aside, target = self._aside[path], self._root / path
        if mark_of(target) is None or not exchange(aside, target):
            aside.replace(target)
        elif mark_of(aside) != self._before[path]:
            exchange(aside, target)
            return False
        return True

    def remove(self, path: str) -> bool:
        """Take a file away; False where somebody has saved it meanwhile: it stays."""
        aside, target = self._aside[path], self._root / path
        if mark_of(target) is not None:
            target.rename(aside)
            if mark_of(aside) != self._before[path]:
                aside.rename(target)
                return False
        return True


def put_back(root: Path) -> None:
    """Put back what a landing that was killed had moved aside and not looked at."""
    for folder in (root / ".taskers").glob("landing-*"):
        note = {}
        with suppress(FileNotFoundError, ValueError):
            note = json.loads(read_whole(folder / _NOTE))  # a torn one: nothing was moved yet
        for path, (where, before, ours) in note.items():
            aside, target = folder / where, root / path
            if mark_of(aside) in (None, before, ours) or mark_of(target) != ours:
                continue
            if ours is None:
                target.parent.mkdir(parents=True, exist_ok=True)
                aside.rename(target)
            else:
                exchange(aside, target)
