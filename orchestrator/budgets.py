"""What is said of money before a start: the limits, of each agent what they do to it, and what to mind."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.admission import PRICES_ITSELF, STOPS_ITSELF, Budget, Limits, refusal_of
from orchestrator.prices import PricedBy, price_of
from orchestrator.settings import Settings
from orchestrator.spent import Spent, dollars
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.words import AgentName


def budget_of(
    settings: Settings, tickets: Iterable[Ticket], agents: Mapping[str, AgentName], today: Spent
) -> dict[str, Any]:
    """Give the limits, what the day came to so far, and each agent and model that has tickets.

    `agents` are those that do a ticket in another's place. Command workers use no model, and are left out.
    """
    return {
        **settings.spending_limits._asdict(),
        "today": today._asdict(),
        "agents": _agents(settings, tickets, agents),
    }


def budget_warnings(
    settings: Settings, tickets: Sequence[Ticket], agents: Mapping[str, AgentName]
) -> list[Problem]:
    """Warn of tickets that fit within no run or no day, and of agents that no limit in USD can hold."""
    counted = [ticket for ticket in tickets if agents.get(ticket.id, ticket.agent) != "command"]
    return [*_too_large(counted, settings.spending_limits), *_unheld(_agents(settings, counted, agents))]


def _agents(
    settings: Settings, tickets: Iterable[Ticket], agents: Mapping[str, AgentName]
) -> list[dict[str, Any]]:
    counted: dict[tuple[AgentName, str | None], list[Ticket]] = {}
    for ticket in tickets:
        agent = agents.get(ticket.id, ticket.agent)
        if agent != "command":
            model = ticket.done_by(agent).model or settings.agent(agent).model
            counted.setdefault((agent, model), []).append(ticket)
    return [
        {"agent": agent, "model": model, "tickets": len(own), "hard": agent in STOPS_ITSELF,
         "priced_by": _priced_by(agent, model, settings),
         **_limited(own, settings.spending_limits)}
        for (agent, model), own in counted.items()
    ]  # fmt: skip


def _too_large(tickets: Sequence[Ticket], limits: Limits) -> list[Problem]:
    """Warn of each line of a template that asks for more than a limit; a fan-out has but one such line."""
    found = []
    for name, limit in limits._asdict().items():
        whose, _, unit = name.partition("_")
        refused: dict[tuple[str, str], list[str]] = {}
        for ticket in tickets if limit is not None else ():
            is_usd = unit == "usd"
            own = Budget(usd=ticket.budget_usd) if is_usd else Budget(tokens=ticket.budget_tokens)
            # The rule that a start is held against, in a run and on a day in which nothing was spent.
            if any(own) and refusal_of(own, Spent(), Spent(), Limits(**{name: limit})):
                key = ticket.place(f"budget_{unit}"), _amount(own.usd or own.tokens or 0, unit)
                refused.setdefault(key, []).append(ticket.id)
        do = f"lower its `budget_{unit}`, or raise `{name}` below `[budget]`"
        for (place, asked), ids in refused.items():
            what = f"{_whose(ids)} budget of {asked} is more than the {whose}'s, {_amount(limit, unit)}"
            found.append(Problem(place, what, do, "warning"))
    return found


def _amount(worth: float, unit: str) -> str:
    return dollars(worth) if unit == "usd" else f"{int(worth):,} tokens"


def _whose(ids: Sequence[str]) -> str:
    return f"{ids[0]} can never start: its" if len(ids) == 1 else f"{len(ids)} tickets can never start: a"


def _unheld(agents: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Warn of agents of which nobody knows what they cost."""
    do = "write its price below `[prices]`, or set a limit in tokens"
    no_model = "name a model (`[agents.{}] model`) and write its price below `[prices]`"
    return [
        Problem(one["agent"], f"no limit in USD holds {_named(one)}: its price is not known",
                do if one["model"] else no_model.format(one["agent"]), "warning")
        for one in agents
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
