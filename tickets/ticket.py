"""A ticket: what one worker is asked to do, and what it owns while it does it."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tickets.types import AgentName, Mode, Priority


class Ticket(NamedTuple):
    """One rendered template for one worker. Times are seconds, money is USD.

    `body` is the Jinja2 source of the prompt and stays unrendered here: what a dependency printed
    is known only when the ticket's turn has come. Every other string is rendered.
    """

    id: str
    """The template's stem, with `[key=value]` for a fan-out."""
    template: str
    """The template's path, relative to the repository's root."""
    worker: str
    agent: AgentName
    phase: str
    title: str
    body: str
    deliverable: str | None = None
    mode: Mode = "read-only"
    priority: Priority = "P1"
    """Which of several tickets that could start goes first."""
    owns: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    """Ids of tickets; fan-outs are expanded already."""
    acceptance: tuple[str, ...] = ()
    timeout: float = 1800.0
    idle_timeout: float = 900.0
    retries: int = 1
    fallback: tuple[AgentName, ...] = ()
    model: str | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    max_files_changed: int | None = None
    matrix: Mapping[str, str] = {}
    command: tuple[str, ...] | None = None
    lines: Mapping[str, int] = {}
    """The place of each key in the template, and where `body` begins: for messages only."""

    def shared(self) -> "Ticket":
        """Return a copy that shares equal parts with the other tickets of a fan-out, which may be many."""
        return self._replace(body=sys.intern(self.body), lines=_one_of(tuple(self.lines.items())))

    def done_by(self, agent: AgentName) -> "Ticket":
        """Return the ticket for a fallback agent, which does not know the first agent's model."""
        return self if agent == self.agent else self._replace(agent=agent, model=None)

    def place(self, key: str) -> str:
        """Return the place of a key, as messages name it."""
        return f"{self.template}:{self.lines[key]}" if key in self.lines else self.template


@lru_cache(maxsize=1_000)
def _one_of(lines: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return dict(lines)
