"""A shell command below a shim, for setup and acceptance commands, the gate and `--verify`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import anyio

from workers.agents.follow import read_tail
from workers.engine.process import ForkServer, stop
from workers.fence.policy import Walls
from workers.fence.probe import OPEN, Fence, enclosed
from workers.files.exit_record import Exit
from workers.shim.spec import Launch, Limits


class Command(NamedTuple):
    """A command for `sh -c`, as plain data."""

    text: str
    folder: Path
    stem: str
    """Names its records and output in `folder`: `STEM.stdout`, `STEM.exit.json`, …"""
    cwd: Path
    env: Mapping[str, str]
    limits: Limits
    cancel_paths: tuple[Path, ...]
    mark: str
    fence: Fence = OPEN
    walls: Walls = Walls(())
    """The fence's policy for it."""
    stops_with_runtime: bool = False
    """Whether it stops when its runtime dies, or when the wait for it is cancelled; else it continues."""


class Ran(NamedTuple):
    """The end of a command, with the last part of its output."""

    ended: Exit
    stdout: str
    stderr: str
    output: Path
    """The file that a person reads first: of one that failed, that to which it wrote last."""

    @property
    def passed(self) -> bool:
        """Whether it exited with 0."""
        return self.ended.end == "exited" and self.ended.exit_code == 0


async def run_command(fork_server: ForkServer, command: Command, *, tail: int = 4096) -> Ran:
    """Run a command, and wait until all of its processes have exited.

    `tail` is how many bytes of its output are read.
    Raises WorkerError if no shim is available.
    """
    launch = _launch(command)
    ended: Exit | None = None
    try:
        ended = await fork_server.run(enclosed(launch, command.fence, command.walls))
    finally:
        if ended is None and command.stops_with_runtime:
            with anyio.CancelScope(shield=True):
                await stop(launch)
    stdout, stderr = (read_tail(path, tail) for path in (launch.stdout, launch.stderr))
    ran = Ran(ended, stdout, stderr, launch.stdout)
    if stderr and not (stdout and (ran.passed or _is_as_new(launch.stdout, launch.stderr))):
        return ran._replace(output=launch.stderr)
    return ran


def _is_as_new(one: Path, other: Path) -> bool:
    return one.stat().st_mtime_ns >= other.stat().st_mtime_ns


def describe_end(end: str, exit_code: int | None) -> str:
    """Describe how a command ended: `exit code 1`, `timed out`."""
    return f"exit code {exit_code}" if end == "exited" else end.replace("_", " ")


def _launch(command: Command) -> Launch:
    folder, stem = command.folder, command.stem
    nothing = folder / "nothing"
    nothing.touch()
    return Launch(
        worker=stem,
        argv=("sh", "-c", command.text),
        env=command.env,
        cwd=command.cwd,
        stdin=nothing,
        stdout=folder / f"{stem}.stdout",
        stderr=folder / f"{stem}.stderr",
        started_record=folder / f"{stem}.started.json",
        exit_record=folder / f"{stem}.exit.json",
        limits=command.limits,
        cancel_paths=command.cancel_paths,
        stops_with_runtime=command.stops_with_runtime,
        mark=command.mark,
    )
