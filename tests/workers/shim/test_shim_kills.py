"""Shims and their fork server are killed at random while they hold one worker after another."""

# What is killed is found in /proc: there is no event, and no loop to hold up.
import contextlib
import os
import random
import signal
import uuid
from collections import Counter
from pathlib import Path

import anyio
import pytest
from support.launches import launch as launched

from workers.engine.process import Exit, ForkServer, open_fork_server, read_exit
from workers.errors import WorkerError
from workers.shim.spec import Launch

pytestmark = pytest.mark.anyio
COUNT, AT_ONCE, SEED = 300, 15, 20261128
STRIKES = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def launch(folder: Path, number: int, mark: str, chance: random.Random) -> Launch:
    script = f"sleep 0.0{chance.randrange(9)}; echo {number}; exit {number % 7}"
    changes = {"mark": f"{mark}/{number}"}
    return launched(folder, "sh", "-c", script, name=str(number), **changes)


def shims_of(fork_server: ForkServer) -> list[int]:
    """List the children of the warm process that live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == fork_server.pid and state not in "ZX":
            found.append(int(folder.name))
    return found


def marked(mark: str) -> list[int]:
    """List the processes in whose environment a mark stands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


async def test_no_worker_is_taken_for_another_whoever_is_killed(tmp_path):
    chance, mark, ends = random.Random(SEED), f"test-{uuid.uuid4().hex}", list[tuple[Launch, Exit]]()
    limiter, killed, is_over = anyio.CapacityLimiter(AT_ONCE), Counter[str](), anyio.Event()
    refused: list[Launch] = []

    async def one(it: Launch) -> None:
        async with limiter:
            with anyio.fail_after(60):
                try:
                    ends.append((it, await fork_server.run(it)))
                except WorkerError:
                    refused.append(it)  # struck twice before its shim had done anything

    async def strike() -> None:
        while not is_over.is_set():
            if living := shims_of(fork_server):
                number = chance.choice(STRIKES)
                try:
                    os.kill(chance.choice(living), number)
                except ProcessLookupError:
                    continue
                killed[number.name] += 1
            if chance.random() < 0.03 and fork_server.pid:
                os.kill(fork_server.pid, signal.SIGKILL)
                killed["fork_server"] += 1
            await anyio.sleep(0.02)

    async with open_fork_server(tmp_path / "log") as fork_server, anyio.create_task_group() as striking:
        striking.start_soon(strike)
        async with anyio.create_task_group() as group:
            for at in range(COUNT):
                group.start_soon(one, launch(tmp_path, at, mark, chance))
        is_over.set()
    assert marked(mark) == []
    assert [it for it in refused if it.started_record.exists()] == []
    assert len(ends) + len(refused) == COUNT
    assert len(refused) < COUNT / 20
    assert sum(killed.values()) > COUNT / 50, killed
    told = Counter(ended.end for _, ended in ends)
    assert set(told) <= {"exited", "lost", "cancelled"}, told
    assert told["exited"] > COUNT / 2, (told, killed)
    for it, ended in ends:
        holds(it, ended)


def holds(it: Launch, ended: Exit) -> None:
    """Hold that how a worker ended is its own end, its own output and its own record."""
    assert ended.worker == it.worker
    if ended.end != "lost":
        assert read_exit(it.exit_record) == ended
    if ended.end == "exited" and ended.signal is None:
        number = int(it.worker)
        assert (ended.exit_code, it.stdout.read_text()) == (number % 7, f"{number}\n")
