"""One ticket's life: wait for its turn, slot, worktree, worker, output, judgement; again where that helps."""

from functools import partial
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from orchestrator.budget.limits import Refused
from orchestrator.execute.attempt import (
    FIRST,
    answered,
    asked_for,
    earlier,
    going_on,
    inherited,
    start_attempt,
    went_with_a_runtime,
)
from orchestrator.execute.dispatch import (
    Leave,
    give_back,
    hold_up,
    is_far,
    leave_for,
    most_usd,
    moved,
    park,
    settle,
    wait_for_budget,
    watch_room,
)
from orchestrator.execute.evidence import Judged, Tried, account, conclude, end, judged_attempt, so_far
from orchestrator.execute.judgement import CANCELLED, Judgement
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import give_back_shared, is_shared, placed
from orchestrator.log import warning
from orchestrator.runs.events import AttemptRepeated, Begin, Evidence, Try, WorkerSkipped, WorkerStarted
from orchestrator.schedule.availability import why_off
from orchestrator.schedule.rate_limits import LONGEST_PAUSE
from orchestrator.tamper.guard import Guard
from tickets.problems import Problem, TicketError
from tickets.ticket import Ticket
from workers.agents.agent import Answer
from workers.errors import WorkerError
from workers.fence.probe import fence_in_force
from workers.files.exit_record import Exit
from workers.git.run import GitError
from workers.worktree.worktree import Place

NO_ANSWER = Answer("none", "")
LOCKED = "database is locked"
"""What an agent CLI says whose files another one has open just now, before it has begun anything."""
LOCKED_OUT = 9
"""How often that does not count as one of a ticket's retries: fifteen may share the files of one login."""


async def execute(runtime: Runtime) -> list[Problem]:
    """Take every ticket of the run to its end, each when those that it depends on have ended.

    Return what was changed meanwhile by nobody knows which worker.
    """
    # Only of those that others wait for: an event is a kilobyte, and ten thousand tickets may wait.
    awaited = {before for some in runtime.manifest.dependencies.values() for before in some}
    done = {id_: anyio.Event() for id_ in awaited}
    if not fence_in_force(runtime.settings.fence).holds and not runtime.state.has_ended:
        await _begin_to_guard(runtime)
    async with anyio.create_task_group() as watching:
        watching.start_soon(watch_room, runtime)
        async with anyio.create_task_group() as group:
            with runtime.schedule.queue.gathered():
                for ticket in runtime.manifest.tickets:
                    if not runtime.of(ticket).ended:
                        group.start_soon(_see_to, runtime, ticket, done)
                    elif ticket.id in done:
                        done[ticket.id].set()
                await anyio.lowlevel.checkpoint()  # each comes as far as its wait for a turn
        watching.cancel_scope.cancel()
    if runtime.guard is not None and not runtime.stopping:
        for found in await anyio.to_thread.run_sync(runtime.guard.last):
            runtime.note_tampering(found)
    await anyio.to_thread.run_sync(_clear_slots, runtime)
    if runtime.state.has_ended:
        await give_back_shared(runtime)
    return [found.as_problem() for found in runtime.tampered]


def _clear_slots(runtime: Runtime) -> None:
    """Give back what earlier runtimes of the run had taken and were killed with."""
    try:
        runtime.schedule.pool.clear_after(runtime.run.id)
    except (WorkerError, OSError) as error:
        # Nobody's work hangs on it: whoever takes the slot meets the same, and says so.
        warning("slots not cleared", run=runtime.run.id, reason=str(error))


async def _begin_to_guard(runtime: Runtime) -> None:
    """Look after the user's repository from here on, knowing who ran before."""
    workers = runtime.state.workers.items()
    guard = partial(
        Guard,
        runtime.repository,
        runtime.checker.directory,
        runtime.environ,
        runtime.manifest.rules.reserved_scope,
        ran=[name for name, one in workers if one.started],
        # Also who ended before it began, for want of money or disk: there is a record of it, and it is ours.
        ended=[name for name, one in workers if one.ended and one.outcome != "skipped"],
    )
    runtime.guard = await anyio.to_thread.run_sync(guard)


async def _see_to(runtime: Runtime, ticket: Ticket, done: dict[str, anyio.Event]) -> None:
    if waits_for := runtime.manifest.dependencies.get(ticket.id):
        with runtime.waiting(ticket):
            for before in waits_for:
                await done[before].wait()
    if runtime.stopping:
        return
    if runtime.is_cancelled(ticket) and not runtime.of(ticket).started:
        why: str | None = CANCELLED
    else:
        why = runtime.manifest.skipped.get(ticket.id) or _fallen(runtime, ticket)
    if why:
        runtime.note(WorkerSkipped(ticket.worker, why))
    else:
        try:
            await _do(runtime, ticket)
            if runtime.is_cancelled(ticket) and not runtime.stopping and not runtime.of(ticket).ended:
                _close_waiting(runtime, ticket)
        except (WorkerError, GitError, TicketError, OSError) as error:
            # One worker's trouble is that worker's: the others go on.
            if not runtime.of(ticket).ended:
                end(runtime, ticket, Judgement("failed", _in_words(runtime, error)), _left(runtime, ticket))
    if runtime.of(ticket).ended and ticket.id in done:
        done[ticket.id].set()


def _left(runtime: Runtime, ticket: Ticket) -> Evidence:
    """Say what is known of a worker, and where its tree is: nothing else may hold its work."""
    place = runtime.run.worktree(ticket.worker)
    return so_far(runtime, ticket)._replace(worktree=runtime.run.relative(place) if place.is_dir() else None)


def _in_words(runtime: Runtime, error: Exception) -> str:
    """Give the reason of a worker that could not be seen to, without the number of an error."""
    if isinstance(error, OSError) and error.strerror:
        place = str(error.filename or "the system").removeprefix(f"{runtime.repository.root}/")
        return f"{place}: {error.strerror.lower()}"
    return getattr(error, "reason", None) or str(error).partition("\n")[0]


def _close_waiting(runtime: Runtime, ticket: Ticket) -> None:
    """Close a ticket that was cancelled while it waited for a slot, or for another attempt."""
    if runtime.of(ticket).started:
        end(runtime, ticket, Judgement("cancelled", CANCELLED), so_far(runtime, ticket))
    else:
        runtime.note(WorkerSkipped(ticket.worker, CANCELLED))


def _close_off(runtime: Runtime, ticket: Ticket, why: str) -> None:
    """Close a ticket of which the settings say by now that its agent does nothing: others wait for it."""
    if runtime.of(ticket).started:
        end(runtime, ticket, Judgement("interrupted", why), _left(runtime, ticket))
    else:
        runtime.note(WorkerSkipped(ticket.worker, why))


def _pause(first: float, retries: int) -> float:
    """Give how long to wait before another attempt: ever longer, and never for hours."""
    return min(max(first, LONGEST_PAUSE), first * 2.0 ** min(retries, 30))


def _fallen(runtime: Runtime, ticket: Ticket) -> str | None:
    """Say which dependency took a ticket down with it."""
    for before in runtime.manifest.dependencies.get(ticket.id, ()):
        worker = runtime.of(runtime.manifest.by_id(before))
        if not worker.lands:
            return f"depends on {before}, which was {worker.verdict or worker.outcome}"
    return None


async def _do(runtime: Runtime, ticket: Ticket) -> None:
    """Go through the attempts of one ticket, an earlier runtime's first."""
    place: Place | None = None
    following: Begin | None = FIRST
    number = runtime.of(ticket).attempts
    if number:
        now = runtime.as_it_is(ticket)
        place, tried, following = await inherited(runtime, now, number)
        if tried is not None:
            # Its slot went with its shim, and an earlier runtime's worker is judged without one.
            following = await _settle(runtime, now, number, tried, place)
    while following is not None and not (runtime.stopping or runtime.is_cancelled(ticket)):
        worker, now = runtime.of(ticket), runtime.as_it_is(ticket)
        retries, tries = worker.retries, len(worker.tries)
        if following.kind != "asked":
            before, now = now.agent, moved(runtime, now)
            following = following if now.agent == before else following.elsewhere()
        off = why_off(now.agent, runtime.settings, runtime.environ)
        if following.kind == "asked" and (off or is_far(runtime, now.agent)):
            await _stand(runtime, now, place)
            return
        if off:
            _close_off(runtime, now, off)
            return
        place, following = await _once(runtime, now, place, following)
        if following is not None and following.kind != "asked" and len(worker.tries) > tries:
            with runtime.waiting(ticket):
                await anyio.sleep(_pause(runtime.settings.pool.retry_pause, retries))


async def _once(
    runtime: Runtime, ticket: Ticket, place: Place | None, begin: Begin
) -> tuple[Place | None, Begin | None]:
    """Make one attempt when its turn has come; give its tree, and how the attempt begins that is to follow.

    That is the same one where its turn did not come: another agent may do it, or others hold its budget.
    """
    number, is_asked = runtime.of(ticket).attempts + 1, begin.kind == "asked"
    tried: Tried | None = None
    async with leave_for(runtime, ticket, number, is_asked=is_asked) as leave:
        if leave is None:
            return place, begin
        if isinstance(leave, Leave):
            try:
                place = place or await placed(runtime, ticket)
                if place is None:
                    await give_back(runtime, leave.reservation)
                    return None, None
                _note_start(runtime, ticket, number, place, begin)
                most = most_usd(leave.reservation)
                tried = await start_attempt(runtime, ticket, leave.slot, place, begin, most_usd=most)
            except (WorkerError, GitError, TicketError, OSError) as error:
                await give_back(runtime, leave.reservation)
                if place is None or not is_asked:
                    raise
                # The work is done, and its first report stands.
                tried = Tried(Exit(ticket.worker, "not_started", error=_in_words(runtime, error)), NO_ANSWER)
            if not _is_judged_without_slot(runtime, ticket, place):
                return place, await _settle(runtime, ticket, number, tried, place)
    if tried is not None:
        return place, await _settle(runtime, ticket, number, tried, place)
    assert isinstance(leave, Refused)  # noqa: S101 - all else has returned
    if leave.can_wait:
        await wait_for_budget(runtime, ticket, leave)
        return place, begin
    if is_asked:
        hold_up(runtime, ticket, f"nobody is asked: {leave.reason}")
        await _stand(runtime, ticket, place)
        return place, None
    end(runtime, ticket, Judgement("over_budget", leave.reason), _left(runtime, ticket))
    return place, None


def _is_judged_without_slot(runtime: Runtime, ticket: Ticket, place: Place | None) -> bool:
    """Tell whether somebody else may have the slot of a worker that is dead before it is judged.

    Not where a provider may have to be parked before another asks it, nor where there is a tree to look into
    or a check to run: what judges them would be more at once than the pool has slots. And one that ran alone
    stays alone until it was looked after: it is to answer for what is found.
    """
    is_light = ticket.agent == "command" and not ticket.acceptance
    is_one_of_many = runtime.guard is None or not runtime.guard.is_quiet(ticket.worker)
    return is_light and is_one_of_many and place is not None and is_shared(runtime, ticket, place)


async def _stand(runtime: Runtime, ticket: Ticket, place: Place | None) -> None:
    """Let a report stand as it is: nobody can be asked, soon or at all, for what it lacks."""
    number = runtime.of(ticket).attempts
    if place is not None:
        tried = await earlier(runtime, ticket, number)
        judged = await judged_attempt(runtime, ticket, number, tried, place, choose=lambda _: tried)
        await conclude(runtime, ticket, number, judged, place)


def _note_start(runtime: Runtime, ticket: Ticket, number: int, place: Place, begin: Begin) -> None:
    if runtime.guard is not None:
        runtime.guard.entered(ticket.worker, number, is_new=True)
    level = fence_in_force(runtime.settings.fence).level
    runtime.note(WorkerStarted(ticket.worker, number, place.base, level, begin.kind, ticket.agent))


async def _settle(
    runtime: Runtime, ticket: Ticket, number: int, tried: Tried, place: Place | None
) -> Begin | None:
    """Judge an attempt and close its ticket; else say how the attempt begins that is to be made instead."""
    if place is None or (runtime.stopping and went_with_a_runtime(tried.ended)):
        return None
    before = await earlier(runtime, ticket, number - 1) if runtime.of(ticket).kind == "asked" else None

    def choose(changed: bool | None) -> Tried:  # noqa: FBT001 - called by position alone
        return tried if before is None else answered(before, tried, changed=changed)

    judged = await judged_attempt(runtime, ticket, number, tried, place, choose=choose)
    entry = account(runtime, ticket, number, judged)
    await settle(runtime, ticket, number, entry.usage)
    _tell_provider(runtime, ticket, tried.answer)
    next_ = None if runtime.is_cancelled(ticket) else _following(runtime, ticket, entry, judged)
    if next_ is None:
        await conclude(runtime, ticket, number, judged, place)
        return None
    if runtime.stopping:
        return None  # the next runtime finds the same, and goes on from there
    event, begin = next_
    reason = f"its report lacks: {begin.reason}" if event == "asked" else judged.judgement.reason
    runtime.note(AttemptRepeated(event, ticket.worker, number, reason, entry, begin))
    return begin


def _tell_provider(runtime: Runtime, ticket: Ticket, answer: Answer) -> None:
    """Learn from an attempt how its provider does."""
    if ticket.agent == "command":
        return
    if answer.failure in ("rate_limited", "overloaded") and answer.ended != "success":
        until = answer.resets_at
        if until is None and answer.retry_after is not None:
            until = runtime.clock().timestamp() + answer.retry_after
        park(runtime, ticket, answer.error or str(answer.failure), until)
    elif answer.ended == "success":
        runtime.schedule.providers.went_well(ticket.agent)
        runtime.schedule.logins.answered(ticket.agent)


def _following(
    runtime: Runtime, ticket: Ticket, entry: Try, judged: Judged
) -> tuple[Literal["retry", "afresh", "asked"], Begin] | None:
    """Say whether another attempt helps: where nobody is to blame, or for what a report lacks, once."""
    judgement, tried = judged.judgement, Tried(judged.ended, judged.answer)
    paths = [change.path for change in judged.found.changes] if judged.found else []
    if "thread_lost" in tried.answer.flags and entry.kind == "thread":
        return "afresh", going_on(ticket, tried, judgement.reason, paths)
    locked_out = [one for one in runtime.of(ticket).tries if LOCKED in one.reason]
    if judgement.retryable and LOCKED in judgement.reason and len(locked_out) < LOCKED_OUT:
        return "afresh", going_on(ticket, tried, judgement.reason, paths)
    if judgement.retryable and runtime.of(ticket).retries < ticket.retries:
        return "retry", going_on(ticket, tried, judgement.reason, paths)
    if entry.kind == "asked" or judged.found is None:
        return None
    asked = asked_for(ticket, tried, changed=bool(paths) if ticket.mode == "write" else None)
    return None if asked is None else ("asked", asked)
