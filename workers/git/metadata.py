"""The list of refs that we moved, and where git keeps the metadata of submodules."""

import os
from collections.abc import Iterator
from pathlib import Path

from workers.files.durable import append_line
from workers.files.read import read_whole

MOVES = "moves"
"""The file in our own directory that lists the commits to which we moved refs."""


def note_move(own: Path, commit: str) -> None:
    """Note, before a ref is moved, that we move it."""
    append_line(own / MOVES, commit.encode(), 0o600, synced=False)


def own_moves(own: Path) -> frozenset[str]:
    """Return the commits to which we ever moved a ref."""
    try:
        return frozenset(read_whole(own / MOVES).decode("ascii", "replace").split())
    except OSError:
        return frozenset()


def module_directories(top: Path, depth: int = 6) -> Iterator[Path]:
    """Yield the metadata of submodules, nested ones too; their names may have slashes."""
    try:
        folders = [Path(entry.path) for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for folder in sorted(folders) if depth else ():
        if (folder / "HEAD").is_file():
            yield folder
            yield from module_directories(folder / "modules", depth - 1)
        else:
            yield from module_directories(folder, depth - 1)
