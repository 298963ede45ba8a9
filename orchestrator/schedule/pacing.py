"""Pacing of starts: agent CLIs one by one, and no worker while too much memory is in use.

psutil measures the machine; control groups (cgroups) tell a container's own limit.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import anyio

POLL = 1.0
"""Seconds between two measurements of the memory while too much is in use."""
FRESH = 0.25
"""Seconds for which one measurement serves all starts: a thousand short commands need no more."""
WARN = 120.0
"""Seconds of waiting for memory after which a warning is given."""
_ROOT = Path("/")
_CACHES = ("active_file", "inactive_file", "slab_reclaimable")
"""What the kernel frees before memory runs out: reading a large checkout does not fill the memory."""


class Memory(NamedTuple):
    """Memory in use, in percent, and the bytes of which it is the percentage; 0 where that is not known."""

    percent: float
    total: int = 0


def measure() -> Memory:
    """Measure the memory in use, of a container's limit where that is lower than the machine's memory."""
    import psutil  # noqa: PLC0415 - for start-up time: 15 ms, and only a runtime needs it

    machine = psutil.virtual_memory()
    limits = (Memory(100 * used / limit, limit) for used, limit in limited(machine.total))
    return max([Memory(machine.percent, machine.total), *limits])


class Pacing:
    """The starts of one runtime: `interval` seconds between two agent CLIs, none above `max_memory` percent.

    An agent CLI costs a second of processor time to start, so all at once would be slower than one by one.
    An interval of 0 means no wait, and a `max_memory` of 0 no measuring. `warn` is called once for each time
    in which nothing started for `WARN` seconds.
    """

    def __init__(
        self,
        interval: float,
        max_memory: float,
        measure: Callable[[], Memory] = measure,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._interval = interval
        self._max_memory = max_memory
        self._measure = measure
        self._warn = warn
        self._lock = anyio.Lock()
        self._started = float("-inf")
        self._memory = Memory(0.0)
        self._measured = float("-inf")
        self._is_warned = False

    async def wait_turn(self, agent: str, tell: Callable[[str], None]) -> None:
        """Wait until a worker may start; `tell` is called once with the reason if it lacks memory."""
        has_waited = await self._wait_memory(tell)
        if agent == "command" or not self._interval:
            return
        async with self._lock:
            await anyio.sleep_until(self._started + self._interval)
            # Another process may have filled the memory during the interval.
            await self._wait_memory(None if has_waited else tell)
            self._started = anyio.current_time()

    async def _wait_memory(self, tell: Callable[[str], None] | None) -> bool:
        """Wait until there is enough memory; return whether it was short at first."""
        if not self._is_full():
            return False
        began = anyio.current_time()
        if tell is not None:
            tell(self._describe())
        while self._is_full():
            passed = anyio.current_time() - began
            if passed >= WARN and not self._is_warned:
                self._is_warned = True
                self._warn(
                    f"{self._describe()}, for {passed / 60:.0f} minutes: no worker starts until there is less"
                )
            await anyio.sleep(POLL)
        return True

    def _is_full(self) -> bool:
        if not self._max_memory:
            return False
        now = anyio.current_time()
        if now - self._measured >= FRESH:
            self._memory, self._measured = self._measure(), now
        is_full = self._memory.percent > self._max_memory
        self._is_warned &= is_full
        return is_full

    def _describe(self) -> str:
        percent, total = self._memory
        size = f" of {total / 2**30:.1f} GiB" if total else ""
        return f"memory: {percent:.0f}%{size} in use, above [pool] max_memory = {self._max_memory:g}"


def limited(total: int, root: Path = _ROOT) -> Iterator[tuple[int, int]]:
    """Yield (bytes in use, limit) of each control group of this process with less than `total` bytes."""
    for folder, limit_name, used_name, prefix in _groups(root):
        try:
            limit = int((folder / limit_name).read_text())
            if not 0 < limit < total:
                continue
            used = int((folder / used_name).read_text())
            lines = (folder / "memory.stat").read_text().splitlines()
            figures = dict(line.split(" ", 1) for line in lines if " " in line)
            spare = sum(int(figures.get(f"{prefix}{name}", 0)) for name in _CACHES)
        except (OSError, ValueError):
            continue  # "max", or no such file: a group that limits nothing
        yield max(0, used - spare), limit


def _groups(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Yield our memory groups, innermost first, with the file names that their version of cgroups has."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return  # no Linux
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not path:
            continue
        if not controllers:
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        # In a container the path may be the host's, and not exist; the mount itself is ours.
        folder = mount / path.lstrip("/")
        yield from ((group, *names) for group in (folder, *folder.parents) if group.is_relative_to(mount))
