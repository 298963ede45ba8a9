"""The logs of all participants, in the order in which their records are to be handled.

Nothing is kept on the disk: what a participant has seen is in its own log. A reader may ask for the records
that concern one participant; those of others are not decoded then, which is most of the time of reading.
"""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116, PTH118, PTH208
import os
import time
from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from workers.messages.log_reader import LogChange, LogReader, Seen, VoidLine
from workers.messages.record import everyone, participant_of, split

_FAR_AT_ONCE = 64
"""How many quiet logs of other runs one poll looks at."""
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
    """The logs in a folder: of one run, or of all.

    `concerning` names whose records are read, of participants or, as `RUN.`, of all those of a run. `known`
    are hashes of the lines of valid records that need not be read.
    """

    def __init__(
        self,
        folder: str,
        run: str | None = None,
        concerning: str | tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
        known: Container[int] = (),
    ) -> None:
        self.folder = folder
        self._run = run
        self._readers = readers = (concerning,) if isinstance(concerning, str) else concerning
        named = (name for one in readers for name in (one, everyone(one)))
        self._needles = tuple(name.encode() for name in dict.fromkeys(named))
        self._near_runs = {split(one)[0] for one in readers}
        self._clock, self._known = clock, known
        self._logs: dict[str, LogReader] = {}
        self._near: list[LogReader] = []
        self._far: list[LogReader] = []
        self._turn = 0
        self._void: list[VoidLine] = []
        self._changes: list[LogChange] = []
        self._listed = -1.0

    def poll(self) -> Poll:
        """Read what is new; a rest without its LF waits for it. Never raises for what a log holds.

        Where there are hundreds of logs of other runs, each of them has its turn after some polls.
        """
        return self._poll(self._due())

    def read_parts(self) -> Iterator[Poll]:
        """Read all that is there, in polls: at first it may be long."""
        while True:
            poll = self._poll([*self._near, *self._far])
            yield poll
            if not poll.is_behind:
                return

    def read_all(self) -> Poll:
        """Read all that is there, as one poll."""
        polls = list(self.read_parts())
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

    def _poll(self, logs: list[LogReader]) -> Poll:
        is_same = self._is_listed()
        for log in logs if is_same else [*self._near, *self._far]:
            if not log.queue:
                log.read(is_same=is_same)
        records = _merged([log for log in self._logs.values() if log.queue])
        void, changes = self._void.copy(), self._changes.copy()
        self._void.clear()
        self._changes.clear()
        is_behind = any(log.is_behind or log.queue for log in self._logs.values())
        return Poll(records, void, changes, is_behind)

    def _due(self) -> list[LogReader]:
        """Return the logs that are read now."""
        far = self._far
        if len(far) > _FAR_AT_ONCE:
            turn = far[self._turn : self._turn + _FAR_AT_ONCE]
            self._turn = self._turn + _FAR_AT_ONCE if self._turn + _FAR_AT_ONCE < len(far) else 0
            far = [*(log for log in far if log.is_open and log not in turn), *turn]
        return [*self._near, *far]

    def _is_listed(self) -> bool:
        """List the folder if something in it was made, replaced or removed; return whether nothing was."""
        try:
            changed = os.stat(self.folder).st_mtime
            if changed == self._listed:
                return True
            names = os.listdir(self.folder)
        except OSError:
            return False  # nobody has sent anything yet
        # The times of a file system go in steps: another log may appear within this one.
        self._listed = changed if abs(self._clock() - changed) > _FRESH else -1.0
        for name in sorted(names):
            one = participant_of(name)
            if one and one not in self._logs and self._run in (None, split(one)[0]):
                # In its own log a reader is named in each line.
                needles = () if one.startswith(self._readers) else self._needles
                about = os.path.join(self.folder, name), one, needles
                log = LogReader(*about, self._void, self._changes, known=self._known)
                self._logs[one] = log
                is_near = not self._near_runs or split(one)[0] in self._near_runs
                (self._near if is_near else self._far).append(log)
        return False


def _merged(active: Sequence[LogReader]) -> list[Seen]:
    """Take the queued records of all logs, by time, sender and number; each log's own in their order.

    A record comes after the one that it answers, whatever the clocks said: that one is taken before it, with
    what is before it in its log. Nothing is taken that may be later than what an old log still holds.
    """
    if (sorted_ := _sorted(active)) is not None:
        return sorted_
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


def _sorted(active: Sequence[LogReader]) -> list[Seen] | None:
    """Take the records in the order of their times; None where that is not their order: a clock was wrong."""
    keyed, later = [], set()
    horizon = min((log.queue[-1].record.at for log in active if log.holds_others), default="~")
    for log in active:
        last = ""
        for place, seen in enumerate(log.queue):
            record = seen.record
            if record.at < last:
                return None
            last = record.at
            if not seen.again:
                later.add(record.id)
            if last <= horizon:
                keyed.append((last, record.sender, place, seen))
    keyed.sort()
    for *_, seen in keyed:
        later.discard(seen.record.id)
        if seen.record.re in later:
            return None
    for log in active:
        while log.queue and log.queue[0].record.at <= horizon:
            log.queue.popleft()
    return [key[3] for key in keyed]


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
