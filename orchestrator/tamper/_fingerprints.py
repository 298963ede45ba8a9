"""Files by what they hold: fingerprints, and whether one has at most been added to."""

import hashlib
import os
import stat
from pathlib import Path
from typing import NamedTuple

from workers.files.read import read_start

WHOLE = 1 << 20
"""Bytes up to which a file is known by its content; a larger one by its head, its length and its time."""
HEAD = 512
"""Bytes at the head of a growing stream that are compared: no cap on outputs is as low."""


class Grown(NamedTuple):
    """A file that is appended to, as it was; of anything else the size is -1."""

    inode: int
    size: int
    mark: str


def plain(path: str) -> os.stat_result | None:
    """Give the status of a regular file; None of anything else, and of nothing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def fingerprint(path: str, status: os.stat_result) -> str:
    """Give the fingerprint of what has this status: its kind, and for a regular file what it holds."""
    kind = f"{stat.S_IFMT(status.st_mode):o}"
    if not stat.S_ISREG(status.st_mode):
        return kind
    try:
        data = read_start(path, min(status.st_size, WHOLE)) if status.st_size else b""
    except OSError as error:
        return f"{kind} {error.errno}"
    more = f" {status.st_size} {status.st_mtime_ns}" if status.st_size > WHOLE else ""
    return f"{mark_of(data)}{more}"


def mark_of(data: bytes) -> str:
    """Give the fingerprint of a regular file that has this content."""
    return f"{stat.S_IFREG:o} {hashlib.sha256(data).hexdigest()[:20]}"


def grown(path: str) -> Grown | None:
    """Give how a file that is appended to stands; None where nothing does."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return Grown(status.st_ino, -1, "")
        return Grown(status.st_ino, status.st_size, _head(path, _compared(path, status.st_size)))
    except OSError:
        return None


def begins_so(path: str, before: Grown) -> bool:
    """Tell whether a file begins with all that it held before."""
    try:
        return _head(path, _compared(path, before.size)) == before.mark
    except OSError:
        return False


def _compared(path: str, size: int) -> int:
    """Give how much of a file is compared: a stream that is cut at its cap grows shorter at its end."""
    return min(size, HEAD if path.endswith((".stdout", ".stderr")) else WHOLE)


def _head(path: str, length: int) -> str:
    if not length:
        return ""
    return hashlib.sha256(read_start(path, length)).hexdigest()[:20]


def tree_mark(tree: Path) -> str:
    """Give the fingerprint of a tree that is kept: names, sizes and times of all in it."""
    mark = hashlib.sha256()
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = f"{folder}/{name}"
            try:
                status = os.lstat(path)
            except OSError:
                continue
            words = (
                f"{path}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0"
            )
            mark.update(os.fsencode(words))
    return mark.hexdigest()[:20]
