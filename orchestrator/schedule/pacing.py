"""When a worker may start: agent CLIs one by one, more slowly on a busy machine; nobody without memory."""

from collections.abc import Callable
from typing import NamedTuple

import anyio

from orchestrator.schedule._load import Load, measured

LOOK = 1.0
"""Seconds between two looks at the memory, while it is too full."""
FRESH = 0.25
"""Seconds for which one look at the memory serves all who start: a thousand short commands need no more."""
SLOWEST = 4.0
"""By how much a machine without an idle moment stretches the interval."""


WARN = 120.0
"""Seconds without memory after which that is worth a warning."""
PATIENCE = 600.0
"""Seconds without memory after which one worker starts all the same, where no other of the run is out."""


class Full(NamedTuple):
    """A time without memory: when it began, when that was seen last, and whether it was told of."""

    since: float
    seen: float
    is_told: bool


class Starts:
    """The starts of one runtime: `interval` seconds between two agent CLIs, nobody above `memory` percent.

    An agent CLI costs a second of processor time to start, so all at once would be slower than one by one.
    Neither is looked at where it is 0. Where somebody else has the memory, and for good, workers start one
    by one in the end: a run that waits for ever would help nobody, and one worker is what a person would try.
    """

    def __init__(
        self,
        interval: float,
        memory: float,
        probe: Callable[[], Load] = measured,
        *,
        slots: Callable[[], int] = lambda: 0,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Take what counts the slots of the run, those too of who waits here, and what tells of trouble."""
        self._interval = interval
        self._memory = memory
        self._probe = probe
        self._slots = slots
        self._warn = warn
        self._lock = anyio.Lock()
        self._started = float("-inf")
        self._at_start: Load | None = None
        self._looked = float("-inf")
        self._load = Load(0.0, 0.0, 0.0)
        self._waiting = 0
        self._full = Full(float("-inf"), float("-inf"), is_told=False)

    async def turn(self, agent: str, tell: Callable[[str], None]) -> None:
        """Wait until a worker may start; `tell` hears once why, if it is for want of memory."""
        told = False

        def tell_once(why: str) -> None:
            nonlocal told
            if not told:
                told = True
                tell(why)

        is_alone = False
        self._waiting += 1
        try:
            while True:
                is_alone = is_alone or await self._wait_memory(tell_once)
                if agent == "command" or not self._interval:
                    return
                async with self._lock:
                    await anyio.sleep_until(self._started + self._interval)
                    await anyio.sleep_until(self._started + self._interval * self._stretch())
                    if is_alone or not self._is_full():
                        self._started, self._at_start = anyio.current_time(), self._look(0.0)
                        return
        finally:
            self._waiting -= not is_alone

    def _stretch(self) -> float:
        """Give 1 after an idle interval, up to `SLOWEST` after one without an idle moment."""
        if self._at_start is None or anyio.current_time() >= self._started + SLOWEST * self._interval:
            return 1.0
        load = self._look(0.0)
        busy, idle = load.busy - self._at_start.busy, load.idle - self._at_start.idle
        if busy <= 0 or busy + idle <= 0:
            return 1.0
        return 1.0 + (SLOWEST - 1.0) * min(1.0, busy / (busy + idle))

    async def _wait_memory(self, tell: Callable[[str], None]) -> bool:
        """Wait for memory; true where there is none, and one is to start all the same."""
        while self._is_full():
            now = anyio.current_time()
            # Of a time in which nobody looked nobody knows anything.
            if now - self._full.seen > PATIENCE:
                self._full = Full(now, now, is_told=False)
            passed, was_told = now - self._full.since, self._full.is_told
            self._full = self._full._replace(seen=now, is_told=self._full.is_told or passed >= WARN)
            why = self._in_words()
            tell(why)
            if passed >= PATIENCE and self._slots() <= self._waiting:
                self._waiting -= 1  # from here on it is one that is out, and the others wait for it
                self._warn(f"{why}, and nothing else of the run is out: one worker starts all the same")
                return True
            if passed >= WARN and not was_told:
                self._warn(f"{why}, for {passed / 60:.0f} minutes: nothing starts")
            await anyio.sleep(LOOK)
        self._full = self._full._replace(seen=float("-inf"))
        return False

    def _in_words(self) -> str:
        size = f" of {self._load.total / 2**30:.1f} GiB" if self._load.total else ""
        return f"memory: {self._load.memory:.0f}%{size} in use, above [pool] max_memory = {self._memory:g}"

    def _is_full(self) -> bool:
        return bool(self._memory) and self._look(FRESH).memory > self._memory

    def _look(self, fresh: float) -> Load:
        now = anyio.current_time()
        if now - self._looked >= fresh:
            self._load, self._looked = self._probe(), now
        return self._load
