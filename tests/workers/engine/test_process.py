"""The runtime's side of workers: started, awaited, left behind, adopted; all with real processes."""

# These tests wait for files that other processes write: there is no event, and no loop to hold up.
# ruff: noqa: ASYNC110, ASYNC220, ASYNC240
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from support.launches import launch, lives, wait_gone
from support.runtimes import PATIENCE

from workers.engine.launch import mark_of
from workers.engine.process import is_held, kill_marked, open_fork_server, read_exit, stop, wait_adopted
from workers.errors import WorkerError
from workers.files.run_dir import RunDir

pytestmark = pytest.mark.anyio


def count(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


async def wait_text(path: Path) -> str:
    with anyio.fail_after(PATIENCE):
        while not (path.exists() and path.read_text()):
            await anyio.sleep(0.01)
    return path.read_text()


async def test_forty_workers_fifteen_at_a_time_all_end_recorded(tmp_path, mark):
    limiter = anyio.CapacityLimiter(15)
    found = {}

    async def one(number: int) -> None:
        async with limiter:
            it = launch(tmp_path, "sh", "-c", f"echo {number}; exit {number}", name=str(number), mark=mark)
            found[number] = await fork_server.run(it)

    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert {number: (it.end, it.exit_code) for number, it in found.items()} == {
        n: ("exited", n) for n in range(40)
    }
    assert all(read_exit(tmp_path / f"{n}.exit") == it for n, it in found.items())
    assert all((tmp_path / f"{n}.out").read_text() == f"{n}\n" for n in range(40))


async def test_descriptors_of_the_runtime_do_not_add_up(tmp_path, mark):
    async with open_fork_server(tmp_path / "log") as fork_server:
        await fork_server.run(launch(tmp_path, "true", name="first", mark=mark))
        before = count("/proc/self/fd"), count(f"/proc/{fork_server.pid}/fd")
        for number in range(10):
            await fork_server.run(launch(tmp_path, "true", name=str(number), mark=mark))
        assert (count("/proc/self/fd"), count(f"/proc/{fork_server.pid}/fd")) == before


async def test_a_large_environment_arrives_whole(tmp_path, mark):
    big = {f"BIG_{number}": "x" * 100_000 for number in range(10)}
    async with open_fork_server(tmp_path / "log") as fork_server:
        it = launch(
            tmp_path, "sh", "-c", "echo ${#BIG_9}", env={"PATH": os.environ["PATH"], **big}, mark=mark
        )
        assert (await fork_server.run(it)).exit_code == 0
    assert (tmp_path / "w.out").read_text() == "100000\n"


async def test_no_secret_of_a_worker_is_written_to_disk(tmp_path, mark):
    async with open_fork_server(tmp_path / "log") as fork_server:
        await fork_server.run(
            launch(tmp_path, "true", env={"PATH": os.environ["PATH"], "KEY": "s3cret"}, mark=mark)
        )
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "s3cret" in path.read_text()]


async def test_a_worker_whose_wait_was_cancelled_lives_on_until_it_is_stopped(tmp_path, mark):
    it = launch(tmp_path, "sleep", "60", mark=mark)
    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        group.start_soon(fork_server.run, it)
        pid = json.loads(await wait_text(it.started_record))["pid"]
        group.cancel_scope.cancel()
    assert lives(pid)
    assert is_held(it.started_record)
    found = await stop(it)
    assert (found.end, found.signal) == ("cancelled", signal.SIGTERM)
    assert not lives(pid)


async def test_a_dead_fork_server_is_replaced_and_its_workers_are_not_harmed(tmp_path, mark):
    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        first = launch(
            tmp_path, "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done", name="first", mark=mark
        )
        ends = []

        async def wait_first() -> None:
            ends.append(await fork_server.run(first))

        group.start_soon(wait_first)
        await wait_text(first.started_record)
        former = fork_server.pid
        os.kill(former, signal.SIGKILL)
        await wait_gone(former)
        second = await fork_server.run(launch(tmp_path, "true", name="second", mark=mark))
        assert (second.end, second.exit_code) == ("exited", 0)
        assert fork_server.pid != former
        assert not ends
        (tmp_path / "go").touch()
    assert [(it.end, it.exit_code) for it in ends] == [("exited", 0)]


async def test_a_stopped_fork_server_that_takes_no_launch_is_replaced_and_ended(tmp_path, mark, monkeypatch):
    monkeypatch.setattr("workers.engine.process._DEATH_DEADLINE", 0.1)
    monkeypatch.setattr("workers.engine.process._SEND_DEADLINE", 0.5)
    big = {"PATH": os.environ["PATH"], **{f"BIG_{number}": "x" * 100_000 for number in range(10)}}
    async with open_fork_server(tmp_path / "log") as fork_server:
        former = fork_server.pid
        os.kill(former, signal.SIGSTOP)
        found = await fork_server.run(launch(tmp_path, "true", env=big, mark=mark))
        assert (found.end, found.exit_code, lives(former)) == ("exited", 0, False)
        last = fork_server.pid
        os.kill(last, signal.SIGSTOP)
    assert not lives(last)


async def test_a_fork_server_killed_in_the_middle_of_launches_starts_each_worker_once(tmp_path, mark):
    big = {"PATH": os.environ["PATH"], **{f"BIG_{number}": "x" * 100_000 for number in range(10)}}
    async with open_fork_server(tmp_path / "log") as fork_server:
        former = fork_server.pid
        os.kill(former, signal.SIGSTOP)  # so that its socket is full while the others wait
        async with anyio.create_task_group() as group:
            for number in range(4):
                it = launch(
                    tmp_path, "sh", "-c", f"echo x >> {number}", name=f"w{number}", env=big, mark=mark
                )
                group.start_soon(fork_server.run, it)
            while select.select([], [fork_server._socket], [], 0)[1]:
                await anyio.sleep(0.01)
            os.kill(former, signal.SIGKILL)
    assert [(tmp_path / str(number)).read_text() for number in range(4)] == ["x\n"] * 4


async def test_where_no_shim_can_be_had_the_reason_is_plain(tmp_path):
    async with open_fork_server(tmp_path / "log", python="/bin/false") as fork_server:
        await wait_gone(fork_server.pid)
        with pytest.raises(WorkerError, match=r"no shim can be started: .*log"):
            await fork_server.run(launch(tmp_path, "true"))


async def test_a_killed_shim_means_lost_and_its_worker_is_found_by_its_mark(tmp_path, mark):
    it = launch(tmp_path, "sh", "-c", "setsid sleep 60 & echo $! > kid; sleep 60", mark=mark)
    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as group:
        ends = []

        async def wait() -> None:
            ends.append(await fork_server.run(it))

        group.start_soon(wait)
        kid = int(await wait_text(tmp_path / "kid"))
        who = json.loads(await wait_text(it.started_record))
        os.kill(who["shim_pid"], signal.SIGKILL)
    assert [(end.worker, end.end) for end in ends] == [("w", "lost")]
    assert ends[0].survivors >= 2
    assert not lives(kid)
    assert not lives(who["pid"])
    assert not it.exit_record.exists()


async def test_the_fork_server_has_a_session_of_its_own_and_none_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    async with open_fork_server(tmp_path / "log") as fork_server:
        assert os.getsid(fork_server.pid) == fork_server.pid
        assert b"s3cret" not in Path(f"/proc/{fork_server.pid}/environ").read_bytes()
        pid = fork_server.pid
    assert not lives(pid)


RUNTIME = """
import sys
from pathlib import Path
import anyio
from workers.shim.spec import Launch, Limits
from workers.engine.process import open_fork_server
from workers.pool.slots import Pool, PoolLimits

async def main(folder, mark):
    pool = Pool(folder / "slots", PoolLimits())
    async with open_fork_server(folder / "log") as fork_server, anyio.create_task_group() as group:
        for name in ("one", "two", "three"):
            slot = await pool.acquire("codex", {"run": "r", "worker": name, "at": "now", "mark": mark})
            group.start_soon(fork_server.run, Launch(
                worker=name, argv=("sh", "-c", f"while [ ! -e go ]; do sleep 0.01; done; echo {name}"),
                env={"PATH": "/usr/bin:/bin"}, cwd=folder, stdin=Path("/dev/null"),
                stdout=folder / f"{name}.out", stderr=folder / f"{name}.err",
                started_record=folder / f"{name}.started", exit_record=folder / f"{name}.exit",
                limits=Limits(total=30), mark=mark), slot.fds)
        print(fork_server.pid, flush=True)

anyio.run(main, Path(sys.argv[1]), sys.argv[2])
"""


async def test_workers_of_a_killed_runtime_live_on_keep_their_slots_and_are_adopted(tmp_path, mark):
    from workers.pool.slots import Pool, PoolLimits

    names = ("one", "two", "three")
    with subprocess.Popen(
        [sys.executable, "-c", RUNTIME, tmp_path, mark], stdout=subprocess.PIPE, text=True
    ) as runtime:
        fork_server = int(runtime.stdout.readline())
        workers = [json.loads(await wait_text(tmp_path / f"{name}.started"))["pid"] for name in names]
        runtime.kill()
    await wait_gone(fork_server)
    assert all(lives(pid) for pid in workers)
    pool = Pool(tmp_path / "slots", PoolLimits(total=3, agents={"codex": 3}))
    assert pool.acquire_nowait("codex", {"worker": "new"}) is None
    assert {taken.holder["worker"] for taken in pool.holders() if not taken.dirty} == set(names)
    (tmp_path / "go").touch()
    for name in names:
        found = await wait_adopted(name, tmp_path / f"{name}.exit", tmp_path / f"{name}.started", mark=mark)
        assert (found.worker, found.end, found.exit_code) == (name, "exited", 0)
        assert (tmp_path / f"{name}.out").read_text() == f"{name}\n"
    slot = await pool.acquire("codex", {"worker": "new"}, timeout=5)
    assert slot is not None
    slot.release()


async def test_a_shim_that_is_gone_without_a_record_is_lost_to_its_adopter_too(tmp_path, mark):
    (tmp_path / "w.started").write_text("{}")
    with subprocess.Popen(["sleep", "60"], env={"ORCHESTRATE_MARK": mark}) as left:
        found = await wait_adopted("w", tmp_path / "w.exit", tmp_path / "w.started", mark=mark)
        assert (found.end, found.survivors) == ("lost", 1)
        assert left.wait(5) == -signal.SIGKILL


async def test_a_record_cut_short_is_no_record(tmp_path):
    (tmp_path / "w.exit").write_text('{"worker": "w", "end": "exi')
    assert read_exit(tmp_path / "w.exit") is None


def test_runs_of_two_repositories_in_the_same_second_do_not_kill_each_other(tmp_path):
    marks = [mark_of(RunDir(tmp_path / name, "20260216_142834"), "Command-Worker-1") for name in "ab"]
    mine, other = (subprocess.Popen(["sleep", "60"], env=dict(os.environ, ORCHESTRATE_MARK=m)) for m in marks)
    with mine, other:
        assert kill_marked(marks[0]) == 1
        assert mine.wait(5) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_only_what_carries_the_mark_and_what_is_below_it_dies(mark):
    bystander = subprocess.Popen(["sleep", "60"], env=dict(os.environ, ORCHESTRATE_MARK=mark + "0"))
    marked = subprocess.Popen(
        ["sh", "-c", "env -i sleep 60 & echo; wait"],
        env=dict(os.environ, ORCHESTRATE_MARK=mark),
        stdout=subprocess.PIPE,
    )
    with bystander, marked:
        marked.stdout.readline()
        assert kill_marked(mark) == 2
        assert marked.wait(5) == -signal.SIGKILL
        assert bystander.poll() is None
        bystander.kill()


def test_a_slot_that_a_killed_runtime_left_kills_nothing_that_the_next_one_has_launched(tmp_path):
    run = RunDir(tmp_path, "20260216_142834")
    stale, lives = (mark_of(run, "Command-Worker-1", 1, runtime) for runtime in ("0a", "0b"))
    with subprocess.Popen(["sleep", "60"], env=dict(os.environ, ORCHESTRATE_MARK=lives)) as worker:
        assert kill_marked(stale) == 0
        assert worker.poll() is None
        # Whoever closes the attempt means all that any runtime has launched for it.
        assert kill_marked(mark_of(run, "Command-Worker-1", 1)) == 1
        assert worker.wait(5) == -signal.SIGKILL
