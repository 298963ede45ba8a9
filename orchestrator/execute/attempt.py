"""One attempt of one worker: how it begins, started or taken over, followed to its end."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from orchestrator.execute._claims import NO_CHANGES, missing_of
from orchestrator.execute._prompt import add_to_prompt, write_prompt
from orchestrator.execute.dispatch import park, settle
from orchestrator.execute.evidence import Judged, Tried, account
from orchestrator.execute.judgement import Judgement
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import placed_earlier
from orchestrator.runs.events import AttemptRepeated, Begin
from tickets.ticket import Ticket
from workers.agents.agent import find_agent
from workers.agents.follow import Follower
from workers.engine.launch import Attempt, mark_of, prepare_launch
from workers.engine.process import RUNTIME_DIED, wait_adopted
from workers.errors import WorkerError
from workers.files.exit_record import Exit, read_exit
from workers.files.run_dir import AttemptFiles
from workers.pool.slots import Slot
from workers.shim.spec import Limits
from workers.worktree.worktree import Place

LOOK = 0.1
"""Seconds between two looks at what an agent CLI has printed."""
SHOWN = 20
"""Paths that a later attempt is told of; the rest it sees for itself."""

ANSWERS = ("text", "tool", "tool_end", "question")
"""What a stream says only once its provider has answered."""

FIRST = Begin()


def going_on(ticket: Ticket, tried: Tried, reason: str, changed: Sequence[str] = ()) -> Begin:
    """Say how to go on after an attempt that did not get to its end: in its thread, where it has one."""
    thread = None if ticket.agent == "command" else tried.answer.thread
    begin = Begin(
        "again", None, reason, tuple(changed[:SHOWN]), max(0, len(changed) - SHOWN), tried.answer.text[-2000:]
    )
    if thread and "thread_lost" not in tried.answer.flags:
        return begin._replace(kind="thread", thread=thread)
    return begin


def asked_for(ticket: Ticket, tried: Tried, *, changed: bool | None) -> Begin | None:
    """Say how to ask an agent for what its report lacks; None where nothing is, or nobody can be asked."""
    answer = tried.answer
    if ticket.agent == "command" or answer.ended != "success" or not answer.thread or answer.question:
        return None
    missing = missing_of(answer.text, changed=changed)
    return Begin("asked", answer.thread, ", ".join(missing)) if missing else None


def answered(before: Tried, tried: Tried, *, changed: bool | None) -> Tried:
    """Put the answer to a question about the report in the place of the report, where it is the better one.

    How the question was answered says nothing about the work: that had ended well before.
    """
    ended, answer = tried
    if ended.end == "cancelled" and not went_with_a_runtime(ended):
        return tried
    if answer.ended == "success" and answer.text.strip():
        lacks, lacked = (len(missing_of(one.answer.text, changed=changed)) for one in (tried, before))
        if lacks < lacked:
            return tried
    return Tried(before.ended, before.answer._replace(usage=answer.usage))


def went_with_a_runtime(ended: Exit) -> bool:
    """Tell whether a worker was stopped with its runtime, and by nobody's wish or fault."""
    if ended.end == "lost":
        return True
    return ended.end == "cancelled" and (
        ended.cancelled_by == RUNTIME_DIED or ended.cancelled_by.endswith("/cancel/.runtime")
    )


async def start_attempt(
    runtime: Runtime, ticket: Ticket, slot: Slot, place: Place, begin: Begin, *, most_usd: float | None
) -> Tried:
    """Start the attempt that was noted last in a slot, and see it to its end. Raises WorkerError.

    `most_usd` is what an agent that can stop itself may spend.
    """
    number = runtime.of(ticket).attempts
    executable = find_agent(ticket.agent, runtime.settings.agent(ticket.agent), runtime.environ)
    if executable is None:
        raise WorkerError(f"{ticket.agent} is not installed any more")
    write_prompt(runtime, ticket)
    limits = Limits(
        ticket.timeout, runtime.settings.limits.grace, runtime.settings.limits.output_cap, ticket.idle_timeout
    )
    said = "" if ticket.agent == "command" else _words(begin)
    attempt = Attempt(
        ticket,
        number,
        place.path,
        executable,
        settings=runtime.settings.agent(ticket.agent),
        limits=limits,
        thread=begin.thread,
        prompt=add_to_prompt(runtime, ticket, number, said, alone=begin.thread is not None) if said else None,
        budget_usd=most_usd,
    )
    launch = prepare_launch(runtime.site, attempt)
    files = runtime.run.attempt(ticket.worker, number)
    return await _followed(runtime, ticket, files, partial(runtime.nursery.run, launch, slot.fds))


async def inherited(
    runtime: Runtime, ticket: Ticket, number: int
) -> tuple[Place | None, Tried | None, Begin]:
    """Take over what an earlier runtime had started: wait for it if it lives, never start it twice.

    Gives its tree, how it ended where that counts, and how the next attempt begins where it does not.
    """
    worker, files = runtime.of(ticket), runtime.run.attempt(ticket.worker, number)
    place = placed_earlier(runtime, ticket, worker.base)
    if worker.retrying and worker.begin is not None:
        # It was judged already, and its retry counted.
        return place, None, worker.begin
    if runtime.guard is not None:
        runtime.guard.entered(ticket.worker, number)
    # Also where nothing is to be seen of it: its launch may have been on the way when the runtime died.
    mark = mark_of(runtime.run, ticket.worker, number)
    waiting = partial(wait_adopted, ticket.worker, files.exit, files.started, mark=mark)
    tried = await _followed(runtime, ticket, files, waiting)
    lost = went_with_a_runtime(tried.ended)
    if place is None or (lost and worker.kind != "asked"):
        # The next attempt goes on in its tree.
        reason = tried.ended.error or ("its runtime stopped" if lost else "its tree is gone")
        entry = account(runtime, ticket, number, Judged(Judgement("interrupted", reason), *tried, None))
        begin = going_on(ticket, tried, reason)
        if runtime.guard is not None:
            runtime.guard.gone(ticket.worker)
        await settle(runtime, ticket, number, entry.usage)
        runtime.note(AttemptRepeated("lost", ticket.worker, number, reason, entry, begin))
        return place, None, begin
    return place, tried, FIRST


async def earlier(runtime: Runtime, ticket: Ticket, number: int) -> Tried:
    """Read once more how an attempt that has ended went."""
    files = runtime.run.attempt(ticket.worker, number)
    ended = read_exit(files.exit) or Exit(ticket.worker, "lost")

    async def known() -> Exit:
        return ended

    return await _followed(runtime, ticket, files, known)


def _words(begin: Begin) -> str:
    """Say what a later attempt is told; nothing for the first one."""
    left = "\n".join(f"- `{path}`" for path in begin.changed)
    left += f"\n- and {begin.more} more" if begin.more else ""
    match begin.kind:
        case "first":
            return ""
        case "thread":
            return (
                f"You were cut off: {begin.reason}. Go on with your ticket from where you were.\n"
                "What your last call left in the files is not known: look at them before you build on them.\n"
                "End with the whole report, as the ticket asks for it.\n"
            )
        case "asked":
            return (
                f"Your report lacks: {begin.reason}.\n"
                "Change no file any more. Answer once more with the whole report, all of its sections,\n"
                "the last of them `## Status` with one word of COMPLETE, BLOCKED, NEEDS_CLARIFICATION.\n"
                f"If no file had to be changed, its Summary has a line `{NO_CHANGES}` that says why.\n"
            )
        case "again":
            return (
                "## Earlier Attempt\n\n"
                f"Somebody has begun this ticket and did not end it: {begin.reason}.\n"
                + (f"What it changed stands in the files:\n\n{left}\n\n" if left else "It changed no file.\n")
                + "Look at what is there first; keep what is right.\n"
                + (f"\nIts last words were:\n\n{_quoted(begin.said)}\n" if begin.said.strip() else "")
            )


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


async def _followed(
    runtime: Runtime, ticket: Ticket, files: AttemptFiles, waiting: Callable[[], Awaitable[Exit]]
) -> Tried:
    """Wait for a worker; read along with an agent CLI, whose stream says what its processes do not."""
    follower = Follower(ticket.agent, files.stdout, files.stderr)
    if ticket.agent == "command":
        ended = await waiting()
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_along, runtime, ticket, follower, files)
            ended = await waiting()
            group.cancel_scope.cancel()
        files.busy.unlink(missing_ok=True)
    if ended.cancelled_by == str(files.done):
        # It said its last word and would not go; how it went then says nothing.
        ended = ended._replace(end="exited", exit_code=None)
    answer = partial(follower.answer, exit_code=ended.exit_code, stderr=files.stderr)
    if ticket.agent == "command":
        return Tried(ended, answer())  # no more than its last lines
    return Tried(ended, await anyio.to_thread.run_sync(answer))


async def _read_along(runtime: Runtime, ticket: Ticket, follower: Follower, files: AttemptFiles) -> None:
    """Keep a worker with an open tool call from being taken for idle; stop one that said its last word.

    A provider that has it wait is left alone by the others, too.
    """
    has_answered = is_busy = False
    while not follower.has_ended:
        await anyio.sleep(LOOK)
        # What it printed may be gone, or the disk full: its end is awaited all the same, and nobody else's
        # worker falls with it.
        with suppress(OSError):
            progress = follower.read_more()
            if not has_answered and any(one.kind in ANSWERS for one in progress):
                has_answered = True
                runtime.schedule.logins.answered(ticket.agent)
            if follower.throttled is not None:
                until = runtime.clock().timestamp() + follower.throttled if follower.throttled else None
                park(runtime, ticket, f"{ticket.worker} has to wait: {follower.last}"[:300], until)
            if follower.tools and not is_busy:
                files.busy.touch()
            elif is_busy and not follower.tools:
                files.busy.unlink(missing_ok=True)
            is_busy = follower.tools > 0
    await anyio.sleep(runtime.settings.limits.grace)
    with suppress(OSError):
        files.done.touch()
