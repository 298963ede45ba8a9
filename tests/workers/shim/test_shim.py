"""What a shim does to the worker below it, seen with real processes."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from workers.engine.process import Exit, open_fork_server
from workers.shim.spec import Launch, Limits

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the subreaper is Linux's own"),
]
DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
def note():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
def sleeper(forks):
    for _ in range(forks):
        os.setsid()
        if os.fork():
            os._exit(0)
    note()
    if forks == 2:
        os.execve(sys.executable, ["python", "-c", "import signal, time;"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w'); time.sleep(60)"], {})
    time.sleep(60)
for forks in (0, 1, 2):
    if os.fork() == 0:
        sleeper(forks)
note()
while not os.path.exists("ready") or open("pids").read().count("\\n") < 4:
    time.sleep(0.01)
print("ready", flush=True)
"""


def launch(folder: Path, *argv: str, **changes) -> Launch:
    plain = Launch(
        worker="Command-Worker-1",
        argv=argv,
        env={"PATH": os.environ["PATH"]},
        cwd=folder,
        stdin=Path("/dev/null"),
        stdout=folder / "out",
        stderr=folder / "err",
        started_record=folder / "started.json",
        exit_record=folder / "exit.json",
        cancel_paths=(folder / "cancel",),
        limits=Limits(total=200, grace=0.2, output_cap=1_000_000),
    )
    return plain._replace(**changes)


def python(folder: Path, text: str, **changes) -> Launch:
    return launch(folder, sys.executable, "-S", "-c", text, **changes)


async def run(folder: Path, it: Launch) -> Exit:
    async with open_fork_server(folder / "log") as fork_server:
        found = await fork_server.run(it)
    assert (folder / "log").read_text() == ""
    return found


def lives(pid: int) -> bool:
    """Look at the state: a zombie answers signal 0."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def noted(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


async def test_a_worker_sees_exactly_the_world_of_its_launch(tmp_path):
    (tmp_path / "in").write_text("the ticket")
    text = (
        "import os, sys, signal; print(dict(os.environ), os.getcwd(), sys.stdin.read());"
        "print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid());"
        "print([n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN])"
        ";print('oops', file=sys.stderr)"
    )
    env = {"PATH": "/nowhere", "ODD": "a\udcff\n'\""}
    found = await run(tmp_path, python(tmp_path, text, env=env, stdin=tmp_path / "in"))
    world, descriptors, ignored = (tmp_path / "out").read_text(errors="surrogateescape").splitlines()
    assert (found.end, found.exit_code, found.signal, found.survivors) == ("exited", 0, None, 0)
    assert world.endswith(f"{tmp_path} the ticket")
    assert "'ODD': 'a\\udcff\\n\\'\"'" in world
    assert "ORCHESTRATE" not in world
    assert descriptors == "['0', '1', '2', '3'] True"  # 3 is the folder being listed
    assert ignored in ("[<Signals.SIGPIPE: 13>, <Signals.SIGXFSZ: 25>]", "[]")  # Python's own doing
    assert (tmp_path / "err").read_text() == "oops\n"
    assert found.stderr_bytes == 5


async def test_all_that_a_worker_leaves_behind_is_dead_when_it_ends(tmp_path):
    found = await run(tmp_path, python(tmp_path, DAEMON))
    assert (found.end, found.exit_code, found.survivors) == ("exited", 0, 3)
    assert len(noted(tmp_path)) == 4
    assert not any(lives(pid) for pid in noted(tmp_path))
    assert (tmp_path / "out").read_text() == "ready\n"
    assert found.seconds < 60


async def test_a_worker_that_ignores_term_is_killed_after_its_grace_with_its_whole_tree(tmp_path):
    text = DAEMON + "open('cancel', 'w'); time.sleep(60)"
    found = await run(tmp_path, python(tmp_path, text))
    assert (found.end, found.exit_code, found.signal, found.survivors) == (
        "cancelled",
        None,
        signal.SIGKILL,
        3,
    )
    assert not any(lives(pid) for pid in noted(tmp_path))
    assert 0.2 <= found.seconds < 60


async def test_a_worker_with_a_child_on_its_output_is_over_when_its_time_is(tmp_path):
    it = launch(tmp_path, "sh", "-c", "sleep 60 & sleep 60", limits=Limits(total=0.3, grace=5))
    found = await run(tmp_path, it)
    assert (found.end, found.exit_code, found.signal, found.survivors) == (
        "timed_out",
        None,
        signal.SIGTERM,
        2,
    )
    assert 0.3 <= found.seconds < 60


async def test_a_fork_bomb_cannot_outrun_the_kill(tmp_path):
    text = (
        "import os, time\n"
        "end = time.monotonic() + 5\n"
        "for _ in range(15):\n"
        "    if os.fork() == 0:\n"
        "        while time.monotonic() < end:\n"
        "            time.sleep(0.01)\n"
        "            if os.fork(): os._exit(0)\n"
        "time.sleep(0.3)\n"
    )
    found = await run(tmp_path, python(tmp_path, text))
    assert (found.end, found.exit_code) == ("exited", 0)
    assert found.survivors >= 15
    assert found.seconds < 60


async def test_a_soft_stop_lets_a_worker_say_its_last_words(tmp_path):
    text = (
        "import signal, sys, time\n"
        "def bye(*_):\n    print('bye'); sys.exit(7)\n"
        "signal.signal(signal.SIGINT, bye)\n"
        "open('cancel', 'w')\n"
        "time.sleep(60)\n"
    )
    it = python(tmp_path, text, soft_signal=signal.SIGINT, limits=Limits(total=200, grace=10))
    found = await run(tmp_path, it)
    assert (found.end, found.exit_code, found.signal) == ("cancelled", 7, None)
    assert found.cancelled_by == str(tmp_path / "cancel")
    assert (tmp_path / "out").read_text() == "bye\n"


async def test_a_soft_stop_goes_past_the_wrappers(tmp_path):
    inner = (
        "import signal, sys, time\n"
        "signal.signal(2, lambda *_: sys.exit(open('bye', 'w').close()))\n"
        "open('cancel', 'w')\n"
        "time.sleep(60)\n"
    )
    outer = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {inner!r}]); sys.exit(9)"
    it = python(tmp_path, outer, soft_signal=signal.SIGINT, soft_depth=1, limits=Limits(total=200, grace=10))
    found = await run(tmp_path, it)
    assert (found.end, found.exit_code) == ("cancelled", 9)
    assert (tmp_path / "bye").exists()


async def test_a_worker_cancelled_before_its_start_never_starts(tmp_path):
    (tmp_path / "cancel").touch()
    found = await run(tmp_path, launch(tmp_path, "touch", "ran"))
    assert (found.end, found.pid) == ("cancelled", None)
    assert not (tmp_path / "ran").exists()


async def test_a_flood_is_cut_at_its_cap_with_a_visible_mark(tmp_path):
    found = await run(tmp_path, launch(tmp_path, "yes"))
    assert (found.end, found.cut, found.stdout_bytes) == ("output_cap", ("stdout",), 1_000_000)
    assert (
        tmp_path / "out"
    ).read_bytes() == b"y\n" * 500_000 + b"\n[orchestrate: output cut here at 1000000 bytes]\n"
    assert found.seconds < 60


@pytest.mark.parametrize("more", [0, 1])
async def test_the_cap_itself_may_be_used_and_not_a_byte_more(tmp_path, more):
    it = launch(tmp_path, "head", "-c", str(1_000_000 + more), "/dev/zero")
    found = await run(tmp_path, it)
    assert found.end == ("output_cap" if more else "exited")
    assert found.stdout_bytes == 1_000_000
    assert (tmp_path / "out").read_bytes()[:1_000_000] == bytes(1_000_000)


async def test_both_streams_full_at_once_are_kept_to_the_byte(tmp_path):
    text = "import sys; sys.stderr.write('e' * 10**6); sys.stdout.write('o' * 10**6 + '\\nR\\n')"
    found = await run(tmp_path, python(tmp_path, text, limits=Limits(output_cap=1_000_003)))
    assert (found.end, found.cut) == ("exited", ())
    assert (tmp_path / "err").read_bytes() == b"e" * 10**6
    assert (tmp_path / "out").read_bytes() == b"o" * 10**6 + b"\nR\n"


async def test_a_worker_may_end_before_it_has_read_its_ticket(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 1_000_000)
    it = launch(tmp_path, "sh", "-c", "echo bad option >&2; exit 2", stdin=tmp_path / "in")
    found = await run(tmp_path, it)
    assert (found.end, found.exit_code) == ("exited", 2)
    assert (tmp_path / "err").read_text() == "bad option\n"


async def test_a_kill_that_was_not_ours_is_told_apart(tmp_path):
    found = await run(tmp_path, launch(tmp_path, "sh", "-c", "printf '{\"type\"'; kill -9 $$"))
    assert (found.end, found.exit_code, found.signal) == ("exited", None, 9)
    assert (tmp_path / "out").read_text() == '{"type"'


async def test_a_silent_and_sleeping_worker_is_idle_and_a_busy_one_is_not(tmp_path):
    busy = "import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass\ntime.sleep(60)"
    began = time.monotonic()
    found = await run(tmp_path, python(tmp_path, busy, limits=Limits(total=200, grace=0.2, idle=0.6)))
    assert found.end == "idle"
    assert time.monotonic() - began >= 1.8
    assert found.seconds < 60


async def test_a_worker_that_wakes_up_only_to_wait_on_is_idle(tmp_path):
    """Like the idle loop of a CLI: a hundredth of its time, or two."""
    loop = (
        "import time\nwhile True:\n    end = time.process_time() + 0.018\n"
        "    while time.process_time() < end: pass\n    time.sleep(1)"
    )
    found = await run(tmp_path, python(tmp_path, loop, limits=Limits(total=200, grace=0.2, idle=4)))
    assert found.end == "idle"


async def test_an_open_tool_call_is_not_idleness(tmp_path):
    (tmp_path / "busy").touch()
    it = launch(tmp_path, "sh", "-c", "sleep 1; rm busy; sleep 60", busy_path=tmp_path / "busy")
    found = await run(tmp_path, it._replace(limits=Limits(total=200, grace=0.2, idle=0.4)))
    assert found.end == "idle"
    assert 1.3 <= found.seconds < 60


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"argv": ("no-such-program-at-all",)}, "no such program: no-such-program-at-all"),
        ({"argv": ("/nowhere/at/all",)}, "no such program: /nowhere/at/all"),
        ({"argv": ("./script",)}, "cannot start ./script: its interpreter is missing"),
        ({"argv": ("./plain",)}, "cannot start ./plain: Permission denied"),
        ({"cwd": Path("/nowhere")}, "cannot enter /nowhere: No such file or directory"),
        ({"stdin": Path("/nowhere/in")}, "cannot read /nowhere/in: No such file or directory"),
        ({"stdout": Path("/nowhere/out")}, "cannot create /nowhere/out: No such file or directory"),
    ],
)
async def test_what_cannot_start_says_why_in_plain_words(tmp_path, changes, reason):
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "plain").write_text("")
    found = await run(tmp_path, launch(tmp_path, "true")._replace(**changes))
    assert (found.end, found.error, found.exit_code, found.pid) == ("not_started", reason, None, None)


async def test_a_run_folder_that_is_not_there_is_a_reason_and_not_a_lost_worker(tmp_path):
    it = launch(tmp_path, "true", started_record=tmp_path / "no" / "s", exit_record=tmp_path / "no" / "x")
    found = await run(tmp_path, it)
    assert (found.end, found.error) == (
        "not_started",
        f"cannot create {tmp_path}/no/s: No such file or directory",
    )


async def test_no_file_of_another_attempt_is_ever_replaced(tmp_path):
    (tmp_path / "out").write_text("paid for")
    found = await run(tmp_path, launch(tmp_path, "true"))
    assert (found.end, found.error) == ("not_started", f"cannot create {tmp_path}/out: File exists")
    record = (tmp_path / "exit.json").read_text()
    again = await run(tmp_path, launch(tmp_path, "true", stdout=tmp_path / "out2"))
    assert again.end == "not_started"
    assert (tmp_path / "exit.json").read_text() == record
    assert (tmp_path / "out").read_text() == "paid for"
    assert not list(tmp_path.glob("*.new"))


async def test_a_terminated_shim_takes_its_worker_along_and_says_so(tmp_path):
    found = await run(tmp_path, launch(tmp_path, "sh", "-c", "kill -TERM $PPID; sleep 60"))
    assert (found.end, found.signal, found.cancelled_by) == ("cancelled", signal.SIGTERM, "a signal")
