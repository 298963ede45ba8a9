"""How workers ended, as their shims recorded it, and whether a shim lives. Light to import, for `ps`."""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from workers.output import is_locked

End = Literal[
    "exited", "timed_out", "idle", "output_cap", "cancelled", "not_started", "shim_error", "lost",
]  # fmt: skip
"""How a worker ended; `lost`: its shim went without a record."""


class Exit(NamedTuple):
    """How a worker ended, as its shim recorded it. Times are UTC, sizes exclude the mark of a cut."""

    worker: str
    end: End
    exit_code: int | None = None
    signal: int | None = None
    error: str = ""
    cancelled_by: str = ""
    pid: int | None = None
    shim_pid: int | None = None
    boot_id: str = ""
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    survivors: int = 0
    """Processes beside the worker itself that had to be killed."""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    cut: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    max_rss_kb: int = 0


def is_held(started_record: Path) -> bool:
    """Say whether the shim that made this file still lives."""
    return is_locked(started_record)


def read_exit(exit_record: Path) -> Exit | None:
    """Read how a worker ended; None while there is no whole record."""
    try:
        return parsed_exit(exit_record.read_bytes())
    except FileNotFoundError:
        return None


def parsed_exit(text: bytes) -> Exit | None:
    """Read an exit record; None where it is not whole."""
    try:
        fields: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    known = {name: fields[name] for name in Exit._fields if name in fields}
    return Exit(**{"worker": "", **known, "cut": tuple(fields.get("cut", ()))})
