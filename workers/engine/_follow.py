"""The wait for a worker's end, with its stream read meanwhile, and the result of its output."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from tickets.types import AgentName
from workers.agents.follow import Follower
from workers.engine.job import CheckpointSaid, Emit, Ended, FirstAnswer, Throttled
from workers.files.exit_record import Exit
from workers.files.run_dir import AttemptFiles

POLL = 0.1
"""Seconds between two polls of an agent CLI's output."""
ANSWERS = ("text", "tool", "tool_end", "question")
"""Records that a stream has only after an answer of its provider."""


async def follow(
    agent: AgentName, files: AttemptFiles, grace: float, waiting: Callable[[], Awaitable[Exit]], emit: Emit
) -> Ended:
    """Wait for a worker; meanwhile read an agent's stream, which shows more than its processes.

    `grace` is how many seconds it has to exit after its terminal record.
    """
    follower = Follower(agent, files.stdout, files.stderr)
    if agent == "command":
        found = await waiting()
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_stream, follower, files, grace, emit)
            found = await waiting()
            group.cancel_scope.cancel()
        files.busy.unlink(missing_ok=True)
    result = await _ended(agent, files, found, follower)
    if follower.checkpoint:
        emit(CheckpointSaid(follower.checkpoint))
    return result


async def ended(agent: AgentName, files: AttemptFiles, found: Exit) -> Ended:
    """Read again the result of an ended attempt's output."""
    return await _ended(agent, files, found, Follower(agent, files.stdout, files.stderr))


async def _ended(agent: AgentName, files: AttemptFiles, found: Exit, follower: Follower) -> Ended:
    if found.cancelled_by == str(files.done):
        # It printed its closing record and did not exit; the later kill means nothing.
        found = found._replace(end="exited", exit_code=None)
    answer = partial(follower.answer, exit_code=found.exit_code, stderr=files.stderr)
    if agent == "command":
        return Ended(found, answer())  # no more than its last lines
    return Ended(found, await anyio.to_thread.run_sync(answer))


async def _read_stream(follower: Follower, files: AttemptFiles, grace: float, emit: Emit) -> None:
    """Keep a worker with an open tool call from counting as idle; stop one after its closing record."""
    has_answered = is_busy = False
    ended_at = None
    while ended_at is None or anyio.current_time() < ended_at + grace:
        await anyio.sleep(POLL)
        # Its output may be gone, or the disk full: its end is still awaited, and no other worker
        # fails with it.
        with suppress(OSError):
            progress = follower.read_more()
            if not has_answered and any(one.kind in ANSWERS for one in progress):
                has_answered = True
                emit(FirstAnswer())
            if follower.checkpoint:
                emit(CheckpointSaid(follower.checkpoint))
            if follower.throttled is not None:
                emit(Throttled(follower.throttled, follower.last))
            if follower.tools and not is_busy:
                files.busy.touch()
            elif is_busy and not follower.tools:
                files.busy.unlink(missing_ok=True)
            is_busy = follower.tools > 0
        # Some go on after a closing record, with what they had left in the background.
        ended_at = (ended_at or anyio.current_time()) if follower.has_ended else None
    with suppress(OSError):
        files.done.touch()
