"""Whether a start fits within the limits of a ticket, a run and a day, after spent and reserved amounts."""

from typing import Literal

from orchestrator.budget.totals import Spent
from orchestrator.money import dollars, thousands
from orchestrator.settings.values import SpendingLimits
from tickets.value import Value
from tickets.wording import count_of

LEAST_USD = 0.0001
"""The smallest amount that a CLI can be given; it would take 0 for no limit."""
_DUST = 1e-9
"""USD; sums of binary fractions are off by less."""

LimitName = Literal[
    "ticket_usd", "ticket_tokens", "run_usd", "run_tokens", "day_usd", "day_tokens", "ledger"
]  # fmt: skip
"""The limit that forbids a start; `ledger`: another process holds the ledger's lock."""


class Budget(Value):
    """The budget of one ticket, over all its attempts; None is not limited."""

    usd: float | None = None
    tokens: int | None = None
    reserve_usd: float | None = None
    """Where `usd` is None: USD to reserve for each attempt nevertheless, `[budget] worker_usd`."""

    @property
    def held_usd(self) -> float | None:
        """What a start reserves in USD; None where that is nothing."""
        return self.reserve_usd if self.usd is None else self.usd


class Refused(Value):
    """A refused start; `reason` is one plain line that names the limit."""

    reason: str
    """Where it can wait, what it waits for: `room in the run's budget of $5.00 (…)`."""
    can_wait: bool
    """Whether running workers may release what they hold; else only a larger limit helps."""
    limit: LimitName


class _Account(Value):
    """One limit, and how far it is used."""

    name: LimitName
    whose: str
    limit: float
    spent: float
    held: float
    asked: float | None
    held_by: int
    asks: str
    """The name of what asks for `asked`."""

    def refusal(self) -> Refused | None:
        """Return the refusal of a start for which there is no room; None where there is."""
        if self._has_room(self.spent + self.held):
            return None
        say = dollars if self.name.endswith("usd") else _tokens
        budget = f"the {self.whose}'s budget of {say(self.limit)}"
        used = f"{say(self.spent)} spent"
        used += f", {say(self.held)} held by {count_of(self.held_by, 'worker')}" if self.held else ""
        can_wait = self._has_room(self.spent)
        for_it = "" if self.asked is None else f" for {self.asks} {say(self.asked)}"
        if can_wait:
            return Refused(f"room in {budget}{for_it} ({used})", True, self.name)
        if self.asked is not None and self.asked > self.limit + _DUST:
            return Refused(f"{budget} is less than{for_it.removeprefix(' for')}", False, self.name)
        if self.asked is None or self.spent >= self.limit - _DUST:
            return Refused(f"{budget} is spent ({used})", False, self.name)
        return Refused(f"{budget} has no room{for_it} ({used})", False, self.name)

    def _has_room(self, used: float) -> bool:
        if self.asked is None:
            return used < self.limit - _DUST
        return used + self.asked <= self.limit + _DUST


def left_of(budget: Budget, earlier: Spent) -> Budget | Refused:
    """Return what earlier attempts have left of a ticket's own budget."""
    usd = None if budget.usd is None else budget.usd - earlier.usd
    tokens = None if budget.tokens is None else budget.tokens - earlier.tokens
    if usd is not None and budget.usd is not None and usd <= _DUST:
        reason = f"the ticket's budget of {dollars(budget.usd)} is spent ({dollars(earlier.usd)} spent)"
        return Refused(reason, False, "ticket_usd")
    if tokens is not None and budget.tokens is not None and tokens <= 0:
        reason = f"the ticket's budget of {_tokens(budget.tokens)} is spent ({_tokens(earlier.tokens)} spent)"
        return Refused(reason, False, "ticket_tokens")
    return budget._replace(usd=usd, tokens=tokens)


def refusal_of(asked: Budget, run: Spent, day: Spent, limits: SpendingLimits) -> Refused | None:
    """Return the limit that forbids a start, first one for which waiting does not help; None if none does."""
    accounts: list[_Account] = []
    for whose, usd, tokens, spent in (
        ("run", limits.run_usd, limits.run_tokens, run),
        ("day", limits.day_usd, limits.day_tokens, day),
    ):
        is_run = whose == "run"
        if usd is not None:
            name: LimitName = "run_usd" if is_run else "day_usd"
            asks = "the ticket's" if asked.usd is not None else "the worker's reserve of"
            accounts.append(
                _Account(name, whose, usd, spent.usd, spent.held_usd, asked.held_usd, spent.held_by, asks)
            )
        if tokens is not None:
            name = "run_tokens" if is_run else "day_tokens"
            in_tokens = spent.tokens, spent.held_tokens, asked.tokens, spent.held_by
            accounts.append(_Account(name, whose, tokens, *in_tokens, "the ticket's"))
    refusals = [refusal for account in accounts if (refusal := account.refusal())]
    return min(refusals, key=lambda one: one.can_wait, default=None)


def usd_left(limit: float | None, spent: Spent) -> float | None:
    """Return the USD that a limit still allows; None where it is not set."""
    return None if limit is None else max(0.0, limit - spent.usd - spent.held_usd)


def hard_limit(ticket_usd: float | None, run_left: float | None, day_left: float | None) -> float | None:
    """Return the USD at which an agent that can stop itself must do so: the least of what is left."""
    known = [left for left in (ticket_usd, run_left, day_left) if left is not None]
    return max(LEAST_USD, min(known)) if known else None


def _tokens(number: float) -> str:
    return f"{thousands(int(number))} tokens"
