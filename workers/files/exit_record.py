"""Exit records of workers, as their shims wrote them, and living shims. Quick to import, for `ps`."""

import json
import math
from pathlib import Path
from types import NoneType
from typing import Literal, get_args

from tickets.value import Value
from workers.files.locks import is_locked
from workers.files.read import NotRegularError, read_whole

End = Literal[
    "exited", "timed_out", "idle", "output_cap", "cancelled", "not_started", "shim_error", "lost",
]  # fmt: skip
"""How a worker ended; `lost`: its shim ended without a record."""


class Exit(Value):
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
    """Processes besides the worker itself that had to be killed."""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    cut: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    max_rss_kb: int = 0


_ENDS = get_args(End)
_WHOLE: tuple[type, ...] = (int,)
_TYPES: dict[str, tuple[type, ...]] = {
    **{name: (str,) for name in Exit._fields if name != "cut"},
    "exit_code": (int, NoneType), "signal": (int, NoneType), "pid": (int, NoneType),
    "shim_pid": (int, NoneType), "seconds": (int, float), "cpu_seconds": (int, float),
    "survivors": _WHOLE, "stdout_bytes": _WHOLE, "stderr_bytes": _WHOLE, "max_rss_kb": _WHOLE,
}  # fmt: skip
"""The types of all fields but `cut`."""


def is_held(started_record: Path) -> bool:
    """Return whether the shim that made this file is still alive."""
    return is_locked(started_record)


def read_exit(exit_record: Path) -> Exit | None:
    """Read how a worker ended; None while there is no complete record."""
    try:
        return parsed_exit(read_whole(exit_record))
    except (FileNotFoundError, NotRegularError):
        return None


def parsed_exit(text: bytes) -> Exit | None:
    """Parse an exit record; None where it is not complete."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("end") not in _ENDS:
        return None
    cut = fields.pop("cut", None) or ()
    known = {"worker": "", **{name: fields[name] for name in _TYPES if name in fields}}
    # An unfenced worker can write here too: fields of other types make no record.
    is_ours = isinstance(cut, list) or not cut
    for name, value in known.items():
        kind = type(value)
        is_ours &= kind in _TYPES[name] and (kind is not float or math.isfinite(value))
    return Exit(**known, cut=tuple(map(str, cut))) if is_ours else None
