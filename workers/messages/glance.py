"""A glance at the logs: whether anything in them may be new to a worker. It imports nothing that takes time.

A hook runs after each tool call, and mostly nothing is new. What it has looked through it notes in the
worker's scratch directory: a lost note costs another look, and decides nothing.
"""

# pathlib, re and json are each as slow as all of a hook:
# ruff: noqa: PTH118
import os

from workers.messages.scratch import NOTE, note_seen, read_small

_CHUNK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_ACK = b'"type":"ack"'


class Glance:
    """One look at the logs beside a worker's own, from where the last one ended."""

    def __init__(self, log: str, scratch: str | None) -> None:
        self._folder, _, self._own = log.rpartition("/")
        name = self._own.removesuffix(".jsonl").encode()
        self._needles = (b'%s"' % name, b'%s.all"' % name.partition(b".")[0])
        self._note = os.path.join(scratch, NOTE) if scratch else None
        self._seen = _read_note(self._note)
        self._now: dict[str, tuple[int, int]] = {}
        """The inode of each log, and how many of its bytes are looked through."""
        self.finds = False
        """Whether some line is to the worker, and no receipt."""

    def look(self) -> None:
        """Look through what has come since the last note. Raises OSError."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.name != self._own and not entry.is_symlink():
                    self._look_at(entry.name, entry.stat(follow_symlinks=False))

    def keep(self) -> None:
        """Note how far all is known to the worker. A note that cannot be written is done without."""
        if self._note is None or self._now == self._seen:
            return
        lines = [f"{name} {inode} {size}\n" for name, (inode, size) in self._now.items()]
        note_seen(self._note, "".join([*lines, ".\n"]))

    def _look_at(self, name: str, status: os.stat_result) -> None:
        inode, start = self._seen.get(name, (0, 0))
        if inode != status.st_ino or start > status.st_size:
            start = 0
        if start < status.st_size and status.st_mode & 0o170000 == 0o100000:
            start = self._look_through(name, start)
        self._now[name] = status.st_ino, start

    def _look_through(self, name: str, start: int) -> int:
        """Look through the whole lines of a log; return where they end."""
        try:
            descriptor = os.open(os.path.join(self._folder, name), _OPEN)
        except OSError:
            return start
        rest = b""
        try:
            while chunk := os.pread(descriptor, _CHUNK, start + len(rest)):
                lines, end, more = (rest + chunk).rpartition(b"\n")
                self.finds = self.finds or self._is_found_in(lines)
                start += len(lines) + len(end)
                rest = more if end else rest + chunk
        finally:
            os.close(descriptor)
        return start

    def _is_found_in(self, lines: bytes) -> bool:
        for needle in self._needles:
            at = lines.find(needle)
            while at >= 0:
                begin, end = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at)
                if lines.find(_ACK, begin, end if end >= 0 else len(lines)) < 0:
                    return True
                at = lines.find(needle, end) if end >= 0 else -1
        return False


def has_in(path: str, text: bytes) -> bool:
    """Return whether a text is in a file; one that cannot be read has none."""
    return text in read_small(path)


def _read_note(path: str | None) -> dict[str, tuple[int, int]]:
    """Read a note; one that is not whole is none."""
    try:
        *lines, last, end = read_small(path or "").decode().split("\n")
        if (last, end) != (".", ""):
            return {}
        found = (line.split(" ") for line in lines)
        return {name: (int(inode), int(size)) for name, inode, size in found}
    except ValueError:
        return {}
