"""The main path of one ticket: turn, slot, attempt, judgement; a further attempt where that helps; its end.

Read from top to bottom: callees are below their callers.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from orchestrator.execute.attempt import event_handler, new_job, started_job
from orchestrator.execute.begin import asked_for, first_of, going_on
from orchestrator.execute.dispatch import (
    Permit,
    book_cost,
    hold_up,
    is_far,
    moved,
    park,
    permit_for,
    release_budget,
    wait_for_budget,
    watch_room,
)
from orchestrator.execute.evidence import Judged, account, clear, conclude, end, judge_attempt, so_far
from orchestrator.execute.judgement import CANCELLED, Judgement
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import close_shared_trees
from orchestrator.log import warning
from orchestrator.runs.earlier import done_since
from orchestrator.runs.events import AttemptRepeated, Begin, Try, WorkerSkipped
from orchestrator.runs.worker_state import DONE_SINCE
from orchestrator.schedule.availability import why_disabled, why_off
from orchestrator.schedule.rate_limits import LONGEST_PAUSE
from orchestrator.tamper.guard import Guard, tampering_problem
from tickets.problems import Problem, TicketError
from tickets.ticket import Ticket
from workers.agents.agent import Answer
from workers.engine.job import NO_ANSWER, Result
from workers.engine.local import read_ended
from workers.engine.process import stopped_with_runtime
from workers.errors import WorkerError
from workers.fence.probe import fence_in_force
from workers.files.exit_record import Exit
from workers.git.run import GitError

LOCKED = "database is locked"
"""The message of an agent CLI whose files another one has open at that moment, before it has begun."""
LOCKED_OUT = 9
"""How often that is not counted as one of a ticket's retries: fifteen may share the files of one login."""


async def execute(runtime: Runtime) -> list[Problem]:
    """Run every ticket to its end, each once its dependencies have ended.

    Returns the tampering that was found meanwhile.
    """
    # Only of those that others wait for: an event is a kilobyte, and ten thousand tickets may wait.
    awaited = {before for some in runtime.manifest.dependencies.values() for before in some}
    done = {id_: anyio.Event() for id_ in awaited}
    left = [ticket for ticket in runtime.manifest.tickets if not runtime.of(ticket).ended]
    runtime.done_since = await anyio.to_thread.run_sync(done_since, runtime.state, left)
    if not fence_in_force(runtime.settings.fence.level).holds and not runtime.state.has_ended:
        await _begin_to_guard(runtime)
    async with anyio.create_task_group() as watching:
        watching.start_soon(watch_room, runtime)
        if runtime.guard is not None:
            watching.start_soon(runtime.guard.watch, runtime.note_tampering)
        async with anyio.create_task_group() as group:
            runtime.take_again = partial(_take_in, group, runtime, done)
            with runtime.schedule.queue.gathered():
                for ticket in runtime.manifest.tickets:
                    if not runtime.of(ticket).ended:
                        group.start_soon(_take_to_end, runtime, ticket, done)
                    elif ticket.id in done:
                        done[ticket.id].set()
                await anyio.lowlevel.checkpoint()  # each runs until it waits for its turn
        runtime.take_again = None
        watching.cancel_scope.cancel()
    if runtime.guard is not None and not runtime.stopping:
        for found in await runtime.guard.last():
            runtime.note_tampering(found)
    await anyio.to_thread.run_sync(_clear_slots, runtime)
    if runtime.state.has_ended:
        await close_shared_trees(runtime)
    return [tampering_problem(found) for found in runtime.tampered]


def _take_in(group: TaskGroup, runtime: Runtime, done: dict[str, anyio.Event], ticket: Ticket) -> None:
    group.start_soon(_take_to_end, runtime, ticket, done)


async def _take_to_end(runtime: Runtime, ticket: Ticket, done: dict[str, anyio.Event]) -> None:
    """Run one ticket to its end, when those that it depends on are `done`; an error ends it alone."""
    if waits_for := runtime.manifest.dependencies.get(ticket.id):
        with runtime.waiting(ticket):
            for before in waits_for:
                await done[before].wait()
    if runtime.stopping:
        return
    if runtime.is_cancelled(ticket) and not runtime.of(ticket).started:
        why: str | None = CANCELLED
    else:
        why = runtime.manifest.skipped.get(ticket.id)
        if not (why or runtime.of(ticket).started):
            why = _done_since(runtime, ticket)
        why = why or _fallen(runtime, ticket)
    if why:
        runtime.note(WorkerSkipped(ticket.worker, why))
    else:
        try:
            await _make_attempts(runtime, ticket)
            if runtime.is_cancelled(ticket) and not runtime.stopping and not runtime.of(ticket).ended:
                _close_waiting(runtime, ticket)
        except (WorkerError, GitError, TicketError, OSError) as error:
            # The other tickets continue.
            if not runtime.of(ticket).ended:
                await _end_between(runtime, ticket, Judgement("failed", _in_words(runtime, error)))
    if runtime.of(ticket).ended and runtime.mail is not None:
        await runtime.mail.ended(ticket)
    if runtime.of(ticket).ended and ticket.id in done:
        done[ticket.id].set()


async def _make_attempts(runtime: Runtime, ticket: Ticket) -> None:
    """Make the attempts of one ticket; one that an earlier runtime has started is waited for first."""
    begin: Begin | None = first_of(runtime.manifest.continues.get(ticket.id))
    missed = 0
    if runtime.of(ticket).attempts:
        begin = await _take_over(runtime, runtime.as_it_is(ticket))
        if begin is not None and (why := _done_since(runtime, ticket)):
            runtime.note(WorkerSkipped(ticket.worker, why))
            return
    while begin is not None and not (runtime.stopping or runtime.is_cancelled(ticket)):
        worker, now = runtime.of(ticket), runtime.as_it_is(ticket)
        retries, tries = worker.retries, len(worker.tries)
        if begin.kind != "asked":
            before, now = now.agent, moved(runtime, now)
            begin = begin if now.agent == before else begin.elsewhere()
        off = why_off(now.agent, runtime.settings, runtime.environ)
        if begin.kind == "asked" and (off or is_far(runtime, now.agent)):
            await _accept_report(runtime, now)
            return
        if off and missed < ticket.retries and not why_disabled(now.agent, runtime.settings):
            # A program that updates itself is gone for a moment.
            with runtime.waiting(ticket):
                await anyio.sleep(_pause(runtime.settings.pool.retry_pause, missed))
            missed += 1
            continue
        if off:
            await _close_off(runtime, now, off)
            return
        begin = await _make_attempt(runtime, now, begin)
        if begin is not None and begin.kind != "asked" and len(worker.tries) > tries:
            with runtime.waiting(ticket):
                await anyio.sleep(_pause(runtime.settings.pool.retry_pause, retries))


async def _take_over(runtime: Runtime, ticket: Ticket) -> Begin | None:
    """Wait for the attempt that an earlier runtime has started, and judge it; it is never started twice.

    Returns the beginning of the next attempt, if one follows.
    """
    worker, number = runtime.of(ticket), runtime.of(ticket).attempts
    if worker.retrying and worker.begin is not None:
        # It was judged already, and its retry counted.
        return worker.begin
    if runtime.guard is not None:
        runtime.guard.entered(ticket.worker, number)
    job, emit = started_job(runtime, ticket), event_handler(runtime, ticket, number, worker.kind)
    result = await runtime.engine.run(job, emit)
    is_lost = stopped_with_runtime(result.exit)
    if result.tree is not None and is_lost and worker.kind == "asked":
        # Its work had ended before, and is judged.
        result, is_lost = await runtime.engine.read_again(job, emit), False
    if result.tree is not None and not is_lost:
        # Its slot went with its shim, and an earlier runtime's worker is judged without one.
        return await _judge(runtime, ticket, number, result, is_asked=worker.kind == "asked")
    reason = result.exit.error or ("its runtime stopped" if is_lost else "its tree is gone")
    entry = account(runtime, ticket, number, Judged(Judgement("interrupted", reason), result))
    paths: list[str] = []
    if result.tree is not None:
        # Its tree is kept, and the next attempt is told what is there.
        read = await runtime.engine.read_again(job, emit)
        paths = [change.path for change in read.found.changes] if read.found else []
    begin = _going_on(runtime, ticket, result.answer, reason, paths)
    if runtime.guard is not None:
        runtime.guard.gone(ticket.worker)
    await book_cost(runtime, ticket, number, entry.usage)
    runtime.note(AttemptRepeated("lost", ticket.worker, number, reason, entry, begin))
    return begin


async def _make_attempt(runtime: Runtime, ticket: Ticket, begin: Begin) -> Begin | None:
    """Make one attempt when its turn has come; return the beginning of the attempt that follows.

    That is the same one where its turn did not come: another agent may do it, or others hold its budget.
    """
    number, is_asked = runtime.of(ticket).attempts + 1, begin.kind == "asked"
    async with permit_for(runtime, ticket, number, is_asked=is_asked) as permit:
        if isinstance(permit, Permit):
            result = await _run(runtime, ticket, number, begin, permit)
            if result.tree is None:
                # Cancelled before it was started, or its provider was parked while its tree was made.
                return begin if result.exit.end == "not_started" else None
            if _is_judged_without_slot(runtime, ticket, result):
                await permit.held.aclose()
            return await _judge(runtime, ticket, number, result, is_asked=is_asked)
    if permit is None:
        return begin
    if permit.can_wait:
        await wait_for_budget(runtime, ticket, permit)
        return begin
    if is_asked:
        hold_up(runtime, ticket, f"not asked for it: {permit.reason}")
        await _accept_report(runtime, ticket)
    else:
        await _end_between(runtime, ticket, Judgement("over_budget", permit.reason))
    return None


async def _run(runtime: Runtime, ticket: Ticket, number: int, begin: Begin, permit: Permit) -> Result:
    """Let the engine run an attempt; the reservation of one that does not start is released."""
    emit = event_handler(runtime, ticket, number, begin.kind)
    runtime.versions.starts(ticket, number)
    try:
        job = await new_job(runtime, ticket, number, begin, permit)
        result = await runtime.engine.run(job, emit, partial(_may_start, runtime, ticket))
    except (WorkerError, GitError, TicketError, OSError) as error:
        await release_budget(runtime, permit.reservation)
        if begin.kind != "asked":
            raise
        # The work is done, and its first report counts.
        result = await runtime.engine.read_again(started_job(runtime, ticket), emit)
        ended = Exit(ticket.worker, "not_started", error=_in_words(runtime, error))
        return result._replace(exit=ended, answer=NO_ANSWER)
    if result.tree is None:
        await release_budget(runtime, permit.reservation)
    return result


def _may_start(runtime: Runtime, ticket: Ticket) -> bool:
    return runtime.schedule.providers.parked(ticket.agent) is None


async def _judge(
    runtime: Runtime, ticket: Ticket, number: int, result: Result, *, is_asked: bool
) -> Begin | None:
    """Judge an attempt and close its ticket, or return the beginning of the attempt that replaces it."""
    if runtime.stopping and stopped_with_runtime(result.exit):
        return None
    if runtime.mail is not None:
        await runtime.mail.before_judging(ticket)
    before = await read_ended(runtime.run, ticket, number - 1) if is_asked else None
    judged = await judge_attempt(runtime, ticket, number, result, before)
    await runtime.versions.ask(ticket, number)
    entry = account(runtime, ticket, number, judged)
    await book_cost(runtime, ticket, number, entry.usage)
    _tell_provider(runtime, ticket, result.answer)
    next_ = None if runtime.is_cancelled(ticket) else _next_attempt(runtime, ticket, entry, judged)
    if next_ is None:
        await conclude(runtime, ticket, number, judged)
        return None
    if runtime.stopping:
        return None  # the next runtime finds the same, and continues from there
    event, begin = next_
    reason = f"its report lacks: {begin.reason}" if event == "asked" else judged.judgement.reason
    runtime.note(AttemptRepeated(event, ticket.worker, number, reason, entry, begin))
    return begin


def _next_attempt(
    runtime: Runtime, ticket: Ticket, entry: Try, judged: Judged
) -> tuple[Literal["retry", "afresh", "asked"], Begin] | None:
    """Return the beginning of the next attempt if one helps: no worker is at fault, or a report lacks parts.

    For what its report lacks a worker is asked once.
    """
    judgement, answer, found = judged.judgement, judged.result.answer, judged.result.found
    paths = [change.path for change in found.changes] if found else []
    if "thread_lost" in answer.flags and entry.kind in ("thread", "answered"):
        return "afresh", _going_on(runtime, ticket, answer, judgement.reason, paths)
    locked_out = [one for one in runtime.of(ticket).tries if LOCKED in one.reason]
    if judgement.retryable and LOCKED in judgement.reason and len(locked_out) < LOCKED_OUT:
        return "afresh", _going_on(runtime, ticket, answer, judgement.reason, paths)
    if judgement.retryable and runtime.of(ticket).retries < ticket.retries:
        return "retry", _going_on(runtime, ticket, answer, judgement.reason, paths)
    if entry.kind == "asked" or found is None:
        return None
    asked = asked_for(ticket, answer, changed=bool(paths) if ticket.mode == "write" else None)
    return None if asked is None else ("asked", asked)


def _going_on(runtime: Runtime, ticket: Ticket, answer: Answer, reason: str, paths: Sequence[str]) -> Begin:
    """Return the beginning after an attempt that did not reach its end; what the lead has said holds on."""
    before = runtime.of(ticket).begin
    return going_on(ticket, answer, reason, paths)._replace(answer=before.answer if before else "")


async def _accept_report(runtime: Runtime, ticket: Ticket) -> None:
    """Judge a worker by its existing report: it cannot be asked, soon or at all, for the missing parts."""
    number, kind = runtime.of(ticket).attempts, runtime.of(ticket).kind
    result = await runtime.engine.read_again(
        started_job(runtime, ticket), event_handler(runtime, ticket, number, kind)
    )
    judged = await judge_attempt(runtime, ticket, number, result)
    await conclude(runtime, ticket, number, judged)


def _is_judged_without_slot(runtime: Runtime, ticket: Ticket, result: Result) -> bool:
    """Return whether another worker may have the slot of one that has exited before that one is judged.

    Not where a provider may have to be parked before another asks it, nor where there is a tree to read
    or a check to run: what judges them would be more at once than the pool has slots. And one that ran alone
    stays alone until the guard has compared: it is to answer for what is found.
    """
    is_light = ticket.agent == "command" and not ticket.acceptance
    is_one_of_many = runtime.guard is None or not runtime.guard.is_alone(ticket.worker)
    return is_light and is_one_of_many and result.is_shared


def _tell_provider(runtime: Runtime, ticket: Ticket, answer: Answer) -> None:
    """Record an attempt's result for its provider: rate limited, or fine."""
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


def _pause(first: float, retries: int) -> float:
    """Return the seconds to wait before another attempt: each time longer, and never hours."""
    return min(max(first, LONGEST_PAUSE), first * 2.0 ** min(retries, 30))


def _fallen(runtime: Runtime, ticket: Ticket) -> str | None:
    """Describe the dependency that did not land, where there is one."""
    for before in runtime.manifest.dependencies.get(ticket.id, ()):
        worker = runtime.of(runtime.manifest.by_id(before))
        if worker.is_done_since:
            # Its work is not in the tree that this ticket would start from.
            return f"depends on {before}, which was {worker.reason}"
        if not (worker.lands or worker.had_nothing_to_do):
            return f"depends on {before}, which was {worker.verdict or worker.outcome}"
    return None


def _done_since(runtime: Runtime, ticket: Ticket) -> str | None:
    """Describe which later run has done a ticket, where one has: its work is not done and paid for twice."""
    done = runtime.done_since.get(ticket.id)
    return f"{DONE_SINCE}{done.run}" if done else None


def _close_waiting(runtime: Runtime, ticket: Ticket) -> None:
    """Close a ticket that was cancelled while it waited for a slot, or for another attempt."""
    if runtime.of(ticket).started:
        end(runtime, ticket, Judgement("cancelled", CANCELLED), so_far(runtime, ticket))
    else:
        runtime.note(WorkerSkipped(ticket.worker, CANCELLED))


async def _close_off(runtime: Runtime, ticket: Ticket, why: str) -> None:
    """Close a ticket whose agent was disabled after the run began: other tickets wait for it."""
    if runtime.of(ticket).started:
        await _end_between(runtime, ticket, Judgement("interrupted", why))
    else:
        runtime.note(WorkerSkipped(ticket.worker, why))


async def _end_between(runtime: Runtime, ticket: Ticket, judgement: Judgement) -> None:
    """Close a ticket whose last attempt is not judged; its tree stays if no patch has all of its work."""
    place = runtime.run.worktree(ticket.worker)
    result = await _read_left(runtime, ticket) if place.is_dir() else None
    is_in_patch = result is not None and result.found is not None and not result.found.inside
    kept = runtime.run.relative(place) if place.is_dir() and not is_in_patch else None
    end(runtime, ticket, judgement, so_far(runtime, ticket)._replace(worktree=kept))
    if result is not None and kept is None:
        await clear(runtime, ticket, result)


async def _read_left(runtime: Runtime, ticket: Ticket) -> Result | None:
    """Read what is in the tree of a worker, and write its patch; None where that is not known."""
    number, kind = runtime.of(ticket).attempts, runtime.of(ticket).kind
    files = runtime.run.attempt(ticket.worker, number)
    if not number or (files.started.exists() and not files.exit.exists()):
        return None  # not a tree of this runtime's, or the worker may still be alive in it
    try:
        emit = event_handler(runtime, ticket, number, kind)
        return await runtime.engine.read_again(started_job(runtime, ticket), emit)
    except (WorkerError, GitError, OSError):
        return None


def _in_words(runtime: Runtime, error: Exception) -> str:
    """Describe an error that prevented a worker's run or judgement, without its number."""
    if isinstance(error, OSError) and error.strerror:
        place = str(error.filename or "the system").removeprefix(f"{runtime.repository.root}/")
        return f"{place}: {error.strerror.lower()}"
    return getattr(error, "reason", None) or str(error).partition("\n")[0]


async def _begin_to_guard(runtime: Runtime) -> None:
    """Watch the user's repository from here on; the guard gets the workers that ran before."""
    workers = runtime.state.workers.items()
    guard = partial(
        Guard,
        runtime.repository,
        runtime.checker.directory,
        runtime.environ,
        runtime.manifest.rules.reserved_scope,
        ran={name: one.attempts for name, one in workers if one.started},
        # Also tickets that ended before they began, without budget or disk space: their records are ours.
        ended=[name for name, one in workers if one.ended and one.outcome != "skipped"],
    )
    runtime.guard = await anyio.to_thread.run_sync(guard)


def _clear_slots(runtime: Runtime) -> None:
    """Release the slots of earlier runtimes of the run that were killed."""
    try:
        runtime.schedule.pool.clear_after(runtime.run.id)
    except (WorkerError, OSError) as error:
        # No work depends on it: the next holder of the slot meets the same error, and reports it.
        warning("slots not cleared", run=runtime.run.id, reason=str(error))
