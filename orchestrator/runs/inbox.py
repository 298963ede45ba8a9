"""What waits for the lead in the messages of some runs: what is new, and what nobody has answered.

Imports little: each `status` asks it. Where nobody has sent a message, that is one look at a folder.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from orchestrator.runs.letters import Inbox, Letter
from orchestrator.runs.state import RunState
from workers.files.run_dir import MESSAGES
from workers.messages.logs import Logs
from workers.messages.record import COORDINATOR, LEAD, participant, split
from workers.messages.standing import ACK_LIMIT, Book, Message


class InboxReader:
    """Keeps the inboxes of some runs in step with the logs: `RunState.inbox`."""

    def __init__(self, root: Path, states: Iterable[RunState], ack_limit: float = ACK_LIMIT) -> None:
        self._folder, self._ack_limit = root / MESSAGES, ack_limit
        self._states = list(states)
        runs = [state.run.id for state in self._states]
        concerned = tuple(participant(run, name) for run in runs for name in (LEAD, COORDINATOR))
        self._logs = Logs(str(self._folder), concerning=concerned)
        self._book = Book(is_brief=True)

    def read(self, now: float) -> None:
        """Read what is new; `now` is in epoch seconds."""
        if not self._states:
            return
        for poll in self._logs.read_parts():
            for seen in poll.records:
                self._book.add(seen.record)
        for state in self._states:
            state.inbox = inbox_of(state, self._book, now, self._ack_limit)


def inbox_of(state: RunState, book: Book, now: float, ack_limit: float = ACK_LIMIT) -> Inbox:
    """Return what waits for the lead of a run, by a book of its messages."""
    letters = sorted(_letters(state, book), key=lambda one: not one.is_new)
    mine = (one for one in book if split(one.record.sender)[0] == state.run.id)
    late = sum(one.stands(now, ack_limit) == "unacknowledged" for one in mine) if state.is_unfinished else 0
    return Inbox(tuple(letters), late)


def read_inboxes(root: Path, states: Sequence[RunState], now: float) -> tuple[Letter, ...]:
    """Read the inboxes of some runs once; return what waits in them. Without messages it is one look."""
    if (root / MESSAGES).is_dir():
        InboxReader(root, states).read(now)
    found = [letter for state in states for letter in state.inbox.letters]
    return tuple(sorted(found, key=lambda one: not one.is_new))


def _letters(state: RunState, book: Book) -> Iterator[Letter]:
    lead = participant(state.run.id, LEAD)
    new = {message.record.id: message for message in book.new_for(lead)}
    owed = {one.record.id: one for one in book if one.is_open and lead in one.receivers()}
    for id_, message in {**new, **owed}.items():
        letter = letter_of(state, message, is_new=id_ in new)
        # What is new is shown once, whatever became of its sender: it was sent to be read.
        if letter.is_new or letter.is_open:
            yield letter


def letter_of(state: RunState, message: Message, *, is_new: bool) -> Letter:
    """Return what a message is for the lead of a run: who asks, and whether an answer lets it go on."""
    record = message.record
    # A question to all is news for the lead: nobody owes its answer.
    asks_lead = message.is_open and participant(state.run.id, LEAD) in message.receivers()
    run, name = split(str(record.facts.get("about") or record.sender))
    worker = state.workers.get(name) if run == state.run.id else None
    if worker is None:
        return Letter(message, is_new, "", None, resumes=False, is_open=asks_lead and state.is_unfinished)
    does = worker.outcome if worker.ended else "running" if worker.started else "waiting"
    resumes = worker.ended and message.is_open and not worker.why_not_answered(asks=True)
    is_open = asks_lead and (resumes or (not worker.ended and state.is_unfinished))
    return Letter(message, is_new, name, does, resumes, is_open)
