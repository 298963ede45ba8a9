"""Texts that come in pieces, without their secrets: what may be half of one is held back."""

from tickets.redact.redactor import Redactor, add, counted, without
from tickets.redact.shapes import ends_key, goes_on_as_key

HELD = 1 << 16
"""Bytes of an unfinished line that are held back; no shape but a block is longer than half of it."""


class Stream:
    """Redacts one text, piece by piece or line by line."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._in_key = False
        self.counts: dict[str, int] = {}
        """What was replaced so far."""

    def feed(self, piece: str) -> str:
        """Take a piece of any length, and return what can be shown by now: whole lines, as a rule."""
        self._held += piece.encode("utf-8", "surrogatepass")
        at = self._held.rfind(b"\n") + 1
        if len(self._held) - at > HELD:
            at = self._whole(len(self._held) - HELD // 2)
        ready, self._held = self._held[:at], self._held[at:]
        return self._shown(ready).decode("utf-8", "surrogatepass")

    def end(self) -> str:
        """Return the rest."""
        ready, self._held = self._held, b""
        return self._shown(ready).decode("utf-8", "surrogatepass")

    def line(self, line: str) -> str | None:
        """Return a whole line, without its end; None for one that is inside of a key."""
        was_in_key = self._in_key
        shown = self.feed(f"{line}\n")
        return shown.removesuffix("\n") if shown or not was_in_key else None

    def _whole(self, at: int) -> int:
        """Return where to cut a line, at that place or before it: in no secret, and in no character."""
        for one in self._redactor.secrets(self._held):
            at = one.start if one.start < at < one.end else at
        while at and self._held[at] & 0xC0 == 0x80:
            at -= 1
        return at

    def _shown(self, ready: bytes) -> bytes:
        if self._in_key and ready:
            ready = self._after_key(ready)
        found = self._redactor.secrets(ready)
        if not found:
            return ready
        add(self.counts, counted(found))
        last = found[-1]
        shown = without(ready, found)
        if last.kind == "private-key" and last.end == len(ready) and ready.endswith(b"\n"):
            # To the end of what has come: its own end is still to come, and the line's end stays.
            self._in_key = True
            return shown + b"\n"
        return shown

    def _after_key(self, ready: bytes) -> bytes:
        """Return what comes behind a key that began in an earlier piece."""
        end = ends_key(ready)
        if end < 0 and goes_on_as_key(ready):
            return b""
        self._in_key = False
        return ready[end:].removeprefix(b"\n") if end >= 0 else ready
