"""Whether a command runs inside a worker of the repository that it is about, whatever its environment says.

A worker may take its marks out of its environment, and be orphaned by all but its shim: those above it still
tell. A worker on orchestrate itself tries its tests in other repositories, and may.
"""

import argparse
import os
from pathlib import Path

from orchestrator.errors import Refusal
from tickets.problems import Problem
from workers.git.run import find_repository

_PROC = Path("/proc")
_MOST = 100
"""Processes that are looked at; no tree of anybody's is as deep."""


def refuse_worker(arguments: argparse.Namespace) -> None:
    """Refuse a lead's command inside a worker of the same repository. Raises Refusal."""
    found = find_repository((arguments.project or Path.cwd()).absolute())
    if found is not None and is_inside_worker(found.common):
        place = f"orchestrate {arguments.command}"
        what = "this runs inside a worker, and workers report to the lead"
        raise Refusal(Problem(place, what, "end with your report"), next_action="orchestrate --help")


def is_inside_worker(common: Path) -> bool:
    """Tell whether this process, or one above it, is a worker of the repository or the shim of one.

    Another user's processes, and systems without /proc, tell nothing.
    """
    pid = "self"
    for _ in range(_MOST):
        folder = _PROC / pid
        try:
            marks = _marks((folder / "environ").read_bytes())
            if b"ORCHESTRATE_WORKER" in marks and _is_same(marks.get(b"ORCHESTRATE_PROJECT"), common):
                return True
            if b"fork_server.py\0" in (folder / "cmdline").read_bytes() and _holds(folder, common):
                return True
        except OSError:
            pass  # somebody else's, who may still stand below one of ours
        try:
            pid = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            return False
        if pid in ("0", "1"):
            return False
    return False


def _marks(environ: bytes) -> dict[bytes, bytes]:
    entries = environ.split(b"\0")
    return dict(
        entry.split(b"=", 1) for entry in entries if entry.startswith(b"ORCHESTRATE_") and b"=" in entry
    )


def _is_same(project: bytes | None, common: Path) -> bool:
    if project is None:
        return True  # a worker of whom nobody knows where it belongs
    found = find_repository(Path(os.fsdecode(project)))
    return found is not None and found.common == common


def _holds(process: Path, common: Path) -> bool:
    """Tell whether a shim holds the slots, the outputs or the records of a run of the repository."""
    for entry in os.scandir(process / "fd"):
        try:
            path = Path(os.readlink(entry.path))  # noqa: PTH115 - a scanned entry is text already
        except OSError:
            continue
        if path.is_relative_to(common / "orchestrate"):
            return True
        root = next((above.parent for above in path.parents if above.name == ".taskers"), None)
        if root is not None and _is_same(os.fsencode(root), common):
            return True
    return False
