"""One ticket's life: wait for its turn, slot, worktree, worker, output, judgement; again where that helps."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from orchestrator.deployment import Deployment
from orchestrator.evidence import Tried, conclude, end, judged_attempt
from orchestrator.judgement import CANCELLED, Judgement
from orchestrator.places import give_back_shared, placed, placed_earlier
from orchestrator.prompts import write_prompt
from orchestrator.tampering import Guard
from tickets.problems import TicketError
from tickets.ticket import Ticket
from workers.agents import WorkerError
from workers.attempt import find_agent, mark_of, prepare_launch
from workers.exits import Exit
from workers.fence import fence_in_force
from workers.follow import Follower
from workers.git import GitError
from workers.output import AttemptFiles
from workers.pool import Slot
from workers.process import RUNTIME_DIED, Limits, wait_adopted
from workers.worktree import Place

LOOK = 0.1
"""Seconds between two looks at what an agent CLI has printed."""
RETRY_PAUSE = 2.0
"""Seconds before the second attempt; each further one waits twice as long."""


async def work(d: Deployment) -> None:
    """See every ticket of the run to its end, each when those that it depends on have ended."""
    done = {ticket.id: anyio.Event() for ticket in d.manifest.tickets}
    if not fence_in_force(d.settings.fence).holds and not d.state.has_ended:
        guard = partial(Guard, d.repository, d.checker.directory, d.environ, d.manifest.state_files)
        d.guard = await anyio.to_thread.run_sync(guard)
    async with anyio.create_task_group() as group:
        for ticket in d.manifest.tickets:
            if d.facts(ticket)["ended"]:
                done[ticket.id].set()
            else:
                group.start_soon(_see_to, d, ticket, done)
    if d.state.has_ended:
        await give_back_shared(d)


async def _see_to(d: Deployment, ticket: Ticket, done: dict[str, anyio.Event]) -> None:
    with d.waiting(ticket):
        for before in d.manifest.dependencies.get(ticket.id, ()):
            await done[before].wait()
    if d.stopping:
        return
    if d.is_cancelled(ticket) and not d.facts(ticket)["started"]:
        why: str | None = CANCELLED
    else:
        why = d.manifest.skipped.get(ticket.id) or _fallen(d, ticket)
    if why:
        d.note("skipped", worker=ticket.worker, reason=why)
    else:
        try:
            await _do(d, ticket)
            if d.is_cancelled(ticket) and not d.stopping and not d.facts(ticket)["ended"]:
                _close_waiting(d, ticket)
        except (WorkerError, GitError, TicketError, OSError) as error:
            # One worker's trouble is that worker's: the others go on.
            if not d.facts(ticket)["ended"]:
                end(d, ticket, Judgement("failed", _in_words(d, error)), _left(d, ticket))
    if d.facts(ticket)["ended"]:
        done[ticket.id].set()


def _left(d: Deployment, ticket: Ticket) -> dict[str, Any]:
    """Say where a worker's tree is: nothing but it may hold its work, so it must outlive the run."""
    place = d.run.worktree(ticket.worker)
    return {"worktree": d.run.relative(place)} if place.is_dir() else {}


def _in_words(d: Deployment, error: Exception) -> str:
    """Give the reason of a worker that could not be seen to, without the number of an error."""
    if isinstance(error, OSError) and error.strerror:
        place = str(error.filename or "the system").removeprefix(f"{d.repository.root}/")
        return f"{place}: {error.strerror.lower()}"
    return getattr(error, "reason", None) or str(error).partition("\n")[0]


def _close_waiting(d: Deployment, ticket: Ticket) -> None:
    """Close a ticket that was cancelled while it waited for a slot, or for another attempt."""
    if d.facts(ticket)["started"]:
        end(d, ticket, Judgement("cancelled", CANCELLED), {"attempts": d.facts(ticket)["attempts"]})
    else:
        d.note("skipped", worker=ticket.worker, reason=CANCELLED)


def _fallen(d: Deployment, ticket: Ticket) -> str | None:
    """Say which dependency took a ticket down with it."""
    for before in d.manifest.dependencies.get(ticket.id, ()):
        facts = d.facts(d.manifest.by_id(before))
        if facts["verdict"] not in ("accepted", "partial"):
            word = facts["verdict"] or facts["outcome"]
            return f"depends on {before}, which was {word}"
    return None


async def _do(d: Deployment, ticket: Ticket) -> None:
    """Go through the attempts of one ticket, an earlier runtime's first."""
    facts = d.facts(ticket)
    number, retries = facts["attempts"], facts.get("retries", 0)
    place, tried = await _inherited(d, ticket, number) if number else (None, None)
    while not (d.stopping or (tried is None and d.is_cancelled(ticket))):
        retry = retries < ticket.retries
        if tried is None:
            async with d.slot(ticket, number + 1) as slot:
                if slot is None:
                    return
                place = place or await placed(d, ticket)
                if place is None:
                    return
                number += 1
                if d.guard is not None:
                    d.guard.entered(ticket.worker)
                level = fence_in_force(d.settings.fence).level
                d.note("started", worker=ticket.worker, attempt=number, base=place.base, fence=level)
                tried = await _attempt(d, ticket, number, slot, place)
                again = await _settle(d, ticket, number, tried, place, retry=retry)
        else:
            # Its slot went with its shim, and an earlier runtime's worker is judged without one.
            again = await _settle(d, ticket, number, tried, place, retry=retry)
        if not again:
            return
        retries, tried = retries + 1, None
        with d.waiting(ticket):
            await anyio.sleep(RETRY_PAUSE * 2 ** (retries - 1))


async def _settle(
    d: Deployment, ticket: Ticket, number: int, tried: Tried, place: Place | None, *, retry: bool
) -> bool:
    """Judge an attempt and close its ticket; true where another attempt is to be made instead."""
    if place is None or (d.stopping and _went_with_a_runtime(d, tried.ended)):
        return False
    judged = await judged_attempt(d, ticket, number, tried, place)
    if judged.judgement.retryable and retry and not (d.stopping or d.is_cancelled(ticket)):
        d.note("retry", worker=ticket.worker, attempt=number, reason=judged.judgement.reason)
        return True
    await conclude(d, ticket, number, judged, place)
    return False


def _went_with_a_runtime(d: Deployment, ended: Exit) -> bool:
    """Tell whether a worker was stopped with its runtime, and by nobody's wish or fault."""
    with_it = (str(d.run.stopping_path), RUNTIME_DIED)
    return ended.end == "lost" or (ended.end == "cancelled" and ended.cancelled_by in with_it)


async def _inherited(d: Deployment, ticket: Ticket, number: int) -> tuple[Place | None, Tried | None]:
    """Take over what an earlier runtime had started: wait for it if it lives, never start it twice."""
    facts, files = d.facts(ticket), d.run.attempt(ticket.worker, number)
    place = placed_earlier(d, ticket, facts["base"])
    if d.guard is not None:
        d.guard.entered(ticket.worker)
    # Also where nothing is to be seen of it: its launch may have been on the way when the runtime died.
    mark = mark_of(d.run, ticket.worker, number)
    waiting = partial(wait_adopted, ticket.worker, files.exit, files.started, mark=mark)
    tried = await _followed(d, ticket, files, waiting)
    if tried.ended.end == "lost":
        d.note("lost", worker=ticket.worker, attempt=number, reason=tried.ended.error)
    if _went_with_a_runtime(d, tried.ended) or place is None:
        return place, None  # the next attempt goes on in its tree
    return place, tried


async def _followed(
    d: Deployment, ticket: Ticket, files: AttemptFiles, waiting: Callable[[], Awaitable[Exit]]
) -> Tried:
    """Wait for a worker; read along with an agent CLI, whose stream says what its processes do not."""
    follower = Follower(ticket.agent, files.stdout)
    async with anyio.create_task_group() as group:
        if ticket.agent != "command":
            group.start_soon(_read_along, follower, files, d.settings.limits.grace)
        ended = await waiting()
        group.cancel_scope.cancel()
    files.busy.unlink(missing_ok=True)
    if ended.cancelled_by == str(files.done):
        # It said its last word and would not go; how it went then says nothing.
        ended = ended._replace(end="exited", exit_code=None)
    answer = partial(follower.answer, exit_code=ended.exit_code, stderr=files.stderr)
    return Tried(ended, await anyio.to_thread.run_sync(answer))


async def _read_along(follower: Follower, files: AttemptFiles, grace: float) -> None:
    """Keep a worker with an open tool call from being taken for idle; stop one that said its last word."""
    while True:
        await anyio.sleep(LOOK)
        was_busy = follower.tools > 0
        follower.read_more()
        if follower.tools and not was_busy:
            files.busy.touch()
        elif was_busy and not follower.tools:
            files.busy.unlink(missing_ok=True)
        if follower.has_ended:
            await anyio.sleep(grace)
            files.done.touch()
            return


async def _attempt(d: Deployment, ticket: Ticket, number: int, slot: Slot, place: Place) -> Tried:
    executable = find_agent(ticket.agent, d.settings.agent(ticket.agent), d.environ)
    if executable is None:
        raise WorkerError(f"{ticket.agent} is not installed any more")
    write_prompt(d, ticket)
    limits = Limits(
        ticket.timeout, d.settings.limits.grace, d.settings.limits.output_cap, ticket.idle_timeout
    )
    files = d.run.attempt(ticket.worker, number)
    launch = prepare_launch(
        d.run,
        d.repository,
        ticket,
        number,
        settings=d.settings.agent(ticket.agent),
        executable=executable,
        limits=limits,
        environ=d.environ,
        tree=place.path,
        trust_repository=d.settings.trust_repository,
        fence=fence_in_force(d.settings.fence),
        stops_with_runtime=d.settings.on_runtime_death == "stop",
    )
    return await _followed(d, ticket, files, partial(d.nursery.run, launch, slot.fds))
