"""What a worker's server and hooks leave in its scratch directory: a sign, faults, and what was seen."""

import os
import stat

GREETED = ".orchestrate-mail"
"""The file by which the runtime knows that an agent CLI has started its server."""
FAULTS = ".orchestrate-mail.log"
NOTE = ".orchestrate-mail.seen"
"""The file in which a hook notes how far nothing in the logs is new."""
_MOST = 1 << 16
"""Bytes of the faults; one may come with each tool call."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def greet(scratch: str) -> None:
    """Leave the sign that a server was started. Raises OSError."""
    os.close(os.open(f"{scratch}/{GREETED}", _NEW, 0o600))


def note_fault(scratch: str | None, where: str, fault: BaseException) -> None:
    """Append a line about a fault; where that fails, too, there is nobody to tell."""
    if not scratch:
        return
    said = " ".join(f"{type(fault).__name__}: {fault}".split())[:500]
    line = f"{where}: {said}\n"
    try:
        descriptor = os.open(f"{scratch}/{FAULTS}", _NEW | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size < _MOST:
                os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def note_seen(path: str, text: str) -> None:
    """Write the note of what was seen; one that cannot be written is done without."""
    try:
        descriptor = os.open(path, _NEW | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError:
        return


def read_small(path: str) -> bytes:
    """Return the content of a regular file; empty where there is none that can be read."""
    parts = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            while is_file and (part := os.read(descriptor, 1 << 20)):
                parts.append(part)
        finally:
            os.close(descriptor)
    except OSError:
        return b""
    return b"".join(parts)
