"""When a worker may start: agent CLIs one by one, more slowly on a busy machine; nobody without memory."""

from collections.abc import Callable

import anyio

from orchestrator.load import Load, measured

LOOK = 1.0
"""Seconds between two looks at the memory, while it is too full."""
FRESH = 0.25
"""Seconds for which one look at the memory serves all who start: a thousand short commands need no more."""
SLOWEST = 4.0
"""By how much a machine without an idle moment stretches the interval."""


class Starts:
    """The starts of one runtime: `interval` seconds between two agent CLIs, nobody above `memory` percent.

    An agent CLI costs a second of processor time to start, so all at once would be slower than one by one.
    Neither is looked at where it is 0.
    """

    def __init__(self, interval: float, memory: float, probe: Callable[[], Load] = measured) -> None:
        self._interval = interval
        self._memory = memory
        self._probe = probe
        self._lock = anyio.Lock()
        self._started = float("-inf")
        self._at_start: Load | None = None
        self._looked = float("-inf")
        self._load = Load(0.0, 0.0, 0.0)

    async def turn(self, agent: str, tell: Callable[[str], None]) -> None:
        """Wait until a worker may start; `tell` hears once why, if it is for want of memory."""
        told = await self._wait_memory(tell, told=False)
        if agent == "command" or not self._interval:
            return
        while True:
            async with self._lock:
                await anyio.sleep_until(self._started + self._interval)
                await anyio.sleep_until(self._started + self._interval * self._stretch())
                if not self._is_full():
                    self._started, self._at_start = anyio.current_time(), self._look(0.0)
                    return
            told = await self._wait_memory(tell, told=told)

    def _stretch(self) -> float:
        """Give 1 after an idle interval, up to `SLOWEST` after one without an idle moment."""
        if self._at_start is None or anyio.current_time() >= self._started + SLOWEST * self._interval:
            return 1.0
        load = self._look(0.0)
        busy, idle = load.busy - self._at_start.busy, load.idle - self._at_start.idle
        if busy <= 0 or busy + idle <= 0:
            return 1.0
        return 1.0 + (SLOWEST - 1.0) * min(1.0, busy / (busy + idle))

    async def _wait_memory(self, tell: Callable[[str], None], *, told: bool) -> bool:
        while self._is_full():
            if not told:
                told = True
                used = f"{self._load.memory:.0f}% of the memory is in use"
                tell(f"{used}, above [pool] max_memory = {self._memory:g}")
            await anyio.sleep(LOOK)
        return told

    def _is_full(self) -> bool:
        return bool(self._memory) and self._look(FRESH).memory > self._memory

    def _look(self, fresh: float) -> Load:
        now = anyio.current_time()
        if now - self._looked >= fresh:
            self._load, self._looked = self._probe(), now
        return self._load
