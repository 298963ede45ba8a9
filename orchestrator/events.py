"""The closed union of what a state file can show. Plain values; `at` is always UTC."""

from datetime import datetime
from typing import Literal, NamedTuple

Outcome = Literal[
    "skipped", "complete", "blocked", "needs_clarification", "failed", "timed_out",
    "rate_limited", "over_budget", "cancelled", "interrupted",
]  # fmt: skip
Verdict = Literal["accepted", "partial", "rejected", "pending"]


class RosterEntry(NamedTuple):
    """One worker that has been sent out."""

    worker: str
    title: str
    scope: tuple[str, ...]
    """Patterns as the ticket states them; empty for a ticket that owns nothing."""


class Completion(NamedTuple):
    """One worker whose run has been integrated."""

    worker: str
    title: str
    outcome: Outcome
    verdict: Verdict | None
    """None for a skipped one."""
    reason: str
    files: tuple[str, ...]
    """Paths landed."""


class RunDeployed(NamedTuple):
    """A run has started: its workers stand on the roster."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[RosterEntry, ...]


class RunIntegrated(NamedTuple):
    """Verdicts of a run. It may be recorded again when pending verdicts are settled."""

    run: str
    phase: str
    at: datetime
    lead: str
    workers: tuple[Completion, ...]
    landing: str | None
    """Sha of the landing commit, if anything landed."""
    gate: str
    """One line: `passed: make test`, `none`, `failed: …`."""


class RunClosed(NamedTuple):
    """A run ended without integration (cancelled, refused): its workers leave the roster."""

    run: str
    at: datetime
    lead: str
    status: Literal["cancelled", "interrupted"]


Event = RunDeployed | RunIntegrated | RunClosed
