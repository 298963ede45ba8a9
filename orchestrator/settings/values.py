"""The values of `[budget]` and `[prices]`, without the models that read them."""

from typing import NamedTuple

from orchestrator.money import dollars, thousands


class SpendingLimits(NamedTuple):
    """`[budget]`: the most that a run and a day (UTC) may cost; None is not limited."""

    run_usd: float | None = None
    day_usd: float | None = None
    run_tokens: int | None = None
    day_tokens: int | None = None

    def in_words(self) -> str:
        """Describe all that is set on one line."""
        amounts = {"run": (self.run_usd, self.run_tokens), "day": (self.day_usd, self.day_tokens)}
        said = []
        for whose, (usd, tokens) in amounts.items():
            said += [f"{dollars(usd)} a {whose}"] if usd is not None else []
            said += [f"{thousands(tokens)} tokens a {whose}"] if tokens is not None else []
        return ", ".join(said) or "not limited"


class Price(NamedTuple):
    """`[prices."MODEL"]`: USD for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """None: as any other input."""
