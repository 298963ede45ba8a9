"""The earlier work that a ticket goes on from, as a run keeps it."""

from typing import Annotated, Any, Literal

from orchestrator.runs._shapes import Name, text
from orchestrator.runs.events import NO_USAGE, Usage
from tickets.value import Value

Origin = Literal["thread", "patch", "notes"]


class Continued(Value):
    """What an earlier run has left of a ticket, and how the ticket goes on from it. Paths are literal."""

    run: Name | None
    """None where only its checkpoint is left of it."""
    worker: Name | None
    """Of that run."""
    origin: Annotated[Origin, text]
    """The most of it that is taken up: the agent's own thread, its changes, or no more than its notes."""
    reason: str = ""
    """Why it ended."""
    was_cut_off: bool = False
    """Whether it could have gone on by itself."""
    files: tuple[str, ...] = ()
    """Its changes that stand in the new tree, or did not fit."""
    changed_since: tuple[str, ...] = ()
    """What the ticket owns or reads that has changed on the branch; its template, where that has."""
    conflict: str | None = None
    """The first of its changes that does not fit the branch: none of them was applied then."""
    thread: str | None = None
    notes: tuple[str, ...] = ()
    """`[14:44] TEXT`, in the words of that worker."""
    used: Usage = NO_USAGE
    """What its thread has used so far."""

    def document(self) -> dict[str, Any]:
        """Return it in the form of the documented output."""
        return {
            "run": self.run,
            "from": self.origin,
            "files": list(self.files),
            "changed_since": list(self.changed_since),
            "conflict": self.conflict,
        }
