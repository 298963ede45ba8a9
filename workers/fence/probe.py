"""The fence in force: the strongest limit on writes that this system has; tried, never assumed."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tickets.value import Value
from workers.agents.agent import FenceWanted
from workers.fence import _bubblewrap as bubblewrap
from workers.fence.places import INSTALLED, system_reads
from workers.fence.policy import Walls
from workers.files.durable import create_file
from workers.shim.keyring import keyring_filter
from workers.shim.start import FILTER_ON

if TYPE_CHECKING:
    from workers.shim.spec import Launch  # which brings anyio, for a word in two signatures

Level = Literal["namespaces", "landlock", "advisory"]

_PATIENCE = 20.0
"""Seconds that a trial may take; usually it takes a fortieth of one."""
_LAYERS = 2
"""Processes between a shim and its worker: bubblewrap, and the keeper inside."""
_TRIAL = (
    'echo held > "$0/inside/file" && ! { echo open > "$0/outside/file"; } 2>/dev/null'
    ' && { ! cat "$0/hidden/file" > "$0/inside/read"; } 2>/dev/null'
)
_HOLD = (
    "import sys; sys.path.append(sys.argv.pop(1)); import os, workers.shim.landlock as l; at = sys.argv[1];"
    "l.restrict([at + '/inside'], sys.argv[3:]); os.execv('/bin/sh', ['sh', '-c', sys.argv[2], at])"
)


class Fence(Value):
    """The fence in force on this system."""

    level: Level
    reason: str
    """Why it is not stronger, or how it is done; one line."""
    bwrap: str = ""
    """The bubblewrap that it uses."""

    @property
    def holds(self) -> bool:
        """Return whether the kernel enforces anything."""
        return self.level != "advisory"


_trials: dict[FenceWanted, threading.Thread] = {}

OPEN = Fence("advisory", 'switched off by `fence = "off"`')


def begin_trial(wanted: FenceWanted) -> None:
    """Start the trial in the background, concurrently with work that does not need it."""
    if wanted == "off":
        return
    # No daemon thread: a command that ends first would leave the trial's folder and its process behind.
    trial = threading.Thread(target=_try_early, args=(wanted,))
    with contextlib.suppress(RuntimeError):  # no thread available: the trial then runs on demand
        trial.start()
        _trials[wanted] = trial


def fence_in_force(wanted: FenceWanted = "auto") -> Fence:
    """Return the fence in force, by a trial run with the real arguments; once in a process."""
    if trial := _trials.get(wanted):  # kept: all concurrent callers wait for the same one
        trial.join()
    return _found(wanted)


def _try_early(wanted: FenceWanted) -> None:
    with contextlib.suppress(Exception):  # the caller that asks for it gets the same error, and reports it
        _found(wanted)


@cache
def _found(wanted: FenceWanted) -> Fence:
    if wanted == "off":
        return OPEN
    if not sys.platform.startswith("linux"):
        return Fence("advisory", f"there is no fence for {sys.platform} yet")
    refusals = []
    if wanted != "landlock":
        programs = bubblewrap.programs()
        for program in programs:
            said = _tried_namespaces(program)
            if not said:
                return Fence("namespaces", f"by {program}", program)
            refusals.append(f"{program}: {said}")
        if not programs:
            refusals.append("bubblewrap is not installed")
    said = _tried_landlock()
    if not said:
        return Fence("landlock", "; ".join(refusals) or 'as `fence = "landlock"` says')
    return Fence("advisory", "; ".join((*refusals, said)))


def enclosed(launch: "Launch", fence: Fence, walls: Walls) -> "Launch":
    """Return the launch of the same worker behind a fence."""
    # A worker may open its standard input once more, by name.
    walls = walls._replace(shown=(*walls.shown, launch.stdin))
    match fence.level:
        case "namespaces":
            prefix = bubblewrap.prefix(fence.bwrap, walls, launch.cwd)
            return launch._replace(prefix=prefix, soft_depth=_LAYERS)
        case "landlock":
            return launch._replace(
                held_to=tuple(map(str, walls.writable)),
                readable=(*system_reads(walls.hidden), *map(str, walls.shown)),
                listed=tuple(map(str, walls.listed)),
            )
        case "advisory":
            return launch


def _tried_namespaces(program: str) -> str:
    """Write inside and outside of a fence; return what failed, `""` where it held."""
    with tempfile.TemporaryDirectory(prefix="orchestrate-fence-") as name:
        folder = _laid_out(name)
        walls = Walls(writable=(folder / "inside",), shown=(folder / "outside",))
        prefix = bubblewrap.prefix(program, walls, folder)
        # The keeper inside speaks on its third descriptor, and bubblewrap reads from the fourth.
        create_file(folder / "filter", keyring_filter())
        streams = f'exec "$@" 3>&1 {FILTER_ON}<"$0"'
        argv = ("sh", "-c", streams, str(folder / "filter"), *prefix, "sh", "-c", _TRIAL, str(folder))
        return _tried(argv, folder, "ended 0 ")


def _tried_landlock() -> str:
    from workers.shim import landlock  # noqa: PLC0415 - for start-up time: namespaces are the usual case

    if not landlock.version():
        return "the kernel has no Landlock"
    with tempfile.TemporaryDirectory(prefix="orchestrate-fence-") as name:
        folder = _laid_out(name)
        python = (sys.executable, "-I", "-S", "-c", _HOLD, str(INSTALLED))
        return _tried((*python, str(folder), _TRIAL, *system_reads(()), str(folder / "outside")), folder, "")


def _laid_out(name: str) -> Path:
    folder = Path(name).resolve()
    for side in ("inside", "outside", "hidden"):
        (folder / side).mkdir()
    create_file(folder / "hidden" / "file", b"secret")
    return folder


def _tried(argv: tuple[str, ...], folder: Path, last_words: str) -> str:
    """Run a trial in such a folder; return what failed."""
    env = {"PATH": os.defpath}
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"a trial could not be run: {error}"
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if (folder / "outside" / "file").exists():
        return "it permits every write"
    if any(path.stat().st_size for path in folder.glob("inside/read")):
        return "it permits reading everything"
    if done.returncode or last_words not in said or not (folder / "inside" / "file").exists():
        words = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        return (
            words[-1].removeprefix("bwrap: ").partition(". ")[0]
            if words
            else f"a trial ended with {done.returncode}"
        )
    return ""
