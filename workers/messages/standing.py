"""How messages stand: computed from the records of the logs and the time, never stored."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from workers.messages.ids import Ids
from workers.messages.record import (
    Record,
    coordinator_of,
    everyone,
    is_lead,
    is_to_all,
    is_to_coordinator,
    lead_of,
    milliseconds,
)

Standing = Literal["answered", "refused", "undeliverable", "handled", "shown", "unacknowledged", "new"]
RECEIPTS: tuple[Standing, ...] = ("refused", "undeliverable", "handled", "shown")
"""What an ack may say, the strongest first."""
OPEN = ("question", "blocker", "cancel")
"""Types that wait for an answer."""
FOR_LEAD = ("question", "blocker", "error")
"""Types of which the lead is a receiver, too, where they go to its coordinator."""
ACK_LIMIT = 900.0
"""Seconds without a receipt after which a message is reported as unacknowledged, if no setting says else."""
FIRST_PAUSE = 5.0
"""Seconds before the first resend; each later pause is twice the one before."""


class Ack(NamedTuple):
    """A receipt that counts."""

    id: str
    at: str
    sender: str
    how: Standing
    reason: str
    facts: Mapping[str, Any]
    """What it says beside `how`, where it does."""


_NO_FACTS: dict[str, Any] = {}


class Message:
    """A message, and what became of it."""

    __slots__ = ("acks", "answers", "record", "sent")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.sent = record.tries
        """How often it was sent."""
        self.acks: tuple[Ack, ...] = ()
        self.answers: tuple[Record, ...] = ()
        """The receipts, and the records of its receivers that answer it, in the order of reading."""

    def stands(self, now: float, ack_limit: float = ACK_LIMIT) -> Standing:
        """Return how the message stands; times are in seconds."""
        if self.answers:
            return "answered"
        said = {ack.how for ack in self.acks}
        for word in RECEIPTS:
            if word in said:
                return word
        is_late = now * 1000 - milliseconds(self.record.at) > ack_limit * 1000
        return "unacknowledged" if is_late and not self.is_to_all else "new"

    @property
    def is_to_all(self) -> bool:
        """Return whether it goes to all participants of a run."""
        return is_to_all(self.record.to)

    @property
    def is_open(self) -> bool:
        """Return whether somebody still owes an answer."""
        if self.record.type not in OPEN or self.answers:
            return False
        debtor = lead_of(self.record.to) if _is_for_lead(self.record) else self.record.to
        return not any(
            ack.how in ("refused", "undeliverable") or (ack.how == "handled" and ack.sender == debtor)
            for ack in self.acks
        )

    def receivers(self) -> tuple[str, ...]:
        """Return whose receipts count, but for a message to all."""
        record = self.record
        return (record.to, lead_of(record.to)) if _is_for_lead(record) else (record.to,)

    def was_received_by(self, participant: str) -> bool:
        """Return whether a participant has acknowledged or answered it."""
        words: tuple[Ack | Record, ...] = (*self.acks, *self.answers)
        return any(word.sender == participant for word in words)


class Book:
    """All messages that were read, and how they stand. Records may come in any order, and more than once.

    With `is_brief` it keeps only the ids of settled messages, of which there may be very many: their receiver
    has acknowledged them, nobody has to answer them, and no lead has sent or receives them.
    """

    def __init__(self, *, is_brief: bool = False) -> None:
        self._is_brief = is_brief
        self._settled = Ids()
        self._messages: dict[str, Message] = {}
        self._early: dict[str, list[Record]] = {}
        self._for: dict[str, dict[str, Message]] = {}
        self._unheard: dict[str, dict[str, Message]] = {}
        self._void: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Take a valid record."""
        if record.type != "ack":
            self._add_message(record)
        if record.re is not None:
            self._add_word(record, record.re)

    def get(self, id_: str) -> Message | None:
        """Return a message by its id."""
        return self._messages.get(id_)

    def is_settled(self, id_: str) -> bool:
        """Return whether a message was forgotten, since it is settled."""
        return id_ in self._settled

    def __contains__(self, id_: str) -> bool:
        """Return whether a message was read."""
        return id_ in self._messages or id_ in self._settled

    def __iter__(self) -> Iterator[Message]:
        """Yield all messages that it keeps, in the order of reading."""
        return iter(self._messages.values())

    def new_for(self, participant: str) -> list[Message]:
        """Return the messages to a participant of which it has written neither a receipt nor an answer.

        The lead also receives the questions, blockers and errors to its coordinator.
        """
        own = self._for.get(participant, {})
        for_all = self._for.get(everyone(participant), {})
        if not for_all:
            return list(own.values())
        others = {
            id_: message
            for id_, message in for_all.items()
            if message.record.sender != participant and not message.was_received_by(participant)
        }
        # In the order of reading, as the messages to itself.
        found = {**own, **others}
        return (
            [message for id_, message in self._messages.items() if id_ in found]
            if others
            else [*own.values()]
        )

    def shown_since(self, participant: str, at: str) -> list[Message]:
        """Return what a participant was shown at a time or later, and did not answer."""
        return [
            message
            for message in self
            if not any(answer.sender == participant for answer in message.answers)
            and any(ack.sender == participant and ack.at >= at for ack in message.acks)
        ]

    def unheard(self, sender: str) -> list[Message]:
        """Return the messages of a sender without any receipt or answer, but for those to all."""
        return list(self._unheard.get(sender, {}).values())

    def unacknowledged(self, sender: str, now: float, ack_limit: float = ACK_LIMIT) -> list[Message]:
        """Return the messages of a sender that nobody has acknowledged in time."""
        return [one for one in self.unheard(sender) if one.stands(now, ack_limit) == "unacknowledged"]

    def void_acks(self) -> dict[str, int]:
        """Return how many acks of each participant count for nothing, of those who have any."""
        found = dict(self._void)
        for word in (word for words in self._early.values() for word in words if word.type == "ack"):
            found[word.sender] = found.get(word.sender, 0) + 1
        return found

    def _add_message(self, record: Record) -> None:
        if (known := self._messages.get(record.id)) is not None:
            known.sent = max(known.sent, record.tries)
            return
        if record.id in self._settled:
            return
        message = self._messages[record.id] = Message(record)
        for receiver in message.receivers():
            if receiver != record.sender:
                self._for.setdefault(receiver, {})[record.id] = message
        if not message.is_to_all:
            self._unheard.setdefault(record.sender, {})[record.id] = message
        for word in self._early.pop(record.id, ()):
            self._add_word(word, record.id)

    def _add_word(self, word: Record, id_: str) -> None:
        message = self._messages.get(id_)
        if message is None:
            if id_ not in self._settled:
                self._early.setdefault(id_, []).append(word)
        elif word.type != "ack":
            is_known = any(one.id == word.id for one in message.answers)
            if not is_known and _is_receiver(message.record, word.sender):
                message.answers = (*message.answers, word)
                self._received(message, word.sender)
        elif (ack := _ack(message.record, word)) is None:
            self._void[word.sender] = self._void.get(word.sender, 0) + 1
        elif all(one.id != ack.id for one in message.acks):
            message.acks = (*message.acks, ack)
            # Who was told by the coordinator that it cannot be delivered will not get it later.
            self._received(message, message.record.to if ack.how == "undeliverable" else ack.sender)

    def _received(self, message: Message, by: str) -> None:
        record = message.record
        self._unheard.get(record.sender, {}).pop(record.id, None)
        if not message.is_to_all:
            self._for.get(by, {}).pop(record.id, None)
        if self._is_brief and _is_spent(record):
            del self._messages[record.id]
            self._settled.add(record.id)


class Resends:
    """When the messages of a living sender are sent again."""

    def __init__(self, sender: str, ack_limit: float = ACK_LIMIT) -> None:
        self._sender = sender
        self._ack_limit = ack_limit
        self._last: dict[str, float] = {}

    def due(self, book: Book, now: float) -> list[Record]:
        """Return the records to append once more; a record is due once for each pause."""
        found = []
        for message in book.unheard(self._sender):
            record = message.record
            pause = FIRST_PAUSE * 2 ** (message.sent - 1)
            planned = milliseconds(record.at) / 1000 + pause - FIRST_PAUSE
            last = max(planned, self._last.get(record.id, 0))
            if now >= last + pause and message.stands(now, self._ack_limit) == "new":
                self._last[record.id] = now
                found.append(record._replace(tries=message.sent))
        return found


def _is_for_lead(record: Record) -> bool:
    return record.type in FOR_LEAD and is_to_coordinator(record.to)


def _is_receiver(record: Record, participant: str) -> bool:
    if participant in (record.sender, record.to):
        return participant != record.sender
    if is_to_all(record.to):
        return record.to == everyone(participant)
    return _is_for_lead(record) and participant == lead_of(record.to)


def _is_spent(record: Record) -> bool:
    """Return whether nobody asks about a message once its receiver has acknowledged it."""
    return not (
        record.type in OPEN
        or is_to_all(record.to)
        or _is_for_lead(record)
        or is_lead(record.sender)
        or is_lead(record.to)
    )


def _ack(record: Record, word: Record) -> Ack | None:
    """Return the receipt that an ack is for a message; None where it is void."""
    how = word.facts.get("how")
    if how not in RECEIPTS:
        return None
    is_undeliverable = how == "undeliverable" and word.sender == coordinator_of(record.to)
    if not is_undeliverable and not _is_receiver(record, word.sender):
        return None
    # Most say nothing else, and there are as many of them as messages.
    facts = word.facts if len(word.facts) > 1 else _NO_FACTS
    return Ack(word.id, word.at, word.sender, how, word.body, facts)
