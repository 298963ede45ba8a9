"""Slots, with real processes that race for them."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest
from support.pool import HOLDER
from support.runtimes import PATIENCE

from workers.engine.process import open_fork_server
from workers.pool.slots import Pool, PoolLimits, holders
from workers.shim.spec import Launch, Limits

pytestmark = pytest.mark.anyio


def test_an_agent_has_its_own_limit_and_the_pool_one_for_all(tmp_path):
    pool = Pool(tmp_path, PoolLimits(total=4, agents={"codex": 2, "claude": 3}))
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


def test_slots_that_name_a_run_which_is_over_are_given_back_and_no_others(tmp_path):
    told = []
    pool = Pool(tmp_path, PoolLimits(), on_dirty=told.append)
    living = pool.acquire_nowait("command", {"run": "over", "worker": "lives"})
    texts = {
        "pool-09": {"run": "over", "worker": "gone", "mark": "m"},
        "codex-3": {"run": "over", "worker": "gone", "mark": "m"},
        "pool-11": {"run": "other", "worker": "theirs"},
        "pool-12": {},
    }
    for slot, holder in texts.items():
        (tmp_path / f"{slot}.lock").write_text(json.dumps(holder))
    (tmp_path / "pool-13.lock").write_text("[" * 100_000)
    pool.clear_after("over")
    left = {path.stem for path in tmp_path.glob("*.lock") if path.read_text()}
    assert left == {*living.names, "pool-11", "pool-12", "pool-13"}
    assert [one["worker"] for one in told] == ["gone", "gone"]
    living.release()


def test_a_holder_cut_short_is_dirty_and_harmless(tmp_path):
    (tmp_path / "pool-01.lock").write_text('{"run": "2026')
    assert [(taken.slot, taken.holder, taken.dirty) for taken in holders(tmp_path)] == [("pool-01", {}, True)]
    assert Pool(tmp_path, PoolLimits()).acquire_nowait("command", HOLDER) is not None


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
    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        group.start_soon(fork_server.run, it, slot.fds)
        with anyio.fail_after(PATIENCE):
            while not (tmp_path / "started").exists():  # noqa: ASYNC110 - a shim writes it
                await anyio.sleep(0.01)
        slot.release()
        assert pool.acquire_nowait("codex", HOLDER) is None
        assert [taken.dirty for taken in pool.holders()] == [False, False]
        (tmp_path / "go").touch()
    assert pool.holders() == []
    assert pool.acquire_nowait("codex", HOLDER) is not None
    assert ".lock" not in (tmp_path / "out").read_text()


def test_a_lowered_limit_counts_those_who_run_already(tmp_path):
    pool = Pool(tmp_path, PoolLimits())
    held = [pool.acquire_nowait("codex", HOLDER) for _ in range(5)]
    for slot in held[:3]:
        slot.release()
        assert pool.acquire_nowait("codex", HOLDER, limit=2) is None  # in the slots 4 and 5, two still run
    held[3].release()
    assert pool.acquire_nowait("codex", HOLDER, limit=0) is None
    slot = pool.acquire_nowait("codex", HOLDER, limit=2)
    assert slot.names[0] == "codex-1"
    assert pool.acquire_nowait("codex", HOLDER, limit=2) is None
    assert pool.acquire_nowait("codex", HOLDER, limit=9) is not None
    assert pool.acquire_nowait("command", HOLDER, limit=2) is not None  # has no limit that could be lowered
    assert len([taken for taken in pool.holders() if taken.slot.startswith("pool")]) == 4


RACER = """
import json, os, sys, time
from pathlib import Path
import anyio
from workers.pool.slots import Pool, PoolLimits

FOLDER, RACERS, SECONDS, LIMIT = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
AGENTS = sys.argv[5:]

async def race(number):
    pool, agent, seen = Pool(FOLDER / "slots", PoolLimits()), AGENTS[number % len(AGENTS)], []
    (FOLDER / f"ready-{number}").touch()
    while not (FOLDER / "go").exists():
        await anyio.sleep(0.005)
    end = time.monotonic() + SECONDS

    async def hold():
        while time.monotonic() < end or not seen:
            slot = await pool.acquire(agent, {"worker": str(number)}, 60, lambda: LIMIT)
            mine = FOLDER / "live" / slot.names[-1]
            os.close(os.open(mine, os.O_CREAT | os.O_EXCL))       # two in one slot: this fails
            began = time.monotonic_ns()
            await anyio.sleep(0.004)
            seen.append([agent, began, time.monotonic_ns()])
            mine.unlink()
            slot.release()

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        group.start_soon(hold)
    (FOLDER / f"seen-{number}").write_text(json.dumps(seen))

pids = []
for number in range(RACERS):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            anyio.run(race, number)
            code = 0
        finally:
            os._exit(code)
    pids.append(pid)
while len(list(FOLDER.glob("ready-*"))) < RACERS and not os.waitpid(-1, os.WNOHANG)[0]:
    time.sleep(0.01)
(FOLDER / "go").touch()
sys.exit(sum(bool(os.waitpid(pid, 0)[1]) for pid in pids))
"""


def raced(folder, *, racers, seconds, limit, agents):
    """Have processes race; return (agent, times held) of each racer and the most that were held at once."""
    (folder / "live").mkdir()
    command = [sys.executable, "-c", RACER, folder, str(racers), str(seconds), str(limit), *agents]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shares, moments = [], []
    for path in folder.glob("seen-*"):
        seen = json.loads(path.read_text())
        shares.append((seen[0][0], len(seen)))
        moments += [moment for agent, *at in seen for moment in ((at[0], 1, agent), (at[1], -1, agent))]
    held, most = Counter(), Counter()
    for _, change, agent in sorted(moments):
        for name in (agent, "all"):
            held[name] += change
            most[name] = max(most[name], held[name])
    return shares, most


def test_twenty_processes_never_hold_more_than_fifteen_slots_and_each_gets_its_share(tmp_path):
    agents = ("codex", "claude", "gemini", "command")
    shares, most = raced(tmp_path, racers=20, seconds=1.5, limit=5, agents=agents)
    print(f"{sum(times for _, times in shares)} holds by 20 processes, at most {dict(most)}")
    assert most["all"] <= 15
    assert max(most[agent] for agent in agents[:3]) <= 5
    assert len(shares) == 20
    for agent in agents:
        times = [times for name, times in shares if name == agent]
        assert min(times) >= max(times) / 3, times
    slots = tmp_path / "slots"
    assert holders(slots) == []
    pool = Pool(slots, PoolLimits())
    assert all(pool.acquire_nowait(agent, HOLDER) for agent in agents[:3] for _ in range(5))
    assert pool.acquire_nowait("command", HOLDER) is None


def test_processes_that_race_for_a_lowered_limit_do_not_exceed_it(tmp_path):
    _, most = raced(tmp_path, racers=8, seconds=0.7, limit=2, agents=("codex",))
    assert 1 <= most["codex"] <= 2


def test_reading_who_is_there_costs_no_heavy_import():
    text = (
        "import sys, workers.pool; print([n for n in ('anyio', 'asyncio', 'pydantic') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
