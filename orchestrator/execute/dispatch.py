"""When a ticket's attempt starts, and with which agent: its turn, its slot, its provider, its budget."""

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import NamedTuple

import anyio
import anyio.to_thread

from orchestrator.budget.ledger import Reservation
from orchestrator.budget.limits import Budget, Refused, hard_limit
from orchestrator.budget.prices import Cost
from orchestrator.execute.runtime import Deployment
from orchestrator.runs.events import CostUnsettled, ProviderParked, Usage, WorkerHeld, WorkerReassigned
from orchestrator.schedule.availability import why_off
from tickets.ticket import Ticket
from tickets.types import AGENTS, AgentName
from workers.engine.launch import mark_of
from workers.pool.slots import Slot

LOOK = 0.1
"""Seconds between two looks at what other processes have found out about the providers."""
MOVE_LOOKS = 5
"""Looks after which it is seen who could be helped by another agent."""
TOLD_AGAIN = 30.0
"""Seconds by which a pause has become longer when one attempt is worth another line about it."""
BUDGET_LOOK = 1.0
"""Seconds between two looks at a budget of which others hold a part."""
BUDGET_LOOKS = 20
"""Looks that all tickets together take in that time: each reads the day's ledger."""


class Leave(NamedTuple):
    """Leave to start one attempt: a slot of the shared pool, and what it may cost where it costs anything."""

    slot: Slot
    reservation: Reservation | None


@asynccontextmanager
async def leave_for(
    d: Deployment, ticket: Ticket, number: int, *, is_asked: bool
) -> AsyncIterator[Leave | Refused | None]:
    """Hold what an attempt needs to start; None where the wait for it was ended, Refused by a budget.

    Within this runtime priority and age decide who asks the pool. One that `is_asked` for what its report
    lacks waits for no provider that is parked for long.
    """
    async with AsyncExitStack() as held:
        leave: Leave | Refused | None = None
        with d.waiting(ticket, ends="parked" if is_asked else "moved"):
            leave = await _leave(d, ticket, number, held)
        if isinstance(leave, Leave) and (d.stopping or d.is_cancelled(ticket)):
            await give_back(d, leave.reservation)
            leave = None
        yield leave


async def watch_room(d: Deployment) -> None:
    """Take up, again and again, that a provider is asked again, or is parked for so long that others help."""
    for look in count():
        d.queue.look()
        # Less often: it goes through all that wait.
        if look % MOVE_LOOKS == 0 and (far := {name for name in AGENTS if is_far(d, name)}):
            _end_waits(d, far)
        await anyio.sleep(LOOK)


def moved(d: Deployment, ticket: Ticket) -> Ticket:
    """Give a ticket with the agent that can do it first: its own, unless that would wait for too long."""
    agent = _agent_for(d, ticket, _able(d)) if ticket.fallback else ticket.agent
    if agent == ticket.agent:
        return ticket
    parked = d.providers.parked(ticket.agent)
    why = f"{ticket.agent} is parked: {parked.reason}" if parked else f"{ticket.agent} was parked"
    why = why_off(ticket.agent, d.settings, d.environ) or why
    d.note(WorkerReassigned(ticket.worker, agent, ticket.agent, why))
    # Of the ticket as it began: one that moves back has its model again.
    return d.as_it_is(d.manifest.by_id(ticket.id))


def park(d: Deployment, ticket: Ticket, reason: str, until: float | None) -> None:
    """Start nothing with a ticket's provider until a time (epoch seconds), else for a growing pause.

    Of many workers that were out when it said so, one tells all.
    """
    agent, began = ticket.agent, datetime.fromisoformat(d.of(ticket).started_at).timestamp()
    before = d.providers.parked(agent)
    parked = d.providers.park(agent, reason, until, began)
    # One that has to wait again and again tells so with each line that it prints.
    told, attempt = d.parked_by, (ticket.worker, d.of(ticket).attempts)
    is_news = before is None or parked.until > before.until
    if is_news and (attempt not in told or parked.until > told[attempt] + TOLD_AGAIN):
        told[attempt] = parked.until
        at = datetime.fromtimestamp(parked.until, UTC).isoformat(timespec="milliseconds")
        limit = d.providers.limit(agent)
        d.note(ProviderParked(agent, at, reason, parked.named, limit))


async def give_back(d: Deployment, reservation: Reservation | None) -> None:
    """Take back what was reserved for an attempt that did not come about, whatever ends meanwhile."""
    if reservation is None:
        return
    try:
        # What is not given back is held for as long as this runtime lives, and others wait for it.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(d.ledger.release, reservation)
    except OSError as error:
        d.note(CostUnsettled(reservation.worker, reservation.attempt, str(error)))


def most_usd(reservation: Reservation | None) -> float | None:
    """Give the USD at which an agent that can stop itself is to do so."""
    if reservation is None:
        return None
    return hard_limit(reservation.usd, reservation.run_left, reservation.day_left)


async def wait_for_budget(d: Deployment, ticket: Ticket, refused: Refused) -> None:
    """Wait for others to give back what they hold of a budget, and say so."""
    hold_up(d, ticket, refused.reason)
    d.budget_waits += 1
    try:
        with d.waiting(ticket):
            await anyio.sleep(budget_pause(d.budget_waits))
    finally:
        d.budget_waits -= 1


def budget_pause(waiting: int) -> float:
    """Give how long each of so many tickets waits until it looks at its budget again, in seconds."""
    return BUDGET_LOOK * max(1.0, waiting / BUDGET_LOOKS)


async def settle(d: Deployment, ticket: Ticket, number: int, usage: Usage) -> None:
    """Put what an attempt came to into the ledger."""
    if ticket.agent == "command":
        return
    cost = Cost(usage.cost_usd, usage.cost_by, usage.input_tokens + usage.output_tokens)
    try:
        reservation = await anyio.to_thread.run_sync(d.ledger.adopted, d.run, ticket.worker, number)
        await anyio.to_thread.run_sync(d.ledger.settle, reservation, cost)
    except OSError as error:
        # Its work is done and paid for: that nobody can write it down must not take it away.
        d.note(CostUnsettled(ticket.worker, number, str(error)))


def is_far(d: Deployment, name: AgentName) -> bool:
    """Tell whether a provider is parked for longer than a ticket waits that another agent could do."""
    parked = d.providers.parked(name)
    return parked is not None and parked.until > d.clock().timestamp() + d.settings.pool.fallback_after


def hold_up(d: Deployment, ticket: Ticket, reason: str) -> None:
    """Note why a ticket that has its turn does not start."""
    if d.of(ticket).held != reason:
        d.note(WorkerHeld(ticket.worker, reason))


async def _leave(d: Deployment, ticket: Ticket, number: int, held: AsyncExitStack) -> Leave | Refused | None:
    mark = mark_of(d.run, ticket.worker, number)
    holder = {"run": d.run.id, "worker": ticket.worker, "mark": mark}

    async def ask() -> Slot | None:
        return await d.pool.acquire(ticket.agent, holder, limit=partial(d.providers.limit, ticket.agent))

    while True:
        slot = await held.enter_async_context(d.queue.turn(ticket.agent, ticket.priority, ask, ticket.worker))
        if slot is None:
            return None
        held.callback(slot.release)
        # Before it waits for its start: a budget that is spent refuses ten thousand at once.
        reservation = await _reserved(d, ticket, number)
        if isinstance(reservation, Refused):
            return reservation
        began = anyio.current_time()
        try:
            tell = partial(hold_up, d, ticket)
            await d.pacing.wait_turn(ticket.agent, tell)
            held.callback(d.logins.release, ticket.agent, await d.logins.wait_turn(ticket.agent, tell))
        except BaseException:
            await give_back(d, reservation)
            raise
        is_shared = any(limit is not None for limit in d.settings.spending_limits)
        if reservation is not None and is_shared and anyio.current_time() > began + LOOK:
            # Others may have told meanwhile what they cost.
            await give_back(d, reservation)
            reservation = await _reserved(d, ticket, number)
            if isinstance(reservation, Refused):
                return reservation
        if d.providers.parked(ticket.agent) is None:
            return Leave(slot, reservation)
        # Parked while it waited for its start: whoever is told so first tells all.
        await give_back(d, reservation)
        await held.aclose()


async def _reserved(d: Deployment, ticket: Ticket, number: int) -> Reservation | Refused | None:
    """Reserve what an attempt may cost; None where it costs nothing."""
    if ticket.agent == "command":
        return None
    budget = Budget(ticket.budget_usd, ticket.budget_tokens, d.settings.budget.worker_usd)
    reserve = partial(d.ledger.reserve, d.run, ticket.worker, number, budget, d.settings.spending_limits)
    async with d.reserving:
        return await anyio.to_thread.run_sync(reserve)


def _end_waits(d: Deployment, far: Collection[str]) -> None:
    """End the waits for providers that are parked for long, where somebody else can do the ticket sooner."""
    able = _able(d)
    # Of ten thousand that wait, all but a few have the same agents: files are looked at once for each.
    chosen: dict[tuple[AgentName, ...], AgentName] = {}
    for scope, (ticket, ends) in list(d.waits.items()):
        if ends is None or ticket.agent not in far:
            continue
        agents = (ticket.agent, d.manifest.by_id(ticket.id).agent, *ticket.fallback)
        if agents not in chosen:
            chosen[agents] = _agent_for(d, ticket, able)
        if ends == "parked" or chosen[agents] != ticket.agent:
            scope.cancel()


def _agent_for(d: Deployment, ticket: Ticket, able: Collection[AgentName]) -> AgentName:
    # One that has moved may move back.
    others = (ticket.agent, d.manifest.by_id(ticket.id).agent, *ticket.fallback)
    agents = [name for name in dict.fromkeys(others) if name in able] or [ticket.agent]
    return d.providers.chosen(agents, d.settings.pool.fallback_after)


def _able(d: Deployment) -> list[AgentName]:
    return [name for name in AGENTS if why_off(name, d.settings, d.environ) is None]
