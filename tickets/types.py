"""Literal types of tickets, journals and state files, and the table of agents; quick to import."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from tickets.value import Value


class PoolDefault(Value):
    """The pool limits of an agent that AGENTS.md does not mention."""

    most: int | None = 5
    """Workers at once; None: no limit of its own."""
    enabled: bool = True


AGENTS: Mapping[str, PoolDefault] = {
    "codex": PoolDefault(),
    "claude": PoolDefault(),
    "gemini": PoolDefault(enabled=False),
    "command": PoolDefault(most=None),
}
"""The agents, one line each. All else about an agent is in its module, `workers.agents.NAME`."""

SLOTS: Mapping[str, int] = {name: one.most for name, one in AGENTS.items() if one.most is not None}
"""The agents that have slots of their own in the pool, and how many by default."""

if TYPE_CHECKING:
    AgentName = str
else:
    # At run time the names of the table, so that readers of data refuse any other.
    AgentName = Literal[tuple(AGENTS)]

LARGEST_FIGURE = 10**12
"""Tokens or USD of one record: a larger one cannot be, and sums of such could leave the range of numbers."""

Mode = Literal["read-only", "write"]
Priority = Literal["P0", "P1", "P2"]

Outcome = Literal[
    "skipped", "complete", "blocked", "needs_clarification", "failed", "timed_out",
    "rate_limited", "over_budget", "cancelled", "interrupted",
]  # fmt: skip
Verdict = Literal["accepted", "partial", "rejected", "pending"]

Frequency = Literal["every-step", "milestones", "final"]
"""How often the checkpoint of an agent is written."""
Reporting = Literal["transitions", "milestones"]
"""What phase workers report: each change of a state, or its results alone."""
BlockerMode = Literal["skip", "pause"]
"""What a blocked worker does: it goes on with another task, or waits for the answer."""
