"""The messages of one worker, for its own processes: sending, waiting for receipts, sending again.

Several calls may be under way at once, each in a thread of its own.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal

from workers.messages.delivery import MOST, News, Reading, delivery
from workers.messages.own_log import NotSentError, OwnLog
from workers.messages.receivers import id_of, receiver_of
from workers.messages.record import Record, coordinator_of, participant_of
from workers.messages.standing import ACK_LIMIT, Message, Resends

Events = Literal["transitions", "milestones"]
Mode = Literal["skip", "pause"]
_QUICK, _SLOW = 0.02, 0.05
_QUICK_FOR = 1.0
"""Seconds between two polls: the first second after a message, and then."""


class Mailbox:
    """The messages of the worker that a log is of."""

    def __init__(
        self,
        log: str,
        phase: str | None = None,
        *,
        events: Events = "transitions",
        on_blocker: Mode = "skip",
        pause_limit: float = 1800.0,
        deadline: float | None = None,
        is_phase_worker: bool = False,
        ack_limit: float = ACK_LIMIT,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the mailbox. Raises ValueError where the file's name is none of a log."""
        folder, name = os.path.split(log)
        participant = participant_of(name)
        if participant is None:
            raise ValueError(f"{log}: is not the name of a message log")
        self.participant, self.folder, self.phase = participant, folder, phase or None
        self.events, self.on_blocker = events, on_blocker
        self.pause_limit, self.deadline = pause_limit, deadline
        self.is_phase_worker, self.ack_limit = is_phase_worker, ack_limit
        self.clock = clock
        self.reading = Reading(folder, participant)
        self.book = self.reading.book
        self._log = OwnLog(log, participant, clock)
        self._resends = Resends(participant, ack_limit)
        self._wait = wait
        self._lock = threading.RLock()

    def send(
        self,
        type: str,  # noqa: A002 - the key's name
        to: str | None = None,
        body: str = "",
        *,
        facts: Mapping[str, Any] | None = None,
        plan: str | None = None,
        re: Record | None = None,
    ) -> Message:
        """Send a message, to the coordinator where nobody else is named. Raises NotSentError."""
        receiver = to or coordinator_of(self.participant)
        with self._lock:
            record = self._log.append(type, receiver, body, facts=facts, phase=self.phase, plan=plan, re=re)
            self.book.add(record)
            return self._message(record.id)

    def receiver(self, to: str) -> str:
        """Return the receiver that is meant. Raises NotSentError, with the nearest names."""
        self.catch_up()
        return receiver_of(to, self.participant, self.folder, self.reading.logs.participants())

    def named(self, end: str) -> Record:
        """Return the message, sent or received, whose id has an end. Raises NotSentError."""
        self.catch_up()
        with self._lock:
            return self._message(id_of(end, (message.record.id for message in self.book))).record

    def catch_up(self) -> None:
        """Read what is new, and send again what is due."""
        with self._lock:
            self.reading.catch_up()
            for record in self._resends.due(self.book, self.clock()):
                with suppress(NotSentError):  # a later one may get through
                    self.book.add(self._log.resend(record))

    def is_unheard(self) -> bool:
        """Return whether something may have to be sent again."""
        with self._lock:
            return any(self.stands(message) == "new" for message in self.book.unheard(self.participant))

    def stands(self, message: Message) -> str:
        """Return how a message stands now."""
        return message.stands(self.clock(), self.ack_limit)

    def new(self) -> list[Message]:
        """Return the messages that are new to the worker, as far as they were read."""
        with self._lock:
            return self.book.new_for(self.participant)

    def unacknowledged(self) -> list[str]:
        """Return the ids of sent messages that nobody has acknowledged in time."""
        with self._lock:
            late = self.book.unacknowledged(self.participant, self.clock(), self.ack_limit)
            return [message.record.id for message in late]

    def wait_until(self, is_there: Callable[[], bool], seconds: float) -> bool:
        """Read along until a condition holds, or for some seconds; return whether it holds."""
        start = time.monotonic()
        while True:
            self.catch_up()
            if is_there():
                return True
            passed = time.monotonic() - start
            if passed >= seconds:
                return False
            self._wait(min(_QUICK if passed < _QUICK_FOR else _SLOW, seconds - passed))

    @contextmanager
    def delivering(self, most: int = MOST, told: Collection[str] = ()) -> Iterator[News]:
        """Yield what is new, to be handed over in the block, and acknowledge it. Raises NotSentError.

        `told` are the ids of what the worker is shown in another way at the same time.
        """
        with self._lock, delivery(self._log, self.reading, most=most, told=told) as news:
            yield news

    def _message(self, id_: str) -> Message:
        message = self.book.get(id_)
        if message is None:  # another line of this log has its number
            raise NotSentError(f"{id_} is not in the log as it was sent; send it again")
        return message
