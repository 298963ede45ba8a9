"""Users who run workers, systems that refuse parts of a fence, and repositories with and without one."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from support.paths import ROOT
from support.repository import Called, Lab

from workers.engine.process import open_fork_server
from workers.fence.policy import Walls
from workers.fence.probe import enclosed, fence_in_force
from workers.shim.spec import Launch, Limits

NOBODY = 65534
_SITES = [path for path in sys.path if path.endswith("site-packages")]

# Docker's default does much the same: it lets `clone` and `unshare` make no user namespace (1), and here
# the three calls of Landlock are unknown, too (2). Numbers are the kernel's own, by machine.
_CALLS = {"x86_64": (56, 272), "aarch64": (220, 97)}
_REFUSE = """
import ctypes, os, struct, sys
what, clone, unshare, *argv = sys.argv[1:]
def step(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)
LOAD, EQUAL, AT_LEAST, SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
REFUSED, UNKNOWN, ALLOWED = 0x50001, 0x50026, 0x7FFF0000
steps = [step(LOAD, 0, 0, 0)]
if "landlock" in what:
    steps += [step(AT_LEAST, 0, 2, 444), step(AT_LEAST, 1, 0, 447), step(RETURN, 0, 0, UNKNOWN)]
if "namespaces" in what:
    steps += [step(EQUAL, 1, 0, int(clone)), step(EQUAL, 0, 3, int(unshare)),
              step(LOAD, 0, 0, 16), step(SET, 0, 1, 0x10000000), step(RETURN, 0, 0, REFUSED)]
steps.append(step(RETURN, 0, 0, ALLOWED))
text = ctypes.create_string_buffer(b"".join(steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execvp(argv[0], argv)
"""


class Somebody(NamedTuple):
    """A user who runs orchestrate: with an identity, and a Python that the user can read."""

    name: str
    uid: int | None
    """None: the user who runs the tests."""
    python: str

    def run(self, argv, **options):
        """Run a program as this user."""
        who = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.run(argv, **who, capture_output=True, text=True, check=False, **options)

    def owns(self, folder):
        """Make this user the owner of everything in a folder."""
        for path in (folder, *folder.rglob("*")) if self.uid is not None else ():
            os.chown(path, self.uid, self.uid, follow_symlinks=False)


def people():
    """List the users as which a fence is tried: root where we are root, an ordinary user always."""
    if os.geteuid():
        return [Somebody("ordinary", None, sys.executable)]
    return [Somebody("root", None, sys.executable), Somebody("ordinary", NOBODY, "/usr/bin/python3")]


def python_path():
    """Return the arguments with which a Python without our packages finds them."""
    return os.pathsep.join([str(ROOT), *_SITES])


def unfit(somebody):
    """Return why a user cannot run the test; None where the user can."""
    code = "import sys, orchestrator.run; sys.exit(0)"
    done = somebody.run([somebody.python, "-c", code], cwd="/", env={"PYTHONPATH": python_path()})
    return None if done.returncode == 0 else f"{somebody.python} cannot run it: {done.stderr[-200:]}"


def place_of(somebody, folder):
    """Make a folder of the user's; pytest's own can be entered only by the user who runs the tests."""
    made = Path(tempfile.mkdtemp(prefix="orchestrate-test-", dir=folder))
    somebody.owns(made)
    return made


def refusing(what, *argv, python=sys.executable):
    """Return the command line of a program on a system that refuses `namespaces`, `landlock`, or both."""
    calls = [str(number) for number in _CALLS[platform.machine()]]
    return [python, "-I", "-S", "-c", _REFUSE, what, *calls, *argv]


PLACES = {"root": "/tmp", "ordinary": "/var/tmp"}
"""A fence hides what lies below /tmp, and shows the project again; elsewhere nothing is hidden around it."""


class Walled(Lab):
    """A repository of a user's, and the command line as this user calls it."""

    def __init__(self, folder, somebody):
        super().__init__(folder / "project", folder / "home")
        self.folder, self.somebody = folder, somebody
        self.refused = ""
        """What the system refuses: `namespaces`, `landlock`, both with a comma."""

    def call(self, *arguments, cwd=None, env=None):
        """Call `orchestrate` as its owner."""
        argv = [self.somebody.python, "-P", "-m", "orchestrator", *arguments]
        if self.refused:
            argv = refusing(self.refused, *argv, python=self.somebody.python)
        env = self.env(PYTHONPATH=python_path(), TMPDIR=str(self.folder / "temporary"), **(env or {}))
        # Where programs are is seen behind a fence, also below /tmp; workers of ours call the command line.
        env["PATH"] = os.pathsep.join([env["PATH"], *python_path().split(os.pathsep)])
        done = self.somebody.run(argv, cwd=cwd or self.root, env=env, stdin=subprocess.DEVNULL)
        return Called(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments, check=True):
        """Call git as its owner."""
        done = self.somebody.run(["git", *arguments], cwd=self.root, env=self.env())
        assert done.returncode == 0 or not check, done
        return done.stdout

    def write(self, path, text):
        """Write a file of the owner's."""
        super().write(path, text)
        self.somebody.owns(self.folder)

    def settings(self, text):
        """Commit settings."""
        self.commit({"orchestrate.toml": text})

    def run(self, code=0):
        """Run the phase; return its workers by ticket, each with its output under `printed`."""
        called = self.call("run", "phase-1", "--json")
        assert called.code == code, called
        found = {}
        for one in called.document["workers"]:
            path = self.root / (one["output"] or "none")
            one["printed"] = path.with_suffix(".stdout").read_text() if one["output"] else ""
            found[one["ticket"]] = one
        return found


@contextlib.contextmanager
def walled_for(pattern, somebody):
    """Yield a repository of a user's for the block."""
    if why := unfit(somebody):
        pytest.skip(why)
    folder = place_of(somebody, PLACES[somebody.name])
    try:
        shutil.copytree(pattern, folder, symlinks=True, dirs_exist_ok=True)
        (folder / "temporary").mkdir()
        somebody.owns(folder)
        yield Walled(folder, somebody)
    finally:
        shutil.rmtree(folder)


def attempt(name, command):
    """Return a line of shell that prints `name` if a command succeeds, and nothing if it fails."""
    return f"if ( {command} ) >/dev/null 2>&1; then echo {json.dumps(name)}; fi"


def journal(lab):
    """Read the newest run's journal."""
    path = max(lab.root.glob(".taskers/runs/2*/events.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def listening():
    """Open a server on loopback that never answers; a context manager."""
    import socket

    return socket.create_server(("127.0.0.1", 0))


LEVELS = ("namespaces", "landlock")
WANTED = {"namespaces": "auto", "landlock": "landlock"}
HOLDS = pytest.mark.parametrize("level", LEVELS)


def fence_of(level):
    """Return a fence of that level; skip the test where this machine has none."""
    found = fence_in_force(WANTED[level])
    assert found.level == level, found.reason
    return found


class Den:
    """A folder with an inside and an outside, and a worker in it."""

    def __init__(self, folder):
        self.folder = folder
        self.inside, self.outside, self.files = (folder / name for name in ("inside", "outside", "files"))
        for made in (self.inside, self.outside, self.files):
            made.mkdir()

    def launch(self, fence, *argv, hidden=(), locked=(), network=True, **changes):
        """Return the launch of a worker behind a fence."""
        plain = Launch(
            worker="Command-Worker-1",
            argv=argv,
            env={"PATH": os.environ["PATH"]},
            cwd=self.inside,
            stdin=Path("/dev/null"),
            stdout=self.files / "out",
            stderr=self.files / "err",
            started_record=self.files / "started.json",
            exit_record=self.files / "exit.json",
            cancel_paths=(self.inside / "cancel",),
            limits=Limits(total=200, grace=5, output_cap=1_000_000),
        )._replace(**changes)
        walls = Walls((self.inside,), locked, (self.folder, Path(sys.prefix)), hidden, network=network)
        return enclosed(plain, fence, walls)

    async def run(self, *arguments, **options):
        """Run a worker to its end; return its exit record with its output."""
        async with open_fork_server(self.folder / "log") as fork_server:
            found = await fork_server.run(self.launch(*arguments, **options))
        assert (self.folder / "log").read_text() == ""
        return found, (self.files / "out").read_text()


EVIL = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'
JOURNAL = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/events.jsonl"'
