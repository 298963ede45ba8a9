"""A shim holds one worker after another: what the first one leaves is never the next one's."""

# These tests wait for files that other processes write: there is no event, and no loop to hold up.
# ruff: noqa: ASYNC110, ASYNC220, ASYNC240
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from support.launches import launch as launched
from support.launches import lives, wait_gone
from support.paths import ROOT
from support.runtimes import PATIENCE

from workers.engine.process import NEVER_STARTED, kill_at_once, open_fork_server, read_exit, wait_adopted
from workers.fence.policy import Walls
from workers.fence.probe import enclosed, fence_in_force
from workers.shim.spec import Limits

pytestmark = pytest.mark.anyio
BURN = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done"


@pytest.fixture
def launch(tmp_path, mark):
    def made(name, *argv, **changes):
        return launched(tmp_path, *argv, name=name, mark=mark, **changes)

    return made


async def test_a_shim_with_nothing_left_below_it_holds_the_next_worker(tmp_path, launch):
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", "sh", "-c", f"{BURN}; echo one; exit 3"))
        second = await fork_server.run(launch("b", "sh", "-c", "echo two; echo hm >&2"))
        assert first.shim_pid == second.shim_pid != fork_server.pid
    assert (first.worker, first.exit_code, second.worker, second.exit_code) == ("a", 3, "b", 0)
    assert read_exit(tmp_path / "a.exit") == first
    assert read_exit(tmp_path / "b.exit") == second
    assert [(tmp_path / name).read_text() for name in ("a.out", "b.out", "b.err")] == [
        "one\n",
        "two\n",
        "hm\n",
    ]
    assert (tmp_path / "log").read_text() == ""


async def test_what_one_worker_used_is_not_counted_for_the_next(tmp_path, launch):
    big = "x = bytearray(80_000_000); sum(range(3_000_000))"
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", sys.executable, "-c", big))
        second = await fork_server.run(launch("b", "true"))
    assert first.shim_pid == second.shim_pid
    assert first.cpu_seconds > 0.02 > second.cpu_seconds
    assert first.max_rss_kb > 80_000 > second.max_rss_kb


async def test_a_silent_worker_is_idle_however_busy_the_one_before_it_was(tmp_path, launch):
    idle = Limits(total=200, grace=1, idle=0.4)
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", "sh", "-c", BURN))
        second = await fork_server.run(launch("b", "sleep", "600", limits=idle))
    assert first.shim_pid == second.shim_pid
    assert second.end == "idle"


@pytest.mark.parametrize(
    ("argv", "limits", "end"),
    [
        (("sh", "-c", "sleep 60 & exit 0"), Limits(total=200, grace=1), "exited"),
        (("sleep", "60"), Limits(total=0.2, grace=0.2), "timed_out"),
        (("sh", "-c", "yes"), Limits(total=200, grace=0.2, output_cap=1000), "output_cap"),
        (("/no/such/program",), Limits(total=200, grace=1), "not_started"),
    ],
)
async def test_a_shim_that_had_to_act_is_not_used_again(tmp_path, launch, argv, limits, end):
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", *argv, limits=limits))
        second = await fork_server.run(launch("b", "true"))
    assert (first.end, second.end, second.exit_code) == (end, "exited", 0)
    assert first.shim_pid != second.shim_pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_whoever_ends_a_waiting_shim_ends_nobodys_worker(tmp_path, launch, number):
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", "true"))
        os.kill(first.shim_pid, number)
        await wait_gone(first.shim_pid)
        second = await fork_server.run(launch("b", "sh", "-c", "echo here"))
        assert second.shim_pid != first.shim_pid
    assert (second.end, second.exit_code, (tmp_path / "b.out").read_text()) == ("exited", 0, "here\n")


async def test_a_slot_is_free_once_its_worker_has_ended_though_the_shim_lives(tmp_path, launch):
    slot = tmp_path / "slot"
    async with open_fork_server(tmp_path / "log") as fork_server:
        pids = set()
        for number in range(3):
            slot.write_text("held")
            descriptor = os.open(slot, os.O_RDWR)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            pids.add((await fork_server.run(launch(f"w{number}", "true"), [descriptor])).shim_pid)
            os.close(descriptor)
            with slot.open() as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert slot.read_text() == ""
        assert len(pids) == 1


async def test_descriptors_of_a_shim_do_not_add_up_and_no_worker_gets_any(tmp_path, launch):
    listed = set()
    async with open_fork_server(tmp_path / "log") as fork_server:
        for number in range(12):
            it = launch(f"w{number}", "sh", "-c", "echo /proc/$$/fd/*")
            pid = (await fork_server.run(it)).shim_pid
            of_worker = (tmp_path / f"w{number}.out").read_text().split()
            listed.add((pid, len([*Path(f"/proc/{pid}/fd").iterdir()]), len(of_worker)))
    # One shim; and a worker has the three that it was given, and the folder that it reads.
    assert len(listed) == 1
    assert listed.pop()[2] == 4


async def test_a_launch_too_large_for_a_message_goes_to_a_fresh_shim(tmp_path, launch):
    env = {"PATH": os.environ["PATH"], "BIG": "x" * 100_000}
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", "true"))
        second = await fork_server.run(launch("b", "sh", "-c", "echo ${#BIG}", env=env))
        third = await fork_server.run(launch("c", "true"))
    assert (tmp_path / "b.out").read_text() == "100000\n"
    assert second.shim_pid != first.shim_pid
    assert third.shim_pid in (first.shim_pid, second.shim_pid)


async def test_waiting_shims_are_gone_once_the_fork_server_is_closed(tmp_path, launch):
    pids: set[int] = set()

    async def one(number: int) -> None:
        pids.add((await fork_server.run(launch(f"w{number}", "sleep", "0.2"))).shim_pid)

    async with open_fork_server(tmp_path / "log") as fork_server:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(one, number)
        assert len(pids) == 5
        assert all(map(lives, pids))
    for pid in pids:
        await wait_gone(pid)


RUNTIME = """
import sys, os, json, anyio
from pathlib import Path
from workers.shim.spec import Launch, Limits
from workers.engine.process import open_fork_server
folder, mark = Path(sys.argv[1]), sys.argv[2]

async def main():
    async with open_fork_server(folder / "log") as fork_server:
        for name in ("a", "b"):
            found = await fork_server.run(Launch(name, ("true",), {"PATH": os.environ["PATH"]}, folder,
                Path("/dev/null"), folder / f"{name}.out", folder / f"{name}.err", folder / f"{name}.started",
                folder / f"{name}.exit", limits=Limits(total=200, grace=1), mark=mark))
        print(json.dumps([fork_server.pid, found.shim_pid]), flush=True)
        await anyio.sleep(60)

anyio.run(main)
"""


async def test_waiting_shims_end_with_a_runtime_that_is_killed(tmp_path, mark):
    root = ROOT
    command = [sys.executable, "-c", RUNTIME, str(tmp_path), mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as runtime:
        assert runtime.stdout is not None
        pids = json.loads(runtime.stdout.readline())
        assert all(map(lives, pids))
        runtime.kill()
        runtime.wait()
    for pid in pids:
        await wait_gone(pid)


async def test_kill_at_once_signals_nobody_but_the_shim_that_has_the_record_open(tmp_path, launch):
    record = tmp_path / "forged"
    with subprocess.Popen(["sleep", "60"]) as innocent, record.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for pid in (innocent.pid, -1, 0, 1, True, str(innocent.pid), None):
            record.write_text(json.dumps({"shim_pid": pid}))
            kill_at_once(record)
        for text in ("[]", "{", "[" * 100_000):
            record.write_text(text)
            kill_at_once(record)
        with pytest.raises(subprocess.TimeoutExpired):
            innocent.wait(0.2)
        innocent.kill()
    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        it = launch("w", "sh", "-c", "trap '' TERM; sleep 60 & wait; wait", limits=Limits(total=60, grace=50))
        ends = []

        async def run() -> None:
            ends.append(await fork_server.run(it))

        group.start_soon(run)
        with anyio.fail_after(PATIENCE):
            while not (it.started_record.exists() and it.started_record.read_text()):
                await anyio.sleep(0.01)
            for _ in range(2):  # the first asks the worker to end, the second leaves it no grace
                kill_at_once(it.started_record)
                await anyio.sleep(0.3)
            while not ends:
                await anyio.sleep(0.01)
    assert (ends[0].end, ends[0].cancelled_by) == ("cancelled", "a signal")


async def test_a_launch_that_a_held_up_shim_had_not_read_when_its_runtime_died_starts_nobody(
    tmp_path, launch
):
    it, slot = launch("b", "sh", "-c", "echo ran"), tmp_path / "slot"
    slot.write_text("held")
    async with open_fork_server(tmp_path / "log") as fork_server:
        first = await fork_server.run(launch("a", "true"))
        os.kill(first.shim_pid, signal.SIGSTOP)
        try:
            descriptor = os.open(slot, os.O_RDWR)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with anyio.move_on_after(0.2):  # as a death would: it hangs up with the launch unread
                await fork_server.run(it, [descriptor])
            os.close(descriptor)
            lost = await wait_adopted("b", it.exit_record, it.started_record)
            assert (lost.end, lost.error) == ("lost", NEVER_STARTED)
        finally:
            os.kill(first.shim_pid, signal.SIGCONT)
        await wait_gone(first.shim_pid)
    assert not it.stdout.exists()
    assert not it.exit_record.exists()
    assert slot.read_text() == "", "the slot that came with it names nobody"


@pytest.mark.parametrize("level", ["auto", "landlock"])
async def test_what_held_a_worker_holds_neither_its_shim_nor_the_next_worker(tmp_path, launch, level):
    fence = fence_in_force(level)
    assert fence.level == {"auto": "namespaces"}.get(level, level), fence.reason
    found = []
    async with open_fork_server(tmp_path / "log") as fork_server:
        for name in ("a", "b"):
            inside = tmp_path / f"{name}.tree"
            inside.mkdir()
            script = "echo x > here; echo x > ../a.tree/there; echo x > ../b.tree/there"
            it = launch(name, "sh", "-c", f"{script}; exit 7", cwd=inside)
            walls = Walls(writable=(inside,), shown=(tmp_path,))
            ended = await fork_server.run(enclosed(it, fence, walls))
            found.append(
                (ended.shim_pid, ended.exit_code, len([*Path(f"/proc/{ended.shim_pid}/fd").iterdir()]))
            )
    assert len(set(found)) == 1
    assert found[0][1] == 7
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*.tree/*"))
    assert written == ["a.tree/here", "a.tree/there", "b.tree/here", "b.tree/there"]
    assert (tmp_path / "a.err").read_text().count("b.tree/there") == 1
    assert (tmp_path / "b.err").read_text().count("a.tree/there") == 1
