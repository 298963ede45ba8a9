"""The input of a shim: one worker to start, and its limits."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Limits(NamedTuple):
    """The limits of a worker: seconds, and bytes of each output stream. None is no limit."""

    total: float | None = 1800.0
    grace: float = 5.0
    output_cap: int | None = 64 << 20
    idle: float | None = None


class Launch(NamedTuple):
    """One worker to start. Paths are absolute; the files named must not exist yet, their folders must."""

    worker: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The exact environment of the worker, with the mark in it."""
    cwd: Path
    stdin: Path
    stdout: Path
    stderr: Path
    started_record: Path
    exit_record: Path
    limits: Limits = Limits()
    cancel_paths: tuple[Path, ...] = ()
    """The worker is stopped as soon as one of these exists; `Exit.cancelled_by` names it."""
    busy_path: Path | None = None
    """While it exists the worker is not idle: a tool call is open."""
    soft_signal: int = signal.SIGTERM
    stops_with_runtime: bool = False
    """The worker is stopped when the runtime that started it dies; else it continues, to be adopted."""
    soft_depth: int = 0
    """How many wrappers stand between shim and CLI (bubblewrap: 2): the signal goes past them."""
    mark: str = ""
    prefix: tuple[str, ...] = ()
    """The arguments of the fence of namespaces, with a keeper inside that reports the worker's end."""
    held_to: tuple[str, ...] | None = None
    """The only paths that the worker may write at and below, by Landlock; None is no such limit."""
    readable: tuple[str, ...] = ()
    """The only further paths that it may read, where `held_to` limits it."""
    listed: tuple[str, ...] = ()
    """Folders whose names it may list, at and below, where `held_to` limits it."""
