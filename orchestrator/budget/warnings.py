"""The budget report of `plan`, `run` and `deploy` before a start: limits, their effect, warnings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.budget.limits import Budget, refusal_of
from orchestrator.budget.prices import price_of
from orchestrator.budget.totals import Spent
from orchestrator.money import dollars
from orchestrator.runs.events import PricedBy
from orchestrator.settings.settings import Settings
from orchestrator.settings.values import SpendingLimits
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.types import AgentName
from tickets.value import Value
from tickets.wording import count_of
from workers.agents.agent import agent_named

_SECTION = "[budget]"


class Doers(Value):
    """The agents that do the tickets of a phase."""

    agents: Mapping[str, AgentName]
    """By ticket, its agent, where that is not its own one."""
    able: Collection[AgentName]
    """Agents that are available at all: a ticket falls back to no other."""

    def of(self, ticket: Ticket) -> AgentName:
        """Return the agent that does a ticket first."""
        return self.agents.get(ticket.id, ticket.agent)

    def others(self, ticket: Ticket) -> list[AgentName]:
        """List the agents that may do a ticket later, where the provider of the first is parked."""
        named = dict.fromkeys((ticket.agent, *ticket.fallback))
        return [name for name in named if name in self.able and name != self.of(ticket)]


def budget_of(settings: Settings, tickets: Iterable[Ticket], doers: Doers, today: Spent) -> dict[str, Any]:
    """Return the limits, the cost of the day so far, and each agent and model that may have tickets.

    Command workers use no model, and are left out.
    """
    return {
        **settings.spending_limits._asdict(),
        "worker_usd": settings.budget.worker_usd,
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
    return [*_without_room(settings, costing, today), *_unheld(_agents(settings, counted, doers))]


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


class _Lack(Value):
    """A limit that has no room for what a line of a template, or `[budget] worker_usd`, asks for."""

    limit: str
    place: str
    asked: float | None
    """USD or tokens; None where nothing is asked for, and nothing is left."""


def _without_room(settings: Settings, tickets: Sequence[Ticket], today: Spent) -> list[Problem]:
    """Warn of tickets that can never start, and of those that cannot start today.

    Tickets of one line of a template, a fan-out, are one warning for each limit.
    """
    # What others have reserved of the day may be released.
    spent = Spent(today.usd, today.tokens)
    never: dict[_Lack, list[str]] = {}
    not_today: dict[_Lack, list[str]] = {}
    for name, limit in settings.spending_limits._asdict().items():
        alone = SpendingLimits(**{name: limit})
        for ticket in tickets:
            own, lack = _asked(settings, ticket, name)
            # By the rule for a start: in a run and on a day in which nothing was spent, then today.
            if refusal_of(own, Spent(), Spent(), alone):
                never.setdefault(lack, []).append(ticket.id)
            elif refusal_of(own, Spent(), spent, alone):
                not_today.setdefault(lack, []).append(ticket.id)
    found = [_can_never_start(lack, ids, settings) for lack, ids in never.items()]
    return found + [_cannot_start_today(lack, ids, settings, spent) for lack, ids in not_today.items()]


def _asked(settings: Settings, ticket: Ticket, limit: str) -> tuple[Budget, _Lack]:
    """Return what a ticket asks of a limit, and the lack that it would cause."""
    unit = limit.partition("_")[2]
    own = Budget(usd=ticket.budget_usd) if unit == "usd" else Budget(tokens=ticket.budget_tokens)
    if any(own):
        return own, _Lack(limit, ticket.place(f"budget_{unit}"), own.usd or own.tokens)
    reserved = settings.budget.worker_usd if unit == "usd" else None
    return Budget(reserve_usd=reserved), _Lack(limit, _SECTION, reserved)


def _can_never_start(lack: _Lack, ids: Sequence[str], settings: Settings) -> Problem:
    whose, _, unit = lack.limit.partition("_")
    limit = _amount(getattr(settings.spending_limits, lack.limit), unit)
    what = f"{_named(ids)} can never start: {_of(lack, ids)} is more than the {whose}'s, {limit}"
    lower = "lower `worker_usd`" if lack.place == _SECTION else f"lower its `budget_{unit}`"
    return Problem(lack.place, what, f"{lower}, or raise `{lack.limit}` below `[budget]`", "warning")


def _cannot_start_today(lack: _Lack, ids: Sequence[str], settings: Settings, spent: Spent) -> Problem:
    unit = lack.limit.partition("_")[2]
    limit = _amount(getattr(settings.spending_limits, lack.limit), unit)
    used = f"{_amount(getattr(spent, unit), unit)} of {limit} spent"
    why = f"{_of(lack, ids)} is more than the day has left" if lack.asked else "the day's budget is spent"
    what = f"{_named(ids)} cannot start today: {why} ({used})"
    do = f"continue tomorrow (UTC), or raise `{lack.limit}` below `[budget]`"
    return Problem(lack.place, what, do, "warning")


def _named(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{len(ids)} tickets"


def _of(lack: _Lack, ids: Sequence[str]) -> str:
    amount = _amount(lack.asked, lack.limit.partition("_")[2])
    if lack.place == _SECTION:
        return f"`worker_usd` of {amount}"
    return f"{'its' if len(ids) == 1 else 'a'} budget of {amount}"


def _amount(worth: float | None, unit: str) -> str:
    return dollars(worth or 0) if unit == "usd" else f"{int(worth or 0):,} tokens"


def _unheld(agents: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Warn of agents whose price is not known."""
    return [
        Problem(one["agent"], f"no limit in USD holds {_agent_named(one)}{_to(one)}: its price is not known",
                f"{_to_be_priced(one)}, or set a limit in tokens", "warning")
        for one in agents
        if one["limited_usd"] and one["priced_by"] == "unpriced"
    ]  # fmt: skip


def budget_lines(budget: Mapping[str, Any]) -> list[str]:
    """Describe it for a person; empty where no ticket can cost anything."""
    if not budget["agents"]:
        return []
    limits, today = (
        SpendingLimits(*(budget[name] for name in SpendingLimits._fields)),
        Spent(**budget["today"]),
    )
    spent = "" if today.is_nothing else f"; today so far {today.in_words()}"
    reserved = budget["worker_usd"]
    for_each = (
        f", {dollars(reserved)} reserved for each worker without a budget of its own" if reserved else ""
    )
    lines = [f"budget: {limits.in_words()}{for_each}{spent}"]
    return lines + [
        f"  {_agent_named(one)}{'' if one['tickets'] else ', as a fallback,'} {_held(one)}"
        for one in budget["agents"]
        if one["limited_usd"] or one["limited_tokens"] or one["priced_by"] == "unpriced"
    ]


def _to_be_priced(one: Mapping[str, Any]) -> str:
    """Describe how to price an agent whose price is not known."""
    agent = one["agent"]
    if one["model"]:
        return f'write `[prices."{one["model"]}"]`'
    if agent_named(agent).REPORTS_MODELS:
        return f"write the prices of {agent}'s models below `[prices]`: it names the used ones at its end"
    return f"name a model (`model = ` below `[agents.{agent}]`) and write its price below `[prices]`"


def _to(one: Mapping[str, Any]) -> str:
    """Describe why an agent is listed that is no ticket's first agent."""
    if one["tickets"]:
        return ""
    return f", to which {count_of(one['fallback_for'], 'ticket')} may fall back"


def _agent_named(one: Mapping[str, Any]) -> str:
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
    return f"reports its use at its end, so a limit stops the next start; {price}"


def _limited(tickets: Sequence[Ticket], limits: SpendingLimits) -> dict[str, bool]:
    in_usd = limits.run_usd or limits.day_usd or any(ticket.budget_usd for ticket in tickets)
    in_tokens = limits.run_tokens or limits.day_tokens or any(ticket.budget_tokens for ticket in tickets)
    return {"limited_usd": bool(in_usd), "limited_tokens": bool(in_tokens)}


def _priced_by(agent: AgentName, model: str | None, settings: Settings) -> PricedBy:
    if agent_named(agent).REPORTS_COST:
        return "agent"
    prices = settings.prices
    if model is None and agent_named(agent).REPORTS_MODELS:
        # Which model it will use is not known yet; that some have a price shows that the table is maintained.
        return "table" if any(name.startswith(agent) for name in prices) else "unpriced"
    return "table" if price_of(model, prices) else "unpriced"
