"""`RUN.who.json`: who takes part in a run. Written once, before its first worker starts."""

# pathlib would be a third of a hook's time:
# ruff: noqa: PTH118, PTH208
import json
import os
import re
from contextlib import suppress
from typing import Any, NamedTuple

from workers.shim.atomic import create_whole

SCHEMA = 1
_LARGEST = 1 << 20
_NAME = re.compile(r"([0-9]{8}_[0-9]{6}(?:_[0-9]+)?)\.who\.json")


class Roster(NamedTuple):
    """Who takes part in a run, beside its coordinator."""

    run: str
    phase: str
    lead: str
    phase_worker: str | None
    workers: dict[str, str]
    """The title of each worker's ticket."""


def write_roster(folder: str, roster: Roster) -> None:
    """Write the roster of a run; one that is there stays. Raises OSError."""
    text = json.dumps({"schema": SCHEMA, **roster._asdict()}, separators=(",", ":"))
    with suppress(FileExistsError):
        create_whole(os.path.join(folder, f"{roster.run}.who.json"), text.encode() + b"\n", 0o600)


def read_roster(folder: str, run: str) -> Roster | None:
    """Read the roster of a run; None where there is none that can be read."""
    try:
        found = json.loads(_read(os.path.join(folder, f"{run}.who.json")))
    except (OSError, ValueError, RecursionError):
        return None
    return _roster(found, run) if isinstance(found, dict) else None


def runs_with_roster(folder: str) -> list[str]:
    """List the runs that have a roster, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = (_NAME.fullmatch(name) for name in names)
    return sorted((one[1] for one in found if one), key=_by_time, reverse=True)


def _by_time(run: str) -> tuple[str, int]:
    """Order the runs of one second by their suffix: `_10` comes after `_2`."""
    return run[:15], int(run[16:] or 1)


def _roster(found: dict[str, Any], run: str) -> Roster | None:
    workers, phase_worker = found.get("workers"), found.get("phase_worker")
    if found.get("run") != run or not isinstance(workers, dict):
        return None
    return Roster(
        run,
        str(found.get("phase", "")),
        str(found.get("lead", "")),
        phase_worker if isinstance(phase_worker, str) and phase_worker in workers else None,
        {str(name): str(title) for name, title in workers.items()},
    )


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LARGEST)
    finally:
        os.close(descriptor)
