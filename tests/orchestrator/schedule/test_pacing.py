"""When workers may start: the interval between agent CLIs, and the memory that stops all."""

import subprocess
import sys
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest
from support.paths import ROOT
from support.runtimes import PATIENCE

from orchestrator.schedule import pacing as module
from orchestrator.schedule.pacing import Memory, Pacing, limited, measure

pytestmark = pytest.mark.anyio
INTERVAL = 0.1


class Machine:
    """Figures that a test sets."""

    def __init__(self, memory=10.0):
        self.memory, self.looks = memory, 0

    def __call__(self):
        self.looks += 1
        return Memory(self.memory)


def silent(why):
    pytest.fail(f"told {why}")


async def started(pacing, agent, times):
    """Have workers ask for a start all at once; return the moments at which they may."""
    moments = []

    async def one():
        await pacing.wait_turn(agent, silent)
        moments.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(one)
    return moments


async def test_agent_clis_start_one_by_one():
    moments = await started(Pacing(INTERVAL, 90, Machine()), "codex", 4)
    assert all(later - earlier >= INTERVAL * 0.99 for earlier, later in pairwise(moments))


@pytest.mark.parametrize(
    ("agent", "interval", "times"), [("codex", 20, 1), ("command", 20, 50), ("codex", 0, 50)]
)
async def test_the_first_one_waits_for_nobody_nor_do_commands(agent, interval, times):
    with anyio.fail_after(PATIENCE):
        await started(Pacing(interval, 90, Machine()), agent, times)


async def test_after_a_long_time_without_starts_nobody_waits():
    pacing = Pacing(20, 0, Machine())
    await pacing.wait_turn("codex", silent)
    pacing._started -= 20
    with anyio.fail_after(PATIENCE):
        await pacing.wait_turn("codex", silent)


@pytest.mark.parametrize("agent", ["codex", "command"])
async def test_nobody_pacing_without_memory_and_each_says_once_why(agent, monkeypatch):
    monkeypatch.setattr(module, "POLL", 0.02)
    monkeypatch.setattr(module, "FRESH", 0.0)
    machine, said, done = Machine(memory=93.4), [], []
    pacing = Pacing(0.01, 90, machine)

    async def one():
        await pacing.wait_turn(agent, said.append)
        done.append(machine.memory)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(one)
        with anyio.fail_after(PATIENCE):
            while machine.looks < 12:  # noqa: ASYNC110 - three that look every now and then
                await anyio.sleep(0.005)
        assert done == []
        machine.memory = 90.0
    assert done == [90.0] * 3
    assert said == ["memory: 93% in use, above [pool] max_memory = 90"] * 3


async def test_memory_that_runs_out_during_the_interval_stops_a_start_too(monkeypatch):
    monkeypatch.setattr(module, "POLL", 0.02)
    monkeypatch.setattr(module, "FRESH", 0.0)
    machine, said, done = Machine(), [], []
    pacing = Pacing(INTERVAL, 90, machine)
    await pacing.wait_turn("codex", silent)

    async def one():
        await pacing.wait_turn("codex", said.append)
        done.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        looks = machine.looks
        while machine.looks == looks:
            await anyio.lowlevel.checkpoint()  # it has found memory, and waits for the end of the interval
        machine.memory = 99.0
        with anyio.fail_after(PATIENCE):
            while not said:  # noqa: ASYNC110 - told from within a wait
                await anyio.sleep(0.005)
        assert done == []
        machine.memory = 50.0
    assert (done, len(said)) == ([True], 1)


class Clock:
    """The minutes of the waits, gone through in an instant: each measurement takes a third of one."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(module.anyio, "current_time", lambda: self.now)
        monkeypatch.setattr(module.anyio, "sleep", self.sleep)
        monkeypatch.setattr(module, "FRESH", 0.0)

    async def sleep(self, _):
        self.now += 20.0
        await anyio.lowlevel.checkpoint()


FULL = "memory: 95% of 16.0 GiB in use, above [pool] max_memory = 90"
NOTHING_STARTS = f"{FULL}, for 2 minutes: no worker starts until there is less"


class Run:
    """A run on a machine whose memory a test sets, with the messages it prints."""

    def __init__(self):
        self.memory, self.warned, self.said, self.began = 95.0, [], [], []
        self.pacing = Pacing(0, 90, lambda: Memory(self.memory, 16 * 2**30), self.warned.append)

    async def one(self, name):
        await self.pacing.wait_turn("codex", self.said.append)
        self.began.append(name)


async def test_a_long_time_without_memory_is_warned_of_once_and_nothing_starts(monkeypatch):
    clock, run = Clock(monkeypatch), Run()
    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(run.one, name)
        while clock.now < 1000.0 + 3 * 3600:
            await anyio.lowlevel.checkpoint()
        assert (run.began, run.said) == ([], [FULL] * 3)
        assert run.warned == [NOTHING_STARTS]
        run.memory = 50.0
    assert sorted(run.began) == ["a", "b", "c"]


async def test_each_time_without_memory_is_warned_of_by_itself(monkeypatch):
    clock, run = Clock(monkeypatch), Run()
    for _ in range(2):
        run.memory, began = 95.0, clock.now
        async with anyio.create_task_group() as group:
            group.start_soon(run.one, "a")
            while clock.now < began + 240:
                await anyio.lowlevel.checkpoint()
            run.memory = 50.0
    assert run.warned == [NOTHING_STARTS] * 2


async def test_a_wait_for_memory_can_be_cancelled_and_leaves_the_way_free():
    machine = Machine(memory=99)
    pacing = Pacing(INTERVAL, 90, machine)
    with anyio.move_on_after(0.05) as scope:
        await pacing.wait_turn("codex", [].append)
    assert scope.cancelled_caught
    await Pacing.wait_turn(Pacing(INTERVAL, 0, machine), "codex", silent)
    with anyio.move_on_after(0.05) as scope:
        await pacing.wait_turn("command", [].append)
    assert scope.cancelled_caught


async def test_a_thousand_short_commands_look_a_few_times():
    machine = Machine()
    await started(Pacing(INTERVAL, 90, machine), "command", 1000)
    assert machine.looks < 50


def test_this_machine_gives_figures_that_make_sense():
    found = measure()
    assert 0 < found.percent < 100
    assert found.total > 2**20


V2 = {
    "proc/self/cgroup": "0::/pod/inner\n",
    "sys/fs/cgroup/pod/memory.max": "1000\n",
    "sys/fs/cgroup/pod/memory.current": "950\n",
    "sys/fs/cgroup/pod/memory.stat": "anon 600\nactive_file 100\ninactive_file 150\nslab_reclaimable 50\n",
    "sys/fs/cgroup/pod/inner/memory.max": "max\n",
    "sys/fs/cgroup/pod/inner/memory.current": "900\n",
    "sys/fs/cgroup/pod/inner/memory.stat": "",
}
V1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/0123\n0::/\n",
    # In a container the mount shows its own group, under a path that is the host's.
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1900\n",
    "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_active_file 300\ntotal_inactive_file 100\n",
}


def built(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(("files", "found"), [(V2, [(650, 1000)]), (V1, [(1500, 2000)])])
def test_the_limit_of_a_container_counts_without_what_the_kernel_would_give_back(tmp_path, files, found):
    assert list(limited(10_000, built(tmp_path, files))) == found
    assert list(limited(1000, tmp_path)) == []  # the machine has no more than that itself


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": ""},
        {"proc/self/cgroup": "nonsense\n0:\n"},
        V2 | {"sys/fs/cgroup/pod/memory.max": "many\n"},
        V2 | {"sys/fs/cgroup/pod/memory.current": ""},
        V2 | {"sys/fs/cgroup/pod/memory.stat": "active_file lots\n"},
        V2 | {"sys/fs/cgroup/pod/memory.max": "0\n"},
    ],
)
def test_groups_that_cannot_be_read_limit_nothing(tmp_path, files):
    assert list(limited(10_000, built(tmp_path, files))) == []


def test_psutil_is_imported_by_those_who_look_only():
    text = "import sys, orchestrator.schedule.pacing; print('psutil' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == "False\n"
