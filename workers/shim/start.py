"""The start of a worker by its shim: directly, by bubblewrap, or under Landlock. Standard library only."""

import os
import signal
import stat
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from workers.shim._programs import find_program, start_failure
from workers.shim.keyring import keyring_filter
from workers.shim.landlock import RESET, restrict, restrict_sockets, start_held

SAYS_ON = 3
"""The descriptor on which the keeper inside a fence writes; `workers.shim.init` knows it, too."""
FILTER_ON = 4
"""The descriptor from which bubblewrap reads the filter of system calls."""


class Keeper:
    """The messages of the first process inside a fence (the keeper)."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._text = b""

    def messages(self) -> dict[str, list[int]]:
        """Read new messages, without waiting, and return each with its numbers."""
        while self._source >= 0:
            try:
                part = os.read(self._source, 4096)
            except BlockingIOError:
                break
            self._text += part
            if not part:
                os.close(self._source)
                self._source = -1
        lines = self._text.decode().split("\n")[:-1]
        return {word: [int(number) for number in rest] for word, *rest in (line.split() for line in lines)}


class Started(NamedTuple):
    """A started worker, and the keeper inside its fence."""

    pid: int
    keeper: Keeper | None = None


def start_worker(spec: dict[str, Any], ends: tuple[int, int, int]) -> Started:
    """Start the worker of a launch, its three standard descriptors in `ends`. Raises OSError."""
    argv, env = spec["argv"], spec["env"]
    if spec["prefix"]:
        return _start_behind(spec["prefix"], argv, env, ends)
    program = find_program(argv[0], env.get("PATH", os.defpath))
    if spec["held_to"] is not None:
        hold = partial(restrict, spec["held_to"], spec["readable"], spec["listed"])
        return Started(start_held(program, argv, env, ends, hold))
    return Started(_spawn(program, argv, env, ends))


def _start_behind(
    prefix: list[str], argv: list[str], env: dict[str, str], ends: tuple[int, int, int]
) -> Started:
    source, sink = os.pipe()
    filters, written = os.pipe()
    os.set_blocking(source, False)
    os.write(written, keyring_filter())
    os.close(written)
    # A privileged bubblewrap, as old systems have it, may not be held before it has begun.
    hold = restrict_sockets if not os.stat(prefix[0]).st_mode & stat.S_ISUID else lambda: None  # noqa: PTH116
    try:
        pid = start_held(prefix[0], [*prefix, *argv], env, (*ends, sink, filters), hold)
    except OSError:
        os.close(source)
        raise
    finally:
        os.close(sink)
        os.close(filters)
    return Started(pid, Keeper(source))


def _spawn(program: str, argv: list[str], env: dict[str, str], ends: tuple[int, ...]) -> int:
    return os.posix_spawn(
        program,
        argv,
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(ends)],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET,
    )


def killed_by(status: int) -> int | None:
    """Return the signal that ended bubblewrap, or the keeper inside it; None where they ended by themselves.

    bubblewrap reports the keeper's death as a shell does; its own failure is exit code 1.
    """
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128
    return number if number in signal.valid_signals() else None


def signal_words(number: int) -> str:
    """Describe a signal by number and name; real-time signals have no name."""
    name = signal.Signals(number).name if number in set(signal.Signals) else "unknown"
    return f"signal {number} ({name})"


def fence_failure(spec: dict[str, Any], said: list[int] | None, killed: int | None) -> str:
    """Describe why a worker did not start inside its fence, from the keeper's messages and the signal."""
    program = spec["argv"][0]
    if said:
        return start_failure(f"cannot start {program}", program, said[0], there=bool(said[1]))
    if killed:
        return f"killed by {signal_words(killed)} while its fence was set up"
    return _fence_text(spec["stderr"])


def _fence_text(stderr: str) -> str:
    # What bubblewrap printed.
    said = ""
    with suppress(OSError), open(stderr, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        said = next((line for line in file.read(4096).splitlines() if line.startswith("bwrap: ")), "")
    return f"the fence could not be set up{said and ': '}{said.removeprefix('bwrap: ')}"
