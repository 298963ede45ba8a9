"""Shared by the benches: a repository with tickets, timing of whole commands, one line a figure."""

import atexit
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BIN = Path(sys.executable).parent
ORCHESTRATE = str(BIN / "orchestrate")


@contextmanager
def repository(tickets: dict[str, str], settings: str = "") -> Iterator[Path]:
    """Make a repository with state files and the given templates (stem to text).

    It goes when the bench ends: ext4 makes files slowly for seconds after thousands were removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for command in (
        ["git", "init", "-q", "-b", "main"],
        ["git", "config", "user.name", "Bench"],
        ["git", "config", "user.email", "bench@example.invalid"],
        [ORCHESTRATE, "init"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    templates = folder / "docs" / "worker-ticket-templates"
    for old in templates.glob("*.md"):
        old.unlink()
    for stem, text in tickets.items():
        (templates / f"{stem}.md").write_text(text)
    if settings:
        (folder / "orchestrate.toml").write_text(settings)
    (folder / "README.md").write_text("A project for the benches.\n")  # state files alone are no project
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-qm", "bench"], cwd=folder, check=True)
    yield folder


def timed(command: list[str], cwd: Path, stdin: bytes = b"") -> tuple[float, float]:
    """Run a command and return its wall and processor seconds. Raises if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    return wall, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def medians(commands: dict[str, list[str]], cwd: Path, rounds: int) -> dict[str, float]:
    """Time commands in turn, round after round, and return the median wall seconds of each."""
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for name, command in commands.items():
        timed(command, cwd)
        walls[name].clear()
    for _ in range(rounds):
        for name, command in commands.items():
            walls[name].append(timed(command, cwd)[0])
    return {name: statistics.median(values) for name, values in walls.items()}


def say(what: str, figure: str, target: str = "") -> None:
    """Print one figure."""
    print(f"{what:<58} {figure:>22}" + (f"   target {target}" if target else ""), flush=True)


def cores() -> int:
    """Return the processors that this process may use."""
    return len(os.sched_getaffinity(0))


def peak_kib(pid: int) -> int:
    """Return the most memory that a process has had, in KiB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
