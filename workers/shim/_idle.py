"""Whether a worker does nothing for too long. Part of the shim: standard library only."""

import os
import resource
from collections.abc import Callable

from workers.shim.processes import busy_seconds

WORKS = 0.03
"""Share of one processor from which on a silent worker counts as working."""


class Idle:
    """Knows whether nothing happened below the shim for too long: no output, next to no processor time."""

    def __init__(self, limit: float, now: float, busy_path: str | None) -> None:
        self.limit = limit
        self.busy_path = busy_path
        self.step = min(5.0, limit / 4)
        self.looked = self.active = now
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # What the shim's earlier workers used is no work of this one.
        self.seen = (0, before.ru_utime + before.ru_stime)

    def reached(self, now: float, written: Callable[[], int]) -> bool:
        """Look, at most once a step, and say whether the limit is reached."""
        if now - self.looked < self.step:
            return False
        output, busy = written(), busy_seconds(os.getpid())
        # Up to a hundredth of the time is what a CLI uses that only waits, more on a busy machine: not work.
        if (
            (self.busy_path and os.path.lexists(self.busy_path))
            or output != self.seen[0]
            or busy - self.seen[1] > (now - self.looked) * WORKS
        ):
            self.active = now
        self.looked, self.seen = now, (output, busy)
        return now - self.active >= self.limit
