"""What a fence leaves open of the user's: sockets that Landlock cannot close, tokens where git must read."""

import os
import pwd
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from workers.files.read import read_whole

_PLACES = (
    "{home}/.ssh", "{home}/.gnupg", "{home}/.screen", "{home}/.docker/run", "{home}/.colima/default",
    "/run", "/run/podman", "/run/screen/S-{user}", "/run/user/{uid}", "/run/user/{uid}/docker",
    "/run/user/{uid}/gnupg", "/run/user/{uid}/keyring", "/run/user/{uid}/podman",
    "/tmp/.X11-unix", "/tmp/tmux-{uid}",  # noqa: S108 - only listed
)  # fmt: skip
"""Folders with the sockets of agents, desktops, terminals and container engines."""
_VARIABLES = ("DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "TMUX")
_TOKEN = re.compile(
    r"(?im)^(?:\s*extraheader\s*=|[^#;\n]*://(?:[^/\s:@]+:[^/\s@]+|(?:gh[a-z]|github_pat|glpat)[_-][^/\s@]*)@)"
)
_LARGEST = 1 << 20


def sockets(environ: Mapping[str, str]) -> list[str]:
    """Return the sockets with a path of the user's programs that a process of the user can reach."""
    names = {"home": environ.get("HOME") or "/nonexistent", "uid": str(os.getuid()), "user": ""}
    with suppress(KeyError):
        names["user"] = pwd.getpwuid(os.getuid()).pw_name
    found = [path for place in _PLACES for path in _in(place.format(**names))]
    for name in _VARIABLES:
        said = re.search(r"/[^,;:]+", environ.get(name, "").removeprefix("unix://"))
        found += [said[0]] if said else []
    return [path for path in dict.fromkeys(found) if _serves(path)]


def tokens(files: Iterable[Path]) -> list[str]:
    """Return the files of git's settings that hold a token or a password; git must read them in a fence."""
    found = []
    for path in files:
        with suppress(OSError):
            found += [str(path)] if _TOKEN.search(os.fsdecode(read_whole(path, _LARGEST))) else []
    return found


def _in(folder: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(folder))
    except OSError:
        return []


def _serves(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)  # noqa: PTH116 - of many
    return False
