"""The start of a ticket's attempt, and its agent: turn, slot, provider, budget."""

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
from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import CostUnsettled, ProviderParked, Usage, WorkerHeld, WorkerReassigned
from orchestrator.schedule.availability import why_off
from tickets.ticket import Ticket
from tickets.types import AGENTS, AgentName
from workers.engine.launch import mark_of
from workers.pool.slots import Slot

LOOK = 0.1
"""Seconds between two polls of what other processes noted about the providers."""
MOVE_LOOKS = 5
"""Polls after which it is checked which tickets another agent can do sooner."""
TOLD_AGAIN = 30.0
"""Seconds by which a pause must have grown before the same attempt is noted again."""
BUDGET_LOOK = 1.0
"""Seconds between two polls of a budget of which other attempts hold a part."""
BUDGET_LOOKS = 20
"""Polls that all tickets together make in that time: each reads the day's ledger."""


class Permit(NamedTuple):
    """Permission to start one attempt: a slot of the shared pool, and what the attempt may cost."""

    slot: Slot
    reservation: Reservation | None
    """None where it costs nothing."""
    held: AsyncExitStack
    """Ends with the block that holds the permit; closed earlier, it lets another attempt start."""


@asynccontextmanager
async def permit_for(
    runtime: Runtime, ticket: Ticket, number: int, *, is_asked: bool
) -> AsyncIterator[Permit | Refused | None]:
    """Hold what an attempt needs to start; None where the wait for it was ended, Refused by a budget.

    Within this runtime priority and age decide who asks the pool. One that `is_asked` for what its report
    lacks waits for no provider that is parked for long.
    """
    async with AsyncExitStack() as held:
        permit: Permit | Refused | None = None
        with runtime.waiting(ticket, ends="parked" if is_asked else "moved"):
            permit = await _permit(runtime, ticket, number, held)
        if isinstance(permit, Permit) and (runtime.stopping or runtime.is_cancelled(ticket)):
            await release_budget(runtime, permit.reservation)
            permit = None
        yield permit


async def watch_room(runtime: Runtime) -> None:
    """Poll the providers: one may be free again, or parked for so long that another agent is sooner."""
    for look in count():
        runtime.schedule.queue.look()
        # Less often: it goes through all that wait.
        if look % MOVE_LOOKS == 0 and (far := {name for name in AGENTS if is_far(runtime, name)}):
            _end_waits(runtime, far)
        await anyio.sleep(LOOK)


def moved(runtime: Runtime, ticket: Ticket) -> Ticket:
    """Return a ticket with the agent that can do it first: its own, unless that would wait for too long."""
    agent = _agent_for(runtime, ticket, _able(runtime)) if ticket.fallback else ticket.agent
    if agent == ticket.agent:
        return ticket
    parked = runtime.schedule.providers.parked(ticket.agent)
    why = f"{ticket.agent} is parked: {parked.reason}" if parked else f"{ticket.agent} was parked"
    why = why_off(ticket.agent, runtime.settings, runtime.environ) or why
    runtime.note(WorkerReassigned(ticket.worker, agent, ticket.agent, why))
    # Of the ticket as it began: one that moves back has its model again.
    return runtime.as_it_is(runtime.manifest.by_id(ticket.id))


def park(runtime: Runtime, ticket: Ticket, reason: str, until: float | None) -> None:
    """Start nothing with a ticket's provider until a time (epoch seconds), else for a growing pause.

    Of many workers that were running at that time, the first one counts.
    """
    agent, began = ticket.agent, datetime.fromisoformat(runtime.of(ticket).started_at).timestamp()
    before = runtime.schedule.providers.parked(agent)
    reason = runtime.redactor.clean(reason)
    parked = runtime.schedule.providers.park(agent, reason, until, began)
    # A worker that waits again and again reports that with each line that it prints.
    told, attempt = runtime.schedule.parked_by, (ticket.worker, runtime.of(ticket).attempts)
    is_news = before is None or parked.until > before.until
    if is_news and (attempt not in told or parked.until > told[attempt] + TOLD_AGAIN):
        told[attempt] = parked.until
        at = datetime.fromtimestamp(parked.until, UTC).isoformat(timespec="milliseconds")
        limit = runtime.schedule.providers.limit(agent)
        runtime.note(ProviderParked(agent, at, reason, parked.named, limit))


async def release_budget(runtime: Runtime, reservation: Reservation | None) -> None:
    """Release what was reserved for an attempt that is not made; a cancel does not interrupt it."""
    if reservation is None:
        return
    try:
        # What is not released is held for as long as this runtime lives, and others wait for it.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(runtime.schedule.ledger.release, reservation)
    except OSError as error:
        runtime.note(CostUnsettled(reservation.worker, reservation.attempt, str(error)))


def most_usd(reservation: Reservation | None) -> float | None:
    """Return the USD at which an agent that can stop itself must do so."""
    if reservation is None:
        return None
    return hard_limit(reservation.usd, reservation.run_left, reservation.day_left)


async def wait_for_budget(runtime: Runtime, ticket: Ticket, refused: Refused) -> None:
    """Wait until other attempts release their part of a budget, and note that."""
    hold_up(runtime, ticket, refused.reason)
    runtime.schedule.budget_waits += 1
    try:
        with runtime.waiting(ticket):
            await anyio.sleep(budget_pause(runtime.schedule.budget_waits))
    finally:
        runtime.schedule.budget_waits -= 1


def budget_pause(waiting: int) -> float:
    """Return the seconds that each of so many tickets waits until it checks its budget again."""
    return BUDGET_LOOK * max(1.0, waiting / BUDGET_LOOKS)


async def book_cost(runtime: Runtime, ticket: Ticket, number: int, usage: Usage) -> None:
    """Write the cost of an attempt into the ledger."""
    if ticket.agent == "command":
        return
    cost = Cost(usage.cost_usd, usage.cost_by, usage.input_tokens + usage.output_tokens)
    try:
        reservation = await anyio.to_thread.run_sync(
            runtime.schedule.ledger.adopted, runtime.run, ticket.worker, number
        )
        await anyio.to_thread.run_sync(runtime.schedule.ledger.settle, reservation, cost)
    except OSError as error:
        # Its work is done and paid for: an error of the ledger must not discard it.
        runtime.note(CostUnsettled(ticket.worker, number, str(error)))


def is_far(runtime: Runtime, name: AgentName) -> bool:
    """Return whether a provider is parked for longer than a ticket waits that another agent could do."""
    parked = runtime.schedule.providers.parked(name)
    return (
        parked is not None
        and parked.until > runtime.clock().timestamp() + runtime.settings.pool.fallback_after
    )


def hold_up(runtime: Runtime, ticket: Ticket, reason: str) -> None:
    """Note why a ticket that has its turn does not start."""
    if runtime.of(ticket).held != reason:
        runtime.note(WorkerHeld(ticket.worker, reason))


async def _permit(
    runtime: Runtime, ticket: Ticket, number: int, held: AsyncExitStack
) -> Permit | Refused | None:
    schedule = runtime.schedule
    mark = mark_of(runtime.run, ticket.worker, number, runtime.site.runtime)
    holder = {"run": runtime.run.id, "worker": ticket.worker, "mark": mark}

    async def ask() -> Slot | None:
        return await schedule.pool.acquire(
            ticket.agent, holder, limit=partial(schedule.providers.limit, ticket.agent)
        )

    while True:
        slot = await held.enter_async_context(
            schedule.queue.turn(ticket.agent, ticket.priority, ask, ticket.worker)
        )
        if slot is None:
            return None
        held.callback(slot.release)
        # Before it waits for its start: a budget that is spent refuses ten thousand at once.
        reservation = await _reserved(runtime, ticket, number)
        if isinstance(reservation, Refused):
            return reservation
        began = anyio.current_time()
        try:
            tell = partial(hold_up, runtime, ticket)
            await schedule.pacing.wait_turn(ticket.agent, tell)
            held.callback(
                schedule.logins.release,
                ticket.agent,
                await schedule.logins.wait_turn(ticket.agent, tell),
            )
        except BaseException:
            await release_budget(runtime, reservation)
            raise
        is_shared = any(limit is not None for limit in runtime.settings.spending_limits)
        if reservation is not None and is_shared and anyio.current_time() > began + LOOK:
            # Other attempts may have been accounted for meanwhile.
            await release_budget(runtime, reservation)
            reservation = await _reserved(runtime, ticket, number)
            if isinstance(reservation, Refused):
                return reservation
        if schedule.providers.parked(ticket.agent) is None:
            return Permit(slot, reservation, held)
        # Parked while it waited for its start.
        await release_budget(runtime, reservation)
        await held.aclose()


async def _reserved(runtime: Runtime, ticket: Ticket, number: int) -> Reservation | Refused | None:
    """Reserve what an attempt may cost; None where it costs nothing."""
    if ticket.agent == "command":
        return None
    schedule = runtime.schedule
    budget = Budget(ticket.budget_usd, ticket.budget_tokens, runtime.settings.budget.worker_usd)
    reserve = partial(
        schedule.ledger.reserve,
        runtime.run,
        ticket.worker,
        number,
        budget,
        runtime.settings.spending_limits,
    )
    async with schedule.reserving:
        return await anyio.to_thread.run_sync(reserve)


def _end_waits(runtime: Runtime, far: Collection[str]) -> None:
    """End the waits for providers that are parked for long, where another agent can do the ticket sooner."""
    able = _able(runtime)
    # Of ten thousand that wait, all but a few have the same agents: files are looked at once for each.
    chosen: dict[tuple[AgentName, ...], AgentName] = {}
    for scope, (ticket, ends) in list(runtime.waits.items()):
        if ends is None or ticket.agent not in far:
            continue
        agents = (ticket.agent, runtime.manifest.by_id(ticket.id).agent, *ticket.fallback)
        if agents not in chosen:
            chosen[agents] = _agent_for(runtime, ticket, able)
        if ends == "parked" or chosen[agents] != ticket.agent:
            scope.cancel()


def _agent_for(runtime: Runtime, ticket: Ticket, able: Collection[AgentName]) -> AgentName:
    # One that has moved may move back.
    others = (ticket.agent, runtime.manifest.by_id(ticket.id).agent, *ticket.fallback)
    agents = [name for name in dict.fromkeys(others) if name in able] or [ticket.agent]
    return runtime.schedule.providers.chosen(agents, runtime.settings.pool.fallback_after)


def _able(runtime: Runtime) -> list[AgentName]:
    return [name for name in AGENTS if why_off(name, runtime.settings, runtime.environ) is None]
