"""The logs of all participants, in the order in which their records are to be handled.

Nothing is kept on the disk: what a participant has seen is in its own log. A reader may ask for the records
that concern one participant; those of others are not decoded then, which is most of the time of reading.
"""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116, PTH118, PTH208
import os
import time
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from workers.messages.log_reader import LogChange, LogReader, Seen, VoidLine
from workers.messages.record import everyone, participant_of, split

Item = TypeVar("Item")
_FRESH = 0.1
"""Seconds; a folder that is younger may get one more file without another time."""


class Poll(NamedTuple):
    """What one poll brought."""

    records: list[Seen]
    """In the order in which they are to be handled."""
    void: list[VoidLine]
    """Lines that were skipped: the first of each log and reason."""
    changes: list[LogChange]
    is_behind: bool
    """Whether there is more to read at once."""


class Logs:
    """The logs in a folder: of one run, or of all."""

    def __init__(
        self,
        folder: str,
        run: str | None = None,
        concerning: str | tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._run = run
        readers = (concerning,) if isinstance(concerning, str) else concerning
        named = (name for one in readers for name in (one, everyone(one)))
        self._needles = tuple(name.encode() for name in dict.fromkeys(named))
        self._clock = clock
        self._logs: dict[str, LogReader] = {}
        self._listed = -1.0

    def poll(self) -> Poll:
        """Read what is new; a rest without its LF waits for it. Never raises for what a log holds."""
        self._list()
        logs = list(self._logs.values())
        for log in logs:
            if not log.queue:
                log.read()
        records = _merged(logs)
        return Poll(
            records,
            [line for log in logs for line in _taken(log.void)],
            [change for log in logs for change in _taken(log.changes)],
            any(log.is_behind or log.queue for log in logs),
        )

    def read_all(self) -> Poll:
        """Read all that is there, as one poll."""
        polls = [self.poll()]
        while polls[-1].is_behind:
            polls.append(self.poll())
        return Poll(
            [seen for poll in polls for seen in poll.records],
            [line for poll in polls for line in poll.void],
            [change for poll in polls for change in poll.changes],
            is_behind=False,
        )

    def void_counts(self) -> dict[str, int]:
        """Return how many void lines each log has, of those that have any."""
        return {name: log.void_count for name, log in self._logs.items() if log.void_count}

    def participants(self) -> list[str]:
        """List those who have, or had, a log."""
        return sorted(self._logs)

    def _list(self) -> None:
        try:
            changed = os.stat(self.folder).st_mtime
            if changed == self._listed:
                return
            names = os.listdir(self.folder)
        except OSError:
            return  # nobody has sent anything yet
        # The times of a file system go in steps: another log may appear within this one.
        self._listed = changed if abs(self._clock() - changed) > _FRESH else -1.0
        for name in sorted(names):
            one = participant_of(name)
            if one and one not in self._logs and self._run in (None, split(one)[0]):
                self._logs[one] = LogReader(os.path.join(self.folder, name), one, self._needles)


def _taken(items: list[Item]) -> list[Item]:
    found = items.copy()
    items.clear()
    return found


def _merged(logs: Sequence[LogReader]) -> list[Seen]:
    """Take the queued records of all logs, by time, sender and number; each log's own in their order.

    A record comes after the one that it answers, whatever the clocks said: that one is taken before it, with
    what is before it in its log. Nothing is taken that may be later than what an old log still holds.
    """
    active = [log for log in logs if log.queue]
    where = {seen.record.id: at for at, log in enumerate(active) for seen in log.queue if not seen.again}
    heads = [_head(log, at) for at, log in enumerate(active)]
    heapify(heads)
    found: list[Seen] = []
    while heads:
        *_, id_, at = heappop(heads)
        if not active[at].queue or active[at].queue[0].record.id != id_:
            continue  # it was taken before one that answers it
        for touched in _take(active, at, where, found):
            if active[touched].queue:
                heappush(heads, _head(active[touched], touched))
            elif active[touched].holds_others:
                return found
    return found


def _head(log: LogReader, at: int) -> tuple[str, str, int, str, int]:
    record = log.queue[0].record
    return record.at, record.sender, record.number, record.id, at


def _take(active: Sequence[LogReader], at: int, where: dict[str, int], found: list[Seen]) -> set[int]:
    """Take the first record of a log, after the one that it answers; return the logs that were taken from."""
    goals, touched = [(at, active[at].queue[0].record.id)], set()
    while goals:
        which, goal = goals[-1]
        record = active[which].queue[0].record
        asked = where.get(record.re) if record.re else None
        # Records that claim to answer each other are taken as they come.
        if record.re and asked is not None and all(asked != one for one, _ in goals):
            goals.append((asked, record.re))
            continue
        found.append(active[which].queue.popleft())
        where.pop(record.id, None)
        touched.add(which)
        if record.id == goal:
            goals.pop()
    return touched
