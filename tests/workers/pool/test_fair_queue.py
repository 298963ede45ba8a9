"""The line at the slots: who waits, gets the next one, and leaves its place, also across processes."""

import os
import subprocess
import sys
import time

import anyio
import pytest
from support.pool import HOLDER

from workers.pool.slots import Pool, PoolLimits

pytestmark = pytest.mark.anyio


async def test_who_waits_is_woken_by_a_release_and_gives_up_in_time(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=1))
    slot = await pool.acquire("codex", HOLDER)
    began = time.monotonic()
    assert await pool.acquire("codex", HOLDER, timeout=0.1) is None
    assert time.monotonic() - began >= 0.1
    got = []

    async def wait() -> None:
        got.append(await pool.acquire("codex", HOLDER, timeout=60))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        slot.release()
    assert got[0].names == ("codex-1", "pool-01")


async def test_an_agent_without_slots_is_told_so_at_once(tmp_path):
    assert await Pool(tmp_path, PoolLimits(agents={"gemini": 0})).acquire("gemini", HOLDER) is None


async def waits(group, pool, agent, got, **how):
    """Let a process wait for a slot, until it stands in the queue."""
    before = len(spots(pool))

    async def wait() -> None:
        got.append(await pool.acquire(agent, HOLDER, **how))

    group.start_soon(wait)
    with anyio.fail_after(60):
        while len(spots(pool)) == before:  # noqa: ASYNC110 - a file tells
            await anyio.sleep(0.001)


def spots(pool):
    folder = pool.directory / "waiting"
    return sorted(folder.iterdir()) if folder.exists() else []


async def test_who_lets_go_and_asks_again_comes_after_another_process_that_waits(tmp_path):
    hundred, one = (Pool(tmp_path, PoolLimits(agents={"codex": 2})) for _ in range(2))
    held = [hundred.acquire_nowait("codex", HOLDER) for _ in range(2)]
    got: list = []
    async with anyio.create_task_group() as group:
        await waits(group, one, "codex", got, timeout=60)
        held.pop().release()
        assert hundred.acquire_nowait("codex", HOLDER) is None
        held.pop().release()
        # One is for those who wait, the other is free for all.
        assert hundred.acquire_nowait("codex", HOLDER) is not None
        assert hundred.acquire_nowait("codex", HOLDER) is None
    assert [slot.names[0][:5] for slot in got] == ["codex"]
    assert not (tmp_path / "waiting").exists()


async def test_who_waits_longest_gets_the_next_slot_of_the_pool_whatever_its_agent(tmp_path):
    first, second = (Pool(tmp_path, PoolLimits(total=1)) for _ in range(2))
    held = first.acquire_nowait("command", HOLDER)
    order: list = []
    async with anyio.create_task_group() as group:
        await waits(group, second, "codex", order, timeout=60)
        await waits(group, first, "command", order, timeout=60)
        held.release()
        with anyio.fail_after(60):
            while not order:  # noqa: ASYNC110 - another pool's slot tells nobody
                await anyio.sleep(0.001)
        assert order[0].names == ("codex-1", "pool-01")
        order[0].release()
    assert order[1].names == ("pool-01",)


async def test_who_lacks_a_slot_of_its_agent_keeps_none_of_the_pool_from_others(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=3, agents={"codex": 1}))
    held = pool.acquire_nowait("codex", HOLDER)
    got: list = []
    async with anyio.create_task_group() as group:
        for _ in range(5):
            await waits(group, Pool(tmp_path, pool.limits), "codex", got, timeout=60)
        others = [pool.acquire_nowait(agent, HOLDER) for agent in ("claude", "command", "command")]
        assert [other and other.names[-1] for other in others] == ["pool-02", "pool-03", None]
        held.release()
        for number in range(1, 6):
            with anyio.fail_after(60):
                while len(got) < number:  # noqa: ASYNC110 - another pool's slot tells nobody
                    await anyio.sleep(0.001)
            got[-1].release()


def test_the_place_of_one_who_died_is_taken_away(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=1))
    text = (
        "import sys, anyio; from pathlib import Path; from workers.pool.slots import Pool, PoolLimits\n"
        "anyio.run(Pool(Path(sys.argv[1]), PoolLimits(total=1)).acquire, 'command', {})"
    )
    held = pool.acquire_nowait("command", HOLDER)
    waiter = subprocess.Popen([sys.executable, "-c", text, tmp_path])
    deadline = time.monotonic() + 60
    while not spots(pool) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(spots(pool)) == 1
    waiter.kill()
    waiter.wait()
    held.release()
    assert pool.acquire_nowait("command", HOLDER) is not None
    assert spots(pool) == []


def test_one_who_has_long_not_looked_is_passed_over_and_keeps_its_place(tmp_path):
    pool, stopped = (Pool(tmp_path, PoolLimits(total=1)) for _ in range(2))
    place = stopped._queue.enter("command")
    place.write("pool")
    assert pool.acquire_nowait("command", HOLDER) is None
    os.pwrite(place._descriptor, b"pool  00000000000000000001", 0)  # as after Ctrl-Z
    slot = pool.acquire_nowait("command", HOLDER)
    slot.release()
    place.write("pool")
    assert pool.acquire_nowait("command", HOLDER) is None
    place.leave()


async def test_a_limit_that_rises_while_one_waits_is_taken_up(tmp_path):
    pool, limits, got = Pool(tmp_path, PoolLimits()), [0], []
    async with anyio.create_task_group() as group:
        await waits(group, pool, "codex", got, timeout=60, limit=lambda: limits[0])
        limits[0] = 1
    assert got[0].names == ("codex-1", "pool-01")


async def test_who_gives_up_or_is_cancelled_leaves_the_line(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=1))
    held = pool.acquire_nowait("command", HOLDER)
    assert await pool.acquire("command", HOLDER, timeout=0.03) is None
    assert spots(pool) == []
    async with anyio.create_task_group() as group:
        await waits(group, pool, "command", [])
        group.cancel_scope.cancel()
    assert spots(pool) == []
    held.release()
