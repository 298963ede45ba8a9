"""Messages whose effect a state file could not take: each is tried again after 5, 10, 20 … seconds."""

from workers.messages.record import Record

FIRST, LONGEST = 5.0, 320.0


class Retries:
    """The messages that are to be tried again, and when."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[Record, float]] = {}
        self._pauses: dict[str, float] = {}

    def later(self, record: Record, now: float) -> None:
        """Try a message again, each time after twice the pause."""
        pause = self._pauses.get(record.id, FIRST)
        self._pauses[record.id] = min(2 * pause, LONGEST)
        self._due[record.id] = record, now + pause

    def soon(self, record: Record, now: float) -> None:
        """Try a message again at the next poll: it waits for another one."""
        self._due[record.id] = record, now

    def due(self, now: float) -> list[Record]:
        """Take the messages whose time has come."""
        found = [record for record, at in self._due.values() if at <= now]
        for record in found:
            del self._due[record.id]
        return found
