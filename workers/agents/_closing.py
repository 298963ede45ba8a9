"""The closing records of a stream, and which of them counts: its CLI may print several, and its tools too."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workers.agents.agent import Usage

UsageOf = Callable[[Mapping[str, Any]], Usage | None]
"""Returns the use that a closing record states."""

_STATUS = "status"
"""A word that is in each report."""
EARLY = "a closing record came within a tool call"
"""What is shown of one."""


class Closed(NamedTuple):
    """One closing record."""

    record: Mapping[str, Any]
    is_success: bool
    text: str
    """The answer, where it is a success."""


class Closing:
    """Decides which closing record counts.

    One that comes between a tool call and its result closes nothing: what a tool writes to its agent's
    standard output looks like a record of the agent's. A later one counts only where it stands for a turn
    of its own, and a report is not replaced by less than a report, of another record or of the message before
    it: an agent that is held back at its end, as messages are new, may answer them in a word. An agent that
    ends a turn while a command of its own is still at work says so with `ended`.
    """

    def __init__(self, usage_of: UsageOf) -> None:
        self.counts: Closed | None = None
        self.usage: Usage | None = None
        self.error_after = ""
        """The error of a record that came after the answer, and that changes nothing."""
        self._usage_of = usage_of
        self._reported = ""
        """The last message that may be a report."""
        self._early: Closed | None = None
        self._has_moved = False
        self._is_begun = False
        self._was_ignored = False

    def begun(self) -> None:
        """Note the beginning of a turn: without a closing record of its own, nothing counts."""
        self._is_begun = True
        self.moved()

    def said(self, text: str) -> None:
        """Note a whole message."""
        if _STATUS in text.lower():
            self._reported = text

    def moved(self) -> None:
        """Note a message or a tool call: a closing record that comes now stands for a turn of its own."""
        self._has_moved = True
        self._ignore_early()

    def take(self, closed: Closed, *, error: str = "", turns: int = 0, in_call: bool = False) -> bool:
        """Accept a closing record; return whether the stream has ended with it, as far as can be known.

        `turns` is how many the record itself counts; `in_call` says that a tool call is open.
        """
        if in_call:
            self._ignore_early()
            self._early = closed
            return False
        is_own = turns > 0 or self._has_moved
        self._is_begun = self._has_moved = False
        if self.counts is None or is_own:
            self._replace(closed)
        elif not closed.is_success:
            self._fail_after(error)
        return True

    def ended(self, exit_code: int | None, *, leaves_calls: bool = False) -> Closed | None:
        """Return the record that counts at the end of the stream.

        An error that ended the stream within a tool call counts if the process ended by itself: no tool ends
        its agent in order. A success does so of an agent that `leaves_calls` open at its end, with code 0.
        """
        early, code = self._early, -1 if exit_code is None else exit_code
        if early is not None and (leaves_calls and code == 0 if early.is_success else code >= 0):
            self._replace(early)
            self._early, self._is_begun = None, False
        self._ignore_early()
        return None if self._is_begun else self.counts

    def flags(self) -> tuple[str, ...]:
        """Return what was strange about the records."""
        flags = ["early_end"] if self._was_ignored else []
        if self.error_after and self.counts is not None and self.counts.is_success:
            flags.append("error_after_answer")
        return tuple(flags)

    def _ignore_early(self) -> None:
        self._was_ignored |= self._early is not None
        self._early = None

    def _fail_after(self, error: str) -> None:
        self.error_after = error or "an error"

    def _replace(self, closed: Closed) -> None:
        if closed.is_success and self._reported and _STATUS not in closed.text.lower():
            closed = closed._replace(text=_fuller(self._reported, closed.text))
        before, self.counts = self.counts, closed
        if before is not None and before.is_success and closed.is_success:
            self.counts = closed._replace(text=_fuller(before.text, closed.text))
        self.usage = _at_least(self.usage, self._usage_of(closed.record))


def _fuller(before: str, after: str) -> str:
    """Return the later answer, or the earlier one where only that is a report."""
    from tickets.report import read_report  # noqa: PLC0415 - for start-up time: `ps` reads streams

    first, second = read_report(before), read_report(after)
    less = second.status is None and len(second.missing) > len(first.missing)
    return before if less else after


def _at_least(before: Usage | None, after: Usage | None) -> Usage | None:
    """Return the larger figures of two records: some CLIs count a turn, others all that came before it."""
    if before is None or after is None:
        return after or before
    costs = [cost for cost in (before.cost_usd, after.cost_usd) if cost is not None]
    return Usage(
        max(before.input_tokens, after.input_tokens),
        max(before.output_tokens, after.output_tokens),
        max(before.cached_tokens, after.cached_tokens),
        max(costs, default=None),
        after.models or before.models,
    )
