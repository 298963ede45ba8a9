"""What `plan` says of money: the limits, and of each agent what they can do to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.admission import PRICES_ITSELF, STOPS_ITSELF, Limits
from orchestrator.prices import PricedBy, price_of
from orchestrator.settings import Settings
from orchestrator.spent import Spent
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.words import AgentName


def budget_of(
    settings: Settings, tickets: Iterable[Ticket], agents: Mapping[str, AgentName], today: Spent
) -> dict[str, Any]:
    """Give the limits, what the day came to so far, and each agent and model that has tickets.

    `agents` are those that do a ticket in another's place. Command workers use no model, and are left out.
    """
    counted: dict[tuple[AgentName, str | None], list[Ticket]] = {}
    for ticket in tickets:
        agent = agents.get(ticket.id, ticket.agent)
        if agent != "command":
            model = ticket.done_by(agent).model or settings.agent(agent).model
            counted.setdefault((agent, model), []).append(ticket)
    return {
        **settings.spending_limits._asdict(),
        "today": today._asdict(),
        "agents": [
            {"agent": agent, "model": model, "tickets": len(own), "hard": agent in STOPS_ITSELF,
             "priced_by": _priced_by(agent, model, settings),
             **_limited(own, settings.spending_limits)}
            for (agent, model), own in counted.items()
        ],
    }  # fmt: skip


def unheld(budget: Mapping[str, Any]) -> list[Problem]:
    """Warn of agents which no limit in USD can hold, since nobody knows what they cost."""
    do = "write its price below `[prices]`, or set a limit in tokens"
    no_model = "name a model (`[agents.{}] model`) and write its price below `[prices]`"
    return [
        Problem(one["agent"], f"no limit in USD holds {_named(one)}: its price is not known",
                do if one["model"] else no_model.format(one["agent"]), "warning")
        for one in budget["agents"]
        if one["limited_usd"] and one["priced_by"] == "unpriced"
    ]  # fmt: skip


def budget_lines(budget: Mapping[str, Any]) -> list[str]:
    """Say it for a person; nothing where no ticket can cost anything."""
    if not budget["agents"]:
        return []
    limits, today = Limits(*(budget[name] for name in Limits._fields)), Spent(**budget["today"])
    spent = "" if today.is_nothing else f"; today so far {today.in_words()}"
    lines = [f"budget: {limits.in_words()}{spent}"]
    return lines + [
        f"  {_named(one)} {_held(one)}"
        for one in budget["agents"]
        if one["limited_usd"] or one["limited_tokens"]
    ]


def _named(one: Mapping[str, Any]) -> str:
    return f"{one['agent']} ({one['model']})" if one["model"] else str(one["agent"])


def _held(one: Mapping[str, Any]) -> str:
    if one["hard"]:
        return "stops itself at what is left in USD; a limit in tokens stops the next start"
    price = "priced by [prices]" if one["priced_by"] == "table" else "not priced, counted in tokens alone"
    return f"tells its use when it ends, so a limit stops the next start; {price}"


def _limited(tickets: Sequence[Ticket], limits: Limits) -> dict[str, bool]:
    in_usd = limits.run_usd or limits.day_usd or any(ticket.budget_usd for ticket in tickets)
    in_tokens = limits.run_tokens or limits.day_tokens or any(ticket.budget_tokens for ticket in tickets)
    return {"limited_usd": bool(in_usd), "limited_tokens": bool(in_tokens)}


def _priced_by(agent: AgentName, model: str | None, settings: Settings) -> PricedBy:
    if agent in PRICES_ITSELF:
        return "agent"
    return "table" if price_of(model, settings.price_list) else "unpriced"
