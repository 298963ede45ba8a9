"""What a worker without a budget of its own may come to: what others of its kind came to; pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Expected(NamedTuple):
    """What one worker of a kind came to on the average, all its attempts together; 0 where nobody told."""

    usd: float = 0.0
    tokens: int = 0


class Came(NamedTuple):
    """What one attempt came to; `tokens` are None while that is not known."""

    whose: tuple[str, str, str]
    """Root, run and worker."""
    usd: float | None
    tokens: int | None


def kind_of(worker: str) -> str:
    """Give the kind of a worker from its name: `Codex` of `Codex-Worker-3`."""
    return worker.rpartition("-Worker-")[0]


def means(attempts: Iterable[Came]) -> dict[str, Expected]:
    """Give what the workers of each kind came to on the average.

    Those whose attempts have not all been told of are left out, and those who cost nothing: a provider
    that refuses says nothing of what a worker costs.
    """
    usd: dict[tuple[str, str, str], float] = {}
    tokens: dict[tuple[str, str, str], int] = {}
    out = set()
    for whose, cost, used in attempts:
        if used is None:
            out.add(whose)
            continue
        tokens[whose] = tokens.get(whose, 0) + used
        if cost is not None:
            usd[whose] = usd.get(whose, 0.0) + cost
    for_usd = _by_kind({whose: cost for whose, cost in usd.items() if whose not in out})
    for_tokens = _by_kind({whose: float(used) for whose, used in tokens.items() if whose not in out})
    return {
        kind: Expected(round(for_usd.get(kind, 0.0), 9), round(for_tokens.get(kind, 0.0)))
        for kind in {*for_usd, *for_tokens}
    }


def _by_kind(costs: dict[tuple[str, str, str], float]) -> dict[str, float]:
    known: dict[str, list[float]] = {}
    for (_, _, worker), cost in costs.items():
        if cost > 0:
            known.setdefault(kind_of(worker), []).append(cost)
    return {kind: math.fsum(some) / len(some) for kind, some in known.items()}
