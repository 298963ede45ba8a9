"""What is said of money before a start: the limits, of each agent what they do to it, and what to mind."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.budget.limits import Budget, refusal_of
from orchestrator.budget.prices import price_of
from orchestrator.budget.totals import Spent
from orchestrator.money import dollars
from orchestrator.runs.events import PricedBy
from orchestrator.settings.settings import Settings
from orchestrator.settings.values import Limits
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.types import AgentName
from workers.agents.agent import agent_named


class Doers(NamedTuple):
    """Who does the tickets of a phase."""

    agents: Mapping[str, AgentName]
    """By ticket, who does it, where that is not its own agent."""
    able: Collection[AgentName]
    """Agents that can do anything at all: a ticket falls back to no other."""

    def of(self, ticket: Ticket) -> AgentName:
        """Give who does a ticket to begin with."""
        return self.agents.get(ticket.id, ticket.agent)

    def others(self, ticket: Ticket) -> list[AgentName]:
        """Give who may do a ticket later, where the provider of the first is parked."""
        named = dict.fromkeys((ticket.agent, *ticket.fallback))
        return [name for name in named if name in self.able and name != self.of(ticket)]


def budget_of(settings: Settings, tickets: Iterable[Ticket], doers: Doers, today: Spent) -> dict[str, Any]:
    """Give the limits, what the day came to so far, and each agent and model that has tickets, or may have.

    Command workers use no model, and are left out.
    """
    return {
        **settings.spending_limits._asdict(),
        "today": today._asdict(),
        "agents": _agents(settings, tickets, doers),
    }


def budget_warnings(
    settings: Settings, tickets: Sequence[Ticket], doers: Doers, today: Spent
) -> list[Problem]:
    """Warn of tickets that fit within no run or no day, or not within what is left of this one.

    And of agents that no limit in USD can hold, those that tickets may fall back to too.
    """
    counted = [ticket for ticket in tickets if doers.of(ticket) != "command" or doers.others(ticket)]
    costing = [ticket for ticket in counted if doers.of(ticket) != "command"]
    limits = settings.spending_limits
    return [
        *_too_large(costing, limits),
        *_too_late(costing, limits, today),
        *_unheld(_agents(settings, counted, doers)),
    ]


def _agents(settings: Settings, tickets: Iterable[Ticket], doers: Doers) -> list[dict[str, Any]]:
    first: dict[tuple[AgentName, str | None], list[Ticket]] = {}
    later: dict[tuple[AgentName, str | None], list[Ticket]] = {}
    for ticket in tickets:
        for agent in (doers.of(ticket), *doers.others(ticket)):
            if agent != "command":
                model = ticket.done_by(agent).model or settings.agent(agent).model
                counted = first if agent == doers.of(ticket) else later
                counted.setdefault((agent, model), []).append(ticket)
    return [
        {"agent": agent, "model": model, "tickets": len(first.get((agent, model), ())),
         "fallback_for": len(later.get((agent, model), ())), "hard": agent_named(agent).STOPS_AT_BUDGET,
         "priced_by": _priced_by(agent, model, settings),
         **_limited([*first.get((agent, model), ()), *later.get((agent, model), ())],
                    settings.spending_limits)}
        for agent, model in dict.fromkeys((*first, *later))
    ]  # fmt: skip


def _too_large(tickets: Sequence[Ticket], limits: Limits) -> list[Problem]:
    """Warn of each line of a template that asks for more than a limit; a fan-out has but one such line."""
    found = []
    for name, limit in limits._asdict().items():
        whose, _, unit = name.partition("_")
        do = f"lower its `budget_{unit}`, or raise `{name}` below `[budget]`"
        # In a run and on a day in which nothing was spent.
        for (place, asked), ids in _refused(tickets, _alone(limits, name), unit, Spent()).items():
            what = f"{_whose(ids, 'can never start')} budget of {asked} is more than the {whose}'s"
            found.append(Problem(place, f"{what}, {_amount(limit, unit)}", do, "warning"))
    return found


def _too_late(tickets: Sequence[Ticket], limits: Limits, today: Spent) -> list[Problem]:
    """Warn of tickets for which the day has nothing left; what others hold of it may be given back."""
    spent, found = Spent(today.usd, today.tokens), []
    for name in ("day_usd", "day_tokens"):
        unit, limit = name.partition("_")[2], _alone(limits, name)
        do = f"go on tomorrow (UTC), or raise `{name}` below `[budget]`"
        used = f"{_amount(getattr(spent, unit), unit)} of {_amount(getattr(limit, name), unit)} spent"
        never = {id_ for ids in _refused(tickets, limit, unit, Spent()).values() for id_ in ids}
        left = [ticket for ticket in tickets if ticket.id not in never]
        for (place, asked), ids in _refused(left, limit, unit, spent).items():
            what = f"{_whose(ids, 'cannot start today')} budget of {asked} is more than the day has left"
            found.append(Problem(place, f"{what} ({used})", do, "warning"))
        bare = [ticket for ticket in tickets if not any(_own(ticket, unit))]
        if bare and refusal_of(Budget(), Spent(), spent, limit):
            who = bare[0].id if len(bare) == 1 else f"{len(bare)} tickets"
            what = f"{who} cannot start today: the day's budget is spent ({used})"
            found.append(Problem("[budget]", what, do, "warning"))
    return found


def _alone(limits: Limits, name: str) -> Limits:
    """Give one of the limits without the others."""
    return Limits(**{name: getattr(limits, name)})


def _refused(
    tickets: Sequence[Ticket], limit: Limits, unit: str, spent: Spent
) -> dict[tuple[str, str], list[str]]:
    """Give whose own budget a limit has no room for, by the line that asks for it, and how much that is."""
    refused: dict[tuple[str, str], list[str]] = {}
    for ticket in tickets:
        own = _own(ticket, unit)
        # The rule that a start is held against.
        if any(own) and refusal_of(own, spent, spent, limit):
            key = ticket.place(f"budget_{unit}"), _amount(own.usd or own.tokens or 0, unit)
            refused.setdefault(key, []).append(ticket.id)
    return refused


def _own(ticket: Ticket, unit: str) -> Budget:
    return Budget(usd=ticket.budget_usd) if unit == "usd" else Budget(tokens=ticket.budget_tokens)


def _amount(worth: float | None, unit: str) -> str:
    return dollars(worth or 0) if unit == "usd" else f"{int(worth or 0):,} tokens"


def _whose(ids: Sequence[str], fate: str) -> str:
    return f"{ids[0]} {fate}: its" if len(ids) == 1 else f"{len(ids)} tickets {fate}: a"


def _unheld(agents: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Warn of agents of which nobody knows what they cost."""
    return [
        Problem(one["agent"], f"no limit in USD holds {_named(one)}{_to(one)}: its price is not known",
                f"{_to_be_priced(one)}, or set a limit in tokens", "warning")
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
        f"  {_named(one)}{'' if one['tickets'] else ', as a fallback,'} {_held(one)}"
        for one in budget["agents"]
        if one["limited_usd"] or one["limited_tokens"] or one["priced_by"] == "unpriced"
    ]


def _to_be_priced(one: Mapping[str, Any]) -> str:
    """Say how an agent is priced of which nobody knows what it costs."""
    agent = one["agent"]
    if one["model"]:
        return f'write `[prices."{one["model"]}"]`'
    if agent_named(agent).REPORTS_MODELS:
        return f"write the prices of {agent}'s models below `[prices]`: it says at its end which it has used"
    return f"name a model (`model = ` below `[agents.{agent}]`) and write its price below `[prices]`"


def _to(one: Mapping[str, Any]) -> str:
    """Say why an agent is told of that no ticket begins with."""
    number = one["fallback_for"]
    if one["tickets"]:
        return ""
    return f", to which {number} ticket{'' if number == 1 else 's'} may fall back"


def _named(one: Mapping[str, Any]) -> str:
    return f"{one['agent']} ({one['model']})" if one["model"] else str(one["agent"])


def _held(one: Mapping[str, Any]) -> str:
    if one["hard"]:
        return "stops itself at what is left in USD; a limit in tokens stops the next start"
    if one["priced_by"] == "unpriced":
        price = f"counted in tokens alone; to have it priced, {_to_be_priced(one)}"
    else:
        price = "priced by [prices]" + ("" if one["model"] else ", as the models that it then names")
    if not (one["limited_usd"] or one["limited_tokens"]):
        return f"is {price}"
    return f"tells its use when it ends, so a limit stops the next start; {price}"


def _limited(tickets: Sequence[Ticket], limits: Limits) -> dict[str, bool]:
    in_usd = limits.run_usd or limits.day_usd or any(ticket.budget_usd for ticket in tickets)
    in_tokens = limits.run_tokens or limits.day_tokens or any(ticket.budget_tokens for ticket in tickets)
    return {"limited_usd": bool(in_usd), "limited_tokens": bool(in_tokens)}


def _priced_by(agent: AgentName, model: str | None, settings: Settings) -> PricedBy:
    if agent_named(agent).REPORTS_COST:
        return "agent"
    prices = settings.price_list
    if model is None and agent_named(agent).REPORTS_MODELS:
        # Which it will use nobody knows yet; that some are priced shows that somebody has seen to it.
        return "table" if any(name.startswith(agent) for name in prices) else "unpriced"
    return "table" if price_of(model, prices) else "unpriced"
