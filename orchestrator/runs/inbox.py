"""What waits for the lead in the messages of some runs: what is new, and what nobody has answered.

Imports little: each `status` asks it. Where nobody has sent a message, that is one look at a folder.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.runs.state import RunState
from tickets.value import Value
from workers.files.run_dir import MESSAGES
from workers.messages.logs import Logs
from workers.messages.record import COORDINATOR, LEAD, participant, split
from workers.messages.standing import ACK_LIMIT, Book, Message


class Letter(Value):
    """One message that waits for the lead of a run."""

    state: RunState
    message: Message
    is_new: bool
    """Whether it was not shown to the lead yet."""

    @property
    def about(self) -> str:
        """The worker that asks; empty where none of the run does."""
        record = self.message.record
        run, name = split(str(record.facts.get("about") or record.sender))
        return name if run == self.state.run.id and name in self.state.workers else ""

    @property
    def resumes(self) -> bool:
        """Whether its worker has ended, and an answer lets it go on."""
        worker = self.state.workers.get(self.about)
        asks = self.message.is_open
        return worker is not None and worker.ended and asks and not worker.why_not_answered(asks=asks)


class Inbox(Value):
    """The messages that wait for the leads of some runs; new ones first, then open ones."""

    waiting: tuple[Letter, ...] = ()
    unacknowledged: int = 0
    """How many messages of their runs nobody has acknowledged in time."""
    book: Book | None = None
    """All messages that concern those leads and their coordinators."""

    @property
    def new(self) -> tuple[Letter, ...]:
        """Those that no lead was shown yet."""
        return tuple(one for one in self.waiting if one.is_new)

    @property
    def open(self) -> tuple[Letter, ...]:
        """Those that ask for an answer."""
        return tuple(one for one in self.waiting if one.message.is_open)

    def counts(self) -> dict[str, int]:
        """Return the counts that run documents have."""
        return {"new": len(self.new), "open": len(self.open), "unacknowledged": self.unacknowledged}


def inbox_of(root: Path, states: Iterable[RunState], now: float, ack_limit: float = ACK_LIMIT) -> Inbox:
    """Return what waits for the leads of some runs; `now` is in epoch seconds."""
    folder = root / MESSAGES
    asked = [state for state in states if _may_ask(state)] if folder.is_dir() else []
    if not asked:
        return Inbox()
    book = book_of(folder, [state.run.id for state in asked])
    found = [one for state in asked for one in _waiting(state, book)]
    ids = {state.run.id for state in asked if state.is_unfinished}
    late = (one for one in book if split(one.record.sender)[0] in ids)
    count = sum(one.stands(now, ack_limit) == "unacknowledged" for one in late)
    return Inbox(tuple(sorted(found, key=lambda one: not one.is_new)), count, book)


def book_of(folder: Path, runs: Iterable[str]) -> Book:
    """Read the messages that concern the leads and the coordinators of some runs."""
    book = Book()
    concerned = tuple(participant(run, name) for run in runs for name in (LEAD, COORDINATOR))
    for seen in Logs(str(folder), concerning=concerned).read_all().records:
        book.add(seen.record)
    return book


def _may_ask(state: RunState) -> bool:
    over = ("cancelled", "skipped")
    ended = (one for one in state.workers.values() if one.ended and one.outcome not in over)
    return state.is_unfinished or any(not one.lands for one in ended)


def _waiting(state: RunState, book: Book) -> Iterator[Letter]:
    lead = participant(state.run.id, LEAD)
    new = {message.record.id: message for message in book.new_for(lead)}
    owed = {one.record.id: one for one in book if one.is_open and lead in one.receivers()}
    for id_, message in {**new, **owed}.items():
        one = Letter(state, message, id_ in new)
        worker = state.workers.get(one.about)
        has_ended = worker is not None and worker.ended
        if one.resumes or (state.is_unfinished and (one.is_new or not has_ended)):
            yield one
