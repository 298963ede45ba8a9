"""What the use of a model costs: by its agent's own account, else by the table in the settings."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from workers.agents import Usage

_MILLION = 1_000_000

PricedBy = Literal["agent", "table", "unpriced"]
"""Who says what it cost; `unpriced`: nobody, so it is counted in tokens alone."""


class Price(NamedTuple):
    """`[prices."MODEL"]`: USD for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """None: as any other input."""


class Cost(NamedTuple):
    """What one attempt cost; `tokens` are those that went in, cached ones too, and those that came out."""

    usd: float | None
    by: PricedBy
    tokens: int


def priced(usage: Usage | None, model: str | None, prices: Mapping[str, Price]) -> Cost:
    """Price what a worker used; the agent's own figure stands before that of the table."""
    if usage is None:
        return Cost(None, "unpriced", 0)
    tokens = usage.input_tokens + usage.output_tokens
    said = usage.cost_usd
    # A stream is no place to trust: one figure that is no amount would spoil the sum of a whole day.
    if said is not None and 0 <= said < math.inf:
        return Cost(said, "agent", tokens)
    price = price_of(model, prices)
    if price is None:
        return Cost(None, "unpriced", tokens)
    cached = min(usage.cached_tokens, usage.input_tokens)
    for_cached = price.input if price.cached_input is None else price.cached_input
    usd = (usage.input_tokens - cached) * price.input + cached * for_cached
    return Cost((usd + usage.output_tokens * price.output) / _MILLION, "table", tokens)


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Find a model's price: by its whole name, else by the longest name in the table that it begins with."""
    if model is None:
        return None
    names = [name for name in prices if model.startswith(name)]
    return prices[max(names, key=len)] if names else None
