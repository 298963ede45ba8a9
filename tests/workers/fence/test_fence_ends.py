"""The end of a worker inside a fence: recorded as without one, also when bubblewrap is killed."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from support.fences import HOLDS, fence_of
from support.runtimes import PATIENCE

from workers.engine.process import open_fork_server
from workers.shim.spec import Limits

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="both layers are Linux's own"),
]


@HOLDS
@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 7", 7, None), ("exit 137", 137, None), ("kill -9 $$", None, 9), ("kill -TERM $$", None, 15)],
)
async def test_a_death_by_signal_is_told_from_an_exit_code(den, level, script, code, number):
    found, _ = await den.run(fence_of(level), "sh", "-c", script)
    assert (found.end, found.exit_code, found.signal) == ("exited", code, number)


@HOLDS
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("no-such-program-at-all", "no such program: no-such-program-at-all"),
        ("./script", "cannot start ./script: its interpreter is missing"),
        ("./plain", "cannot start ./plain: Permission denied"),
    ],
)
async def test_what_cannot_start_inside_says_why_in_the_same_words(den, level, program, reason, monkeypatch):
    (den.inside / "script").write_text("#!/no/such/interpreter\n")
    (den.inside / "script").chmod(0o755)
    (den.inside / "plain").write_text("")
    monkeypatch.chdir(den.inside)
    found, _ = await den.run(fence_of(level), program)
    assert (found.end, found.error, found.exit_code, found.pid) == ("not_started", reason, None, None)


async def test_a_fence_that_cannot_be_put_up_is_no_exit_of_a_worker(den):
    it = den.launch(fence_of("namespaces"), "true")
    broken = tuple("/nowhere/at/all" if part == str(den.inside) else part for part in it.prefix)
    async with open_fork_server(den.folder / "log") as fork_server:
        found = await fork_server.run(it._replace(prefix=broken))
    assert (found.end, found.exit_code, found.pid) == ("not_started", None, None)
    assert found.error.startswith("the fence could not be set up: Can't find source path /nowhere/at/all")


def pids():
    """List the processes there are."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def below(pid):
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def killed_from_outside(den, it, sign, victim, number=signal.SIGKILL):
    """Run a worker; kill bubblewrap or the keeper when a file is there; return how it ended."""
    found = []

    async def run():
        async with open_fork_server(den.folder / "log") as fork_server:
            found.append(await fork_server.run(it))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not sign.exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.01)
            bwrap = json.loads(it.started_record.read_text())["pid"]
            (keeper,) = below(bwrap)
            os.kill(bwrap if victim == "bubblewrap" else keeper, number)
    assert keeper not in pids()
    return found[0]


VICTIMS = pytest.mark.parametrize(
    ("victim", "number"),
    [("bubblewrap", signal.SIGKILL), ("bubblewrap", signal.SIGTERM), ("keeper", signal.SIGKILL)],
)


@VICTIMS
async def test_a_kill_while_the_fence_goes_up_is_told_from_a_fence_that_cannot_be_put_up(den, victim, number):
    it = den.launch(fence_of("namespaces"), "true")
    stuck = "import time; open('going-up', 'w'); time.sleep(60)"
    prefix = tuple(stuck if "workers.shim.init" in part else part for part in it.prefix)
    found = await killed_from_outside(
        den, it._replace(prefix=prefix), den.inside / "going-up", victim, number
    )
    assert (found.end, found.exit_code, found.signal, found.pid) == ("not_started", None, number, None)
    assert found.error == f"killed by signal {number} ({number.name}) while its fence was set up"


@VICTIMS
async def test_a_kill_of_what_stands_around_a_worker_is_a_death_by_signal(den, victim, number):
    # Not before the keeper has said that it started, and waits: that is the first process in there.
    waits = "until grep -q '^State:.S' /proc/1/status; do :; done"
    it = den.launch(fence_of("namespaces"), "sh", "-c", f"{waits}; : > running; sleep 60")
    found = await killed_from_outside(den, it, den.inside / "running", victim, number)
    assert (found.end, found.exit_code, found.signal) == ("exited", None, number)


async def test_what_ends_by_itself_before_the_worker_starts_was_not_killed(den):
    it = den.launch(fence_of("namespaces"), "true")
    prefix = tuple("raise SystemExit(3)" if "workers.shim.init" in part else part for part in it.prefix)
    async with open_fork_server(den.folder / "log") as fork_server:
        found = await fork_server.run(it._replace(prefix=prefix))
    assert (found.end, found.signal, found.error) == (
        "not_started", None, "the fence could not be set up",
    )  # fmt: skip


@HOLDS
async def test_what_a_worker_leaves_behind_is_counted_and_dead(den, level):
    found, _ = await den.run(fence_of(level), "sh", "-c", "setsid sleep 60 & sleep 60 & true")
    assert (found.end, found.exit_code, found.survivors) == ("exited", 0, 2)
    assert found.seconds < 60


@HOLDS
async def test_a_soft_stop_reaches_the_worker_itself_and_lets_it_say_its_last_words(den, level):
    text = (
        "import signal, subprocess, sys, time\n"
        "subprocess.Popen(['sh', '-c', '(setsid sleep 60 &) '])\n"
        "def bye(*_):\n    print('bye'); sys.exit(7)\n"
        "signal.signal(signal.SIGINT, bye)\n"
        "open('cancel', 'w')\n"
        "time.sleep(60)\n"
    )
    argv = (sys.executable, "-S", "-c", text)
    found, printed = await den.run(fence_of(level), *argv, soft_signal=signal.SIGINT)
    assert (found.end, found.exit_code, found.signal, printed) == ("cancelled", 7, None, "bye\n")
    assert found.survivors == 1
    assert found.seconds < 60


@HOLDS
async def test_a_deaf_worker_is_killed_after_its_grace_and_is_not_its_own_survivor(den, level):
    script = "trap '' TERM; sleep 60 & : > cancel; while :; do wait; done"
    limits = Limits(total=200, grace=0.2)
    found, _ = await den.run(fence_of(level), "sh", "-c", script, limits=limits)
    assert (found.end, found.exit_code, found.signal) == ("cancelled", None, signal.SIGKILL)
    assert found.survivors == 1  # the sleep, and not the worker itself
