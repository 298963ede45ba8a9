"""The own log of a participant: every record is appended in one write, under the log's lock.

Several processes of one participant write: a worker's server, its hooks, its shell commands. Nothing is
synced to the disk: a power failure may lose the newest messages.
"""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH116
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from workers.messages.record import (
    MAX_BODY,
    MAX_FACTS,
    MAX_LINE,
    MAX_TRIES,
    Record,
    are_facts,
    body_bytes,
    clean,
    clean_facts,
    decode,
    encode,
    facts_bytes,
    is_worker,
    milliseconds,
    remember,
    split,
    stamp,
    wrong_key,
)

MAX_RECORDS = 10_000
MAX_LOG = 32 << 20
"""The most records, and the most bytes, in the log of a worker. Receipts are let through."""
MAX_TALK = 20
TALK = ("question", "answer", "chat")
"""The most of these from a worker to one receiver in `MINUTE` milliseconds."""
MINUTE = 60_000
AHEAD = 60_000
"""Milliseconds; a record that is farther ahead of the own clock does not push it."""
_NEVER = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Never inherited, through a link, or waiting at a pipe."""
PATIENCE = 5.0
POLL = 0.005
"""Seconds to wait for the log's lock, and between two tries."""

Clock = Callable[[], float]


class NotSentError(Exception):
    """Raised where nothing was written: what is wrong, and what to do."""


class Draft(NamedTuple):
    """What a record says; its id and its time come with the writing."""

    type: str
    to: str
    body: str = ""
    facts: Mapping[str, Any] = {}
    phase: str | None = None
    plan: str | None = None
    re: Record | None = None
    """The record that it answers or acknowledges."""


class OwnLog:
    """The log of one participant, for its own processes."""

    def __init__(self, path: str, participant: str, clock: Clock = time.time) -> None:
        self.path = path
        self.participant = participant
        self.clock = clock
        self.last = (0, 0)
        """The highest number and the last time that this process knows of; the file may know more."""
        self.end = (0, 0)
        """The inode and the size of the file when this process had written its last record."""

    def append(
        self,
        type: str,  # noqa: A002 - the key's name
        to: str,
        body: str = "",
        *,
        facts: Mapping[str, Any] | None = None,
        phase: str | None = None,
        plan: str | None = None,
        re: Record | None = None,
    ) -> Record:
        """Append one record and return it. Raises NotSentError: nothing was written."""
        draft = Draft(type, to, body, facts or {}, phase, plan, re)
        with self.held() as log:
            return log.append(draft)[0]

    def resend(self, record: Record) -> Record:
        """Append a record of this log once more, with the same id and time. Raises NotSentError."""
        with self.held() as log:
            return log.resend(record)

    def held(self, patience: float = PATIENCE) -> "HeldLog":
        """Hold the log's lock for a block. Raises NotSentError where it cannot be had or opened."""
        with _Told(self.path):
            return HeldLog(self, *self._locked(patience))

    def _locked(self, patience: float) -> tuple[int, os.stat_result]:
        until = time.monotonic() + patience
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NEVER, 0o600)
            found = None
            try:
                if _lock(descriptor, until):
                    found = self._status_at_path(descriptor)
            finally:
                if found is None:
                    os.close(descriptor)
            if found is not None:
                return descriptor, found
            if time.monotonic() > until:
                what = f"another process has held the lock for {patience:g} s"
                raise NotSentError(f"{self.path}: {what}; send it again")

    def _status_at_path(self, descriptor: int) -> os.stat_result | None:
        """Return the status of an open log; None where it was moved away: it has no readers any more."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotSentError(f"{self.path}: is not a regular file; move it away")
        try:
            return status if os.path.samestat(status, os.stat(self.path, follow_symlinks=False)) else None
        except FileNotFoundError:
            return None


class HeldLog:
    """An own log whose lock is held."""

    def __init__(self, log: OwnLog, descriptor: int, status: os.stat_result) -> None:
        self._log = log
        self._descriptor = descriptor
        self._inode, self._size = status.st_ino, status.st_size

    def __enter__(self) -> Self:
        """Begin the block for which the lock is held."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        with suppress(OSError):  # what was written is written
            os.close(self._descriptor)

    def append(self, *drafts: Draft) -> list[Record]:
        """Append records in one write, all or none, and return them. Raises NotSentError."""
        with _Told(self._log.path):
            return self._append(drafts)

    def resend(self, record: Record) -> Record:
        """Append a record once more. Raises NotSentError."""
        again = record._replace(tries=min(record.tries + 1, MAX_TRIES))
        with _Told(self._log.path):
            self._write([again], is_torn=next(self._backwards(self._size)) != b"")
        return again

    def _append(self, drafts: Sequence[Draft]) -> list[Record]:
        log, now = self._log, round(self._log.clock() * 1000)
        number, at, is_torn = self._last()
        if is_worker(log.participant):
            self._refuse_too_many(drafts, number, now)
        records = []
        for draft in drafts:
            at = _time(draft, at, now)
            records.append(_record(draft, f"{log.participant}:{number + 1}", stamp(at), log.participant))
            number += 1
        self._write(records, is_torn=is_torn)
        log.last = number, at
        log.end = self._inode, self._size
        return records

    def _last(self) -> tuple[int, int, bool]:
        """Return the highest number, the last time, and whether the file ends in the middle of a line."""
        number, at = self._log.last
        if self._log.end == (self._inode, self._size):
            return number, at, False  # as this process has left it
        lines = self._backwards(self._size)
        rest = next(lines)
        # What follows the last LF becomes a line by ours: it counts, if only that LF was not written.
        for line in (rest, *lines) if rest else lines:
            found = decode(line, self._log.participant)
            if isinstance(found, Record) and found.tries == 1:
                return max(number, found.number), max(at, milliseconds(found.at)), rest != b""
        return number, at, rest != b""

    def _refuse_too_many(self, drafts: Sequence[Draft], number: int, now: int) -> None:
        told = [draft for draft in drafts if draft.type != "ack"]
        if told and number + len(told) > MAX_RECORDS:
            what = f"this worker's log holds {MAX_RECORDS:,} messages, which is the limit"
            raise NotSentError(f"{what}; put the rest into the report")
        if told and self._size >= MAX_LOG - MAX_LINE:
            raise NotSentError(
                "this worker's log has 32 MiB, which is the limit; put the rest into the report"
            )
        for draft in (draft for draft in told if draft.type in TALK):
            if self._recent(draft.to, now) >= MAX_TALK:
                name = split(draft.to)[1]
                raise NotSentError(f"{MAX_TALK} messages to {name} in a minute; combine them into one")

    def _recent(self, to: str, now: int) -> int:
        """Count the messages to a receiver in the last minute."""
        count = 0
        for line in self._backwards(self._size):
            found = decode(line, self._log.participant)
            if not isinstance(found, Record) or found.tries > 1:
                continue
            age = now - milliseconds(found.at)
            if age > MINUTE or count >= MAX_TALK:
                break
            count += found.to == to and found.type in TALK and age > -AHEAD
        return count

    def _backwards(self, end: int) -> Iterator[bytes]:
        """Yield what follows the last LF, then the lines before it, last first, without their LF.

        Of a line that is too long only the end is yielded, itself too long.
        """
        rest, step = b"", 4096
        while end > 0:
            start = max(0, end - step)
            first, *lines = (os.pread(self._descriptor, end - start, start) + rest).split(b"\n")
            yield from reversed(lines)
            rest, end, step = first[-MAX_LINE - 1 :], start, 1 << 18
        yield rest

    def _write(self, records: Sequence[Record], *, is_torn: bool) -> None:
        # A torn line stays alone: a writer that was killed may have left it.
        lines = [encode(record) for record in records]
        data = b"\n" * is_torn + b"\n".join(lines) + b"\n"
        written = os.write(self._descriptor, data)
        if written != len(data):
            # Not what ends with an LF: somebody may have read that, and its number is not free again.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size + data.rfind(b"\n", 0, written) + 1)
            raise NotSentError(f"{self._log.path}: cannot be written: the disk is full")
        self._size += written
        for line, record in zip(lines, records, strict=True):
            remember(line, record)


class _Told:
    """Turns any fault of the system into what it means for the sender: the message was not sent.

    A generator would take twice the time, in each of tens of thousands of sends.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            what = "is a link" if error.errno == errno.ELOOP else f"cannot be written: {error.strerror}"
            raise NotSentError(f"{self._path}: {what}") from error


def _lock(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(POLL)
        else:
            return True


def _time(draft: Draft, last: int, now: int) -> int:
    """Return the time of a record: not before the last of its log, and after the one that it answers."""
    answered = milliseconds(draft.re.at) + 1 if draft.re else 0
    return max([now, *(bound for bound in (last, answered) if bound <= now + AHEAD)])


def _record(draft: Draft, id_: str, at: str, sender: str) -> Record:
    """Return the record of a draft, cleaned. Raises NotSentError where it is none that may be written."""
    if draft.facts and not are_facts(draft.facts):
        raise NotSentError(_wrong_facts(draft.facts))
    kind, to, body, facts, phase, plan, re = draft
    re_ = re.id if re else None
    facts = clean_facts(facts) if facts else {}
    record = Record(id_, at, sender, to, kind, phase, plan, re_, 1, clean(body), facts)
    key = wrong_key(record, 0)  # its facts are looked at
    if key == "body":
        size = body_bytes(record.body)
        what = f"the body has {size:,} bytes, and {MAX_BODY:,} is the limit"
        raise NotSentError(f"{what}; shorten it, or name a file that holds it")
    if key:
        raise NotSentError(f"`{key}` cannot be {record.as_json()[key]!r:.80}")
    return record


def _wrong_facts(facts: Mapping[str, Any]) -> str:
    try:
        size = facts_bytes(facts)
    except (ValueError, TypeError, RecursionError):
        return "the facts are nothing that JSON can hold"
    return (
        f"the facts have {size:,} bytes, or too many levels; {MAX_FACTS:,} bytes and 32 levels are the limit"
    )
