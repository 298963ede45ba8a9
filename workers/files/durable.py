"""Files that are whole whenever the writer is killed: created, appended to, or replaced in one step.

`create_file` and `created` replace nothing. `tests/architecture` lists the callers of the others.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from workers.shim.atomic import create_whole, write_all

_PART = 1 << 24
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of linux/fs.h."""


def create_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Create a file whole or not at all; never replace one. Raises FileExistsError."""
    create_whole(str(path), data, mode)


@contextmanager
def created(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file for the block; it gets its name at the end, once it is on the disk.

    Private, for it is exact: a patch, or old output, may hold a secret. Where the block raises, no file
    remains. Raises FileExistsError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", opener=private) as file:
            yield file
            # Its source is deleted next: a power cut must not destroy the only copy.
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file that only its user may read, if it is a new one; an opener for `open`."""
    return os.open(path, flags, 0o600)


def create_from(path: Path, source: Path, offset: int) -> None:
    """Create a file from the content of another one from an offset on, whole or not at all."""
    with created(path) as file, source.open("rb") as found:
        size = os.fstat(found.fileno()).st_size
        while offset < size:
            offset += os.sendfile(file.fileno(), found.fileno(), offset, min(size - offset, _PART))


def append_line(path: Path, line: bytes, mode: int = 0o644, *, synced: bool) -> None:
    """Append a line to a file, which is created if need be; `synced`: it is on the disk on return.

    Raises OSError, with the path.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        size = os.fstat(descriptor).st_size
        # Half a line of a writer that was killed would swallow ours.
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
        if synced:
            os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, synced: bool) -> None:
    """Create or replace a file in one step, under a lock of the caller's; `synced`: on the disk on return.

    A killed writer leaves at most a `.tmp` of the same stem, which the next one overwrites.
    """
    temporary = path.with_suffix(".tmp")
    write_over(temporary, data, synced=synced)
    temporary.replace(path)
    if synced:
        sync_folder(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two files in one step, so that what was replaced can be looked at; False where none can.

    The kernel and the file system have to know it: renameat2(2). Raises OSError as a rename does.
    """
    import ctypes  # noqa: PLC0415 - for start-up time: only writers of state need it

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def write_over(path: Path, data: bytes, mode: int = 0o644, *, synced: bool) -> None:
    """Overwrite a temporary file in place; a kill leaves it torn. `synced`: it is on the disk on return."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, data)
        if synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
