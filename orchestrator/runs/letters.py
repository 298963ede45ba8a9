"""The messages that wait for the lead of a run, as values."""

from tickets.value import Value
from workers.messages.standing import Message


class Letter(Value):
    """One message that waits for the lead of a run."""

    message: Message
    is_new: bool
    """Whether it was not shown to the lead yet."""
    about: str
    """The worker that asks; empty where none of the run does."""
    worker_state: str | None
    """What that worker does, or how it ended."""
    resumes: bool
    """Whether it has ended, and an answer lets it go on."""
    is_open: bool
    """Whether it asks for an answer that somebody can still hear."""

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.message.record.id

    @property
    def pauses(self) -> bool:
        """Whether its worker does nothing until it is answered."""
        return self.message.record.facts.get("mode") == "pause"

    @property
    def title(self) -> str:
        """Its title, or the first line of its body."""
        record = self.message.record
        return str(record.facts.get("title") or next(iter(record.body.strip().splitlines()), ""))


class Inbox(Value):
    """The messages that wait for the lead of a run; new ones first, then open ones."""

    letters: tuple[Letter, ...] = ()
    unacknowledged: int = 0
    """How many messages of the run nobody has acknowledged in time."""

    @property
    def new(self) -> tuple[Letter, ...]:
        """Those that the lead was not shown yet."""
        return tuple(one for one in self.letters if one.is_new)

    @property
    def open(self) -> tuple[Letter, ...]:
        """Those that ask for an answer."""
        return tuple(one for one in self.letters if one.is_open)

    def counts(self) -> dict[str, int]:
        """Return the counts that run documents have."""
        return {"new": len(self.new), "open": len(self.open), "unacknowledged": self.unacknowledged}

    def asked_by(self, worker: str) -> Letter | None:
        """Return the newest message by which a worker waits for an answer."""
        return next((one for one in reversed(self.open) if one.about == worker), None)


EMPTY = Inbox()
