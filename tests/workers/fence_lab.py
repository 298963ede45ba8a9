"""Who tries a fence, and systems that refuse one: for the tests of both packages."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
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
    """One who runs orchestrate: with an identity, and a Python that they can read."""

    name: str
    uid: int | None
    """None: whoever runs the tests."""
    python: str

    def run(self, argv, **options):
        """Run a program as them."""
        who = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.run(argv, **who, capture_output=True, text=True, check=False, **options)

    def owns(self, folder):
        """Make them the owner of all in a folder."""
        for path in (folder, *folder.rglob("*")) if self.uid is not None else ():
            os.chown(path, self.uid, self.uid, follow_symlinks=False)


def people():
    """List those as whom a fence is to be tried: root where we are root, an ordinary user always."""
    if os.geteuid():
        return [Somebody("ordinary", None, sys.executable)]
    return [Somebody("root", None, sys.executable), Somebody("ordinary", NOBODY, "/usr/bin/python3")]


def python_path():
    """Give what a Python must be told that has not our packages, so that it has them."""
    return os.pathsep.join([str(ROOT), *_SITES])


def unfit(somebody):
    """Say why somebody cannot run what is tested; None where they can."""
    code = "import sys, orchestrator.run; sys.exit(0)"
    done = somebody.run([somebody.python, "-c", code], cwd="/", env={"PYTHONPATH": python_path()})
    return None if done.returncode == 0 else f"{somebody.python} cannot run it: {done.stderr[-200:]}"


def place_of(somebody, folder):
    """Make a folder that is theirs; pytest's own can be entered by nobody but who runs the tests."""
    made = Path(tempfile.mkdtemp(prefix="orchestrate-test-", dir=folder))
    somebody.owns(made)
    return made


def remove(folder):
    """Take such a folder away."""
    shutil.rmtree(folder)


def refusing(what, *argv, python=sys.executable):
    """Give the command line of a program on a system that refuses `namespaces`, `landlock`, or both."""
    calls = [str(number) for number in _CALLS[platform.machine()]]
    return [python, "-I", "-S", "-c", _REFUSE, what, *calls, *argv]
