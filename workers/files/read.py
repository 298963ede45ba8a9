"""Bounded reads of regular files: no read blocks at a pipe, and none exhausts the memory."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

MOST = 1 << 28
"""The most bytes that are read of one file: none that we write and read whole comes near."""
_PART = 1 << 18
"""Bytes that are read at once of a file that is read in parts."""
_MORE = 4096
"""Bytes that are asked for beyond what a file seems to have."""
_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """Raised where a path is no regular file, or one too large to be ours: not a bug."""


def open_regular(path: Path | str) -> int | None:
    """Open a regular file for reading; None for a missing file or anything else at the path."""
    try:
        return opened(path)
    except (FileNotFoundError, NotRegularError):
        return None


def read_whole(path: Path | str, most: int = MOST) -> bytes:
    """Read a regular file. Raises OSError, NotRegularError where it is none or has more than `most` bytes."""
    descriptor, status = _opened(path)
    try:
        size, data = status.st_size, b""
        while size <= most:
            asked = size + _MORE
            data += (part := os.read(descriptor, asked))
            size = max(size, len(data))
            if _was_end(part, asked, data, status):
                break
    finally:
        os.close(descriptor)
    refuse_larger(path, size, most)
    return data


def read_parts(path: Path | str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield a regular file in parts of whole lines, from an offset, up to another one; last what has no LF.

    Raises OSError, NotRegularError where it is none, or has more to read
    than `MOST`.
    """
    descriptor, status = _opened(path)
    try:
        end = status.st_size if end is None else end
        refuse_larger(path, end - start)
        begun: list[bytes] = []
        while start < end and (data := os.pread(descriptor, min(_PART, end - start), start)):
            start += len(data)
            if cut := data.rfind(b"\n") + 1:
                yield b"".join((*begun, data[:cut]))
                begun.clear()
            begun.append(data[cut:])
        if rest := b"".join(begun):
            yield rest
    finally:
        os.close(descriptor)


def read_start(path: Path | str, most: int) -> bytes:
    """Read the first bytes of a regular file. Raises OSError.

    By the system's own calls: for a small file those that Python adds are most of the time.
    """
    descriptor, status = _opened(path)
    try:
        data = b""
        # Memory is reserved for all that is asked for.
        while asked := min(most - len(data), max(status.st_size - len(data), 0) + _MORE):
            data += (part := os.read(descriptor, asked))
            if _was_end(part, asked, data, status):
                break
        return data
    finally:
        os.close(descriptor)


def _was_end(part: bytes, asked: int, data: bytes, status: os.stat_result) -> bool:
    """Return whether the file has been read to its end, without a further read where its size shows that.

    Fewer bytes than were asked for may be a bad sector in the middle; the next call raises that.
    """
    return not part or (len(part) < asked and len(data) >= status.st_size > 0)


def opened(path: Path | str) -> int:
    """Open a regular file for reading. Raises OSError, NotRegularError for anything else."""
    return _opened(path)[0]


def _opened(path: Path | str) -> tuple[int, os.stat_result]:
    try:
        # Without blocking: a pipe, which a worker may put there, would block the opening process.
        descriptor = os.open(path, _AT_ONCE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise _not_regular(path, "a socket") from None
        raise
    return descriptor, refuse_irregular(path, descriptor)


def refuse_irregular(path: Path | str, descriptor: int) -> os.stat_result:
    """Return the status of a regular file; close anything else that was opened, and raise NotRegularError."""
    status = os.fstat(descriptor)
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _not_regular(path, next((name for is_it, name in _KINDS if is_it(mode)), "something else"))
    return status


def refuse_larger(path: Path | str, size: int, most: int = MOST) -> None:
    """Raise NotRegularError where a file has more than `most` bytes to read."""
    if size > most:
        what = f"it has {size:,} bytes, and {most:,} are read at most"
        raise NotRegularError(errno.EFBIG, what, str(path))


def _not_regular(path: Path | str, kind: str) -> NotRegularError:
    return NotRegularError(errno.EINVAL, f"it is {kind}, and no regular file", str(path))
