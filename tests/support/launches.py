"""A launch of a plain worker, and questions about processes that others started."""

import os
from pathlib import Path

import anyio
from support.runtimes import PATIENCE

from workers.shim.spec import Launch, Limits


def launch(folder: Path, *argv: str, name: str = "w", **changes) -> Launch:
    """Return the launch of a worker whose files are in a folder, under its name."""
    plain = Launch(
        worker=name,
        argv=argv,
        env={"PATH": os.environ["PATH"]},
        cwd=folder,
        stdin=Path("/dev/null"),
        stdout=folder / f"{name}.out",
        stderr=folder / f"{name}.err",
        started_record=folder / f"{name}.started",
        exit_record=folder / f"{name}.exit",
        cancel_paths=(folder / f"{name}.cancel",),
        limits=Limits(total=200, grace=1),
    )
    return plain._replace(**changes)


def lives(pid: int) -> bool:
    """Return whether a process lives, by its state: a zombie answers signal 0."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_gone(pid: int) -> None:
    """Wait until a process has ended."""
    with anyio.fail_after(PATIENCE):
        while lives(pid):  # noqa: ASYNC110 - somebody else's process: there is no event
            await anyio.sleep(0.01)
