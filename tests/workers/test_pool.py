"""Slots, with real processes that race for them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from workers.pool import Pool, PoolLimits, holders
from workers.process import Launch, Limits, open_nursery

pytestmark = pytest.mark.anyio
HOLDER = {"run": "20260216_142834", "worker": "Codex-Worker-1", "at": "2026-02-16T14:28:34Z"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_an_agent_has_its_own_limit_and_the_pool_one_for_all(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=4, codex=2, claude=3))
    taken = [
        pool.acquire_nowait(agent, HOLDER)
        for agent in ("codex", "codex", "codex", "claude", "command", "claude")
    ]
    assert [None if slot is None else slot.names for slot in taken] == [
        ("codex-1", "pool-01"),
        ("codex-2", "pool-02"),
        None,
        ("claude-1", "pool-03"),
        ("pool-04",),
        None,
    ]
    taken[4].release()
    assert pool.acquire_nowait("claude", HOLDER).names == ("claude-2", "pool-04")


def test_what_is_taken_is_told_without_disturbing_it(tmp_path):
    pool = Pool(tmp_path, PoolLimits())
    slot = pool.acquire_nowait("codex", HOLDER)
    assert [(taken.slot, taken.holder, taken.dirty) for taken in pool.holders()] == [
        ("codex-1", HOLDER, False),
        ("pool-01", HOLDER, False),
    ]
    slot.release()
    slot.release()
    assert pool.holders() == []
    assert holders(tmp_path / "never") == []


def test_an_agent_that_gets_no_place_in_the_pool_keeps_none_of_its_own(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=1))
    slot = pool.acquire_nowait("command", HOLDER)
    assert pool.acquire_nowait("codex", HOLDER) is None
    slot.release()
    assert pool.acquire_nowait("codex", HOLDER).names == ("codex-1", "pool-01")


def test_descriptors_are_not_passed_on_and_all_are_given_back(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=3))
    before = sorted(Path("/proc/self/fd").iterdir())
    slots = [pool.acquire_nowait("codex", HOLDER) for _ in range(5)]
    assert [slot is None for slot in slots] == [False, False, False, True, True]
    assert not any(os.get_inheritable(descriptor) for slot in slots[:3] for descriptor in slot.fds)
    for slot in slots[:3]:
        slot.release()
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_slot_that_no_shim_had_names_nobody_even_while_a_starting_program_has_its_lock(tmp_path):
    pool = Pool(tmp_path, PoolLimits())
    slot = pool.acquire_nowait("codex", HOLDER)
    descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir() if is_below(path, tmp_path)]
    copies = [os.dup(descriptor) for descriptor in descriptors]  # what a child has between fork and exec
    assert len(copies) == 2
    slot.release()
    assert pool.holders() == []
    for copy in copies:
        os.close(copy)
    assert pool.acquire_nowait("codex", HOLDER).names == ("codex-1", "pool-01")


def is_below(path, folder):
    try:
        return path.readlink().is_relative_to(folder)
    except FileNotFoundError:
        return False


def test_a_slot_whose_holder_is_gone_is_cleaned_before_it_is_taken(tmp_path):
    Pool(tmp_path, PoolLimits())
    (tmp_path / "codex-1.lock").write_text(json.dumps(HOLDER))
    assert [(taken.slot, taken.dirty) for taken in holders(tmp_path)] == [("codex-1", True)]
    told = []
    pool = Pool(tmp_path, PoolLimits(), on_dirty=told.append)
    slot = pool.acquire_nowait("codex", {"worker": "next"})
    assert told == [HOLDER]
    assert [(taken.slot, taken.holder["worker"]) for taken in holders(tmp_path)] == [
        ("codex-1", "next"),
        ("pool-01", "next"),
    ]
    slot.release()
    assert pool.acquire_nowait("codex", HOLDER) is not None
    assert told == [HOLDER]


def test_a_slot_that_cannot_be_cleaned_stays_dirty_and_free_for_the_next(tmp_path):
    def fail(holder):
        raise RuntimeError(holder["worker"])

    (tmp_path / "pool-01.lock").write_text(json.dumps(HOLDER))
    with pytest.raises(RuntimeError, match="Codex-Worker-1"):
        Pool(tmp_path, PoolLimits(), on_dirty=fail).acquire_nowait("codex", {"worker": "next"})
    assert [(taken.slot, taken.dirty) for taken in holders(tmp_path)] == [("pool-01", True)]


def test_a_holder_cut_short_is_dirty_and_harmless(tmp_path):
    (tmp_path / "pool-01.lock").write_text('{"run": "2026')
    assert [(taken.slot, taken.holder, taken.dirty) for taken in holders(tmp_path)] == [("pool-01", {}, True)]
    assert Pool(tmp_path, PoolLimits()).acquire_nowait("command", HOLDER) is not None


async def test_who_waits_is_woken_by_a_release_and_gives_up_in_time(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=1))
    slot = await pool.acquire("codex", HOLDER)
    began = time.monotonic()
    assert await pool.acquire("codex", HOLDER, timeout=0.1) is None
    assert 0.1 <= time.monotonic() - began < 2
    got = []

    async def wait() -> None:
        got.append(await pool.acquire("codex", HOLDER, timeout=10))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        slot.release()
    assert got[0].names == ("codex-1", "pool-01")


async def test_an_agent_without_slots_is_told_so_at_once(tmp_path):
    assert await Pool(tmp_path, PoolLimits(gemini=0)).acquire("gemini", HOLDER) is None


async def test_a_slot_is_taken_until_its_shim_has_ended_and_clean_after_it(tmp_path):
    pool = Pool(tmp_path / "slots", PoolLimits(total=1))
    it = Launch(
        worker="w",
        argv=("sh", "-c", "ls -l /proc/self/fd; while [ ! -e go ]; do sleep 0.01; done"),
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdin=Path("/dev/null"),
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        started_record=tmp_path / "started",
        exit_record=tmp_path / "exit",
        limits=Limits(total=20),
    )
    slot = pool.acquire_nowait("codex", HOLDER)
    async with open_nursery(tmp_path / "log") as nursery, anyio.create_task_group() as group:
        group.start_soon(nursery.run, it, slot.fds)
        with anyio.fail_after(10):
            while not (tmp_path / "started").exists():  # noqa: ASYNC110 - a shim writes it
                await anyio.sleep(0.01)
        slot.release()
        assert pool.acquire_nowait("codex", HOLDER) is None
        assert [taken.dirty for taken in pool.holders()] == [False, False]
        (tmp_path / "go").touch()
    assert pool.holders() == []
    assert pool.acquire_nowait("codex", HOLDER) is not None
    assert ".lock" not in (tmp_path / "out").read_text()


RACER = """
import os, sys, time
from pathlib import Path
import anyio
from workers.pool import Pool, PoolLimits

async def main(folder):
    pool = Pool(folder / "slots", PoolLimits())
    for turn in range(2):
        slot = await pool.acquire("command", {"worker": str(os.getpid())}, timeout=30)
        mine = folder / "live" / slot.names[-1]
        os.close(os.open(mine, os.O_CREAT | os.O_EXCL))       # two in one slot: this fails
        seen = len(os.listdir(folder / "live"))               # more than fifteen: this tells
        await anyio.sleep(0.02)
        mine.unlink()
        slot.release()
        print(seen, flush=True)

anyio.run(main, Path(sys.argv[1]))
"""


def test_twenty_processes_never_hold_more_than_fifteen_slots(tmp_path):
    (tmp_path / "live").mkdir()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(20)
    ]
    told = [racer.communicate(timeout=60) for racer in racers]
    assert [errors for _, errors in told if errors] == []
    seen = [int(line) for output, _ in told for line in output.split()]
    assert len(seen) == 40
    assert max(seen) <= 15
    assert holders(tmp_path / "slots") == []


def test_reading_who_is_there_costs_no_heavy_import():
    text = (
        "import sys, workers.pool; print([n for n in ('anyio', 'asyncio', 'pydantic') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
