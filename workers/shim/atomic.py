"""Files that appear whole or not at all, and replace none."""

# pathlib would be a third of the shim's time:
# ruff: noqa: PTH108
import itertools
import os

_NUMBERS = itertools.count()
_NAMELESS = getattr(os, "O_TMPFILE", 0)


def create_whole(path: str, data: bytes, mode: int = 0o644) -> None:
    """Create a file with its content in one step; never replaces one. Raises FileExistsError, OSError."""
    descriptor = _nameless(path, mode)
    if descriptor is None:
        _create_renamed(path, data, mode)
        return
    try:
        write_all(descriptor, data)
        try:
            # No temporary name: half the time, and a kill leaves nothing behind.
            os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
        except FileExistsError:
            raise
        except OSError:  # no /proc, or a file system that gives such a file no name
            _create_renamed(path, data, mode)
    finally:
        os.close(descriptor)


def _nameless(path: str, mode: int) -> int | None:
    """Open a file without a name in the folder of `path`; None where the system cannot."""
    if not _NAMELESS:
        return None
    try:
        return os.open(os.path.dirname(path) or ".", _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, mode)  # noqa: PTH120
    except OSError:
        return None


def _create_renamed(path: str, data: bytes, mode: int) -> None:
    """Create the file through a second name beside it: a killed process leaves at most an unread `.tmp`."""
    temporary = f"{path}.{os.getpid()}.{next(_NUMBERS)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.link(temporary, path)
    finally:
        os.unlink(temporary)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of some bytes, however many a single call accepts."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
