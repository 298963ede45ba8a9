"""The price of a model's use: as its agent reports it, else from the table in the settings."""

from collections.abc import Mapping

from orchestrator.runs.events import PricedBy
from orchestrator.settings.values import Price
from tickets.types import LARGEST_FIGURE
from tickets.value import Value
from workers.agents.agent import ModelUse, Usage

_MILLION = 1_000_000


class Cost(Value):
    """What one attempt cost; `tokens` are those that went in, cached ones too, and those that came out."""

    usd: float | None
    by: PricedBy
    tokens: int


def priced(usage: Usage | None, model: str | None, prices: Mapping[str, Price]) -> Cost:
    """Price a worker's use; the agent's own figure takes precedence over the table's.

    There the models that its stream names stand before the one that was asked for: that may be none, or
    one that the CLI has turned away from.
    """
    if usage is None:
        return Cost(None, "unpriced", 0)
    tokens = usage.input_tokens + usage.output_tokens
    said = usage.cost_usd
    # A stream is not trusted: one figure that is no amount would spoil the sum of a whole day.
    if said is not None and 0 <= said < LARGEST_FIGURE:
        return Cost(said, "agent", tokens)
    usd = 0.0
    for one in _parts(usage):
        price = price_of(one.model, prices) or price_of(model, prices)
        if price is None:
            return Cost(None, "unpriced", tokens)
        cached = min(one.cached_tokens, one.input_tokens)
        for_cached = price.input if price.cached_input is None else price.cached_input
        usd += (one.input_tokens - cached) * price.input + cached * for_cached
        usd += one.output_tokens * price.output
    return Cost(usd / _MILLION, "table", tokens)


def _parts(usage: Usage) -> list[ModelUse]:
    """Return the use of each model; the rest of the sum counts for the model that was used most."""
    used = [one for one in usage.models if one.input_tokens or one.output_tokens] or list(usage.models[:1])
    most = max(used, key=lambda one: one.input_tokens + one.output_tokens, default=ModelUse(""))
    whole = usage.input_tokens, usage.output_tokens, usage.cached_tokens
    told = (sum(counts) for counts in zip(*(one[1:] for one in used), strict=True)) if used else (0, 0, 0)
    left = [max(0, count - part) for count, part in zip(whole, told, strict=True)]
    return [*used, ModelUse(most.model, *left)] if any(left) or not used else used


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return a model's price: by its whole name, else by the longest beginning of it in the table."""
    if not model:
        return None
    names = [name for name in prices if model.startswith(name)]
    return prices[max(names, key=len)] if names else None
