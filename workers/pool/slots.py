"""The pool: slots as locked files, shared by every process on the repository."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tickets.types import SLOTS
from tickets.value import Value
from workers.files.locks import FairQueue, QueueEntry, Waiter, try_lock
from workers.files.read import refuse_irregular

if TYPE_CHECKING:
    import anyio

Holder = Mapping[str, str]
"""The holder of a slot: `run`, `worker`, `at`, and further fields of the holder's (`mark`)."""
Lack = Literal["agent", "pool"]
"""What a worker waits for: a slot of its agent, or, where one of those is free, a slot of the pool."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
_STALE = 5.0
"""Seconds without a poll after which a waiting process is skipped: it is stopped (Ctrl-Z), not dead."""


class PoolLimits(Value):
    """How many workers run at once, in all and of each agent that has a limit of its own."""

    total: int = 15
    agents: Mapping[str, int] = SLOTS

    def of(self, agent: str) -> int | None:
        """Return an agent's own limit, None where it has none."""
        return self.agents.get(agent)


class Taken(Value):
    """One slot in use; `dirty` if its shim ended without clearing the holder's name."""

    slot: str
    holder: Holder
    dirty: bool


class Slot:
    """One worker's place in the pool: a slot of the pool, and one of its agent where that has its own."""

    def __init__(self, pool: "Pool", files: tuple[tuple[str, int], ...]) -> None:
        self._pool = pool
        self._files = files
        self._is_shared = False

    @property
    def names(self) -> tuple[str, ...]:
        """The slots held, as `pool-01`; empty once released."""
        return tuple(name for name, _ in self._files)

    @property
    def fds(self) -> tuple[int, ...]:
        """The locked descriptors, for the shim to inherit; once asked for, the slot may be a shim's, too."""
        self._is_shared = True
        return tuple(descriptor for _, descriptor in self._files)

    def release(self) -> None:
        """Release the slot, at once or, where a shim holds its locks, when the shim ends. Idempotent."""
        files, self._files = self._files, ()
        self._pool.taken.difference_update(name for name, _ in files)
        for name, descriptor in files:
            if not self._is_shared:
                # Before the lock is released: a program that we start (git, in another thread) may hold
                # a copy of it for a moment, and the name would stay.
                os.ftruncate(descriptor, 0)
            is_clean = not os.fstat(descriptor).st_size
            os.close(descriptor)
            if is_clean:
                continue
            # No other process has the lock: no shim is alive, so the holder's name is out of date.
            if (again := _locked(f"{self._pool.directory}/{name}.lock")) is not None:
                os.ftruncate(again, 0)
                os.close(again)
        self._pool.wake()


class Pool:
    """The slots below one directory. All processes that give the same directory share them."""

    def __init__(
        self, directory: Path, limits: PoolLimits, on_dirty: Callable[[Holder], None] | None = None
    ) -> None:
        self.directory = directory
        self.limits = limits
        self.taken: set[str] = set()
        """The slots of this process, which it need not read from files."""
        self._on_dirty = on_dirty
        self._waiting: list[anyio.Event] = []
        self._queue = FairQueue(directory / "waiting", _STALE)
        directory.mkdir(parents=True, exist_ok=True)

    def acquire_nowait(self, agent: str, holder: Holder, limit: int | None = None) -> Slot | None:
        """Acquire a slot for a worker of `agent`; None if all are taken, or due to earlier entries.

        With a `limit` below the agent's own there are never more than that, once earlier ones have ended.
        """
        found = self._try(agent, holder, limit, None)
        return found if isinstance(found, Slot) else None

    async def acquire(
        self,
        agent: str,
        holder: Holder,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the outside contract (`--wait`)
        limit: Callable[[], int | None] | None = None,
    ) -> Slot | None:
        """Wait for a slot; None if none came free within `timeout` seconds, or the agent's limit is 0.

        `limit` is called at each poll: its value may change during the wait.
        """
        import anyio  # noqa: PLC0415 - for start-up time: `ps` and `status` need only `holders`

        if 0 in (self.limits.total, self.limits.of(agent)):
            return None
        pause = _FIRST_PAUSE
        place: QueueEntry | None = None
        try:
            with anyio.move_on_after(timeout):
                while True:
                    found = self._try(agent, holder, limit and limit(), place)
                    if isinstance(found, Slot):
                        return found
                    if place is None:
                        place = self._queue.enter(agent)
                    place.write(found)
                    pause = _FIRST_PAUSE if await self._woken(pause) else min(_LONGEST_PAUSE, pause * 2)
            return None
        finally:
            if place is not None:
                place.leave()

    async def _woken(self, pause: float) -> bool:
        """Wait until a task of this process releases a slot, or for `pause` seconds; return which."""
        import anyio  # noqa: PLC0415 - as in `acquire`

        freed = anyio.Event()
        self._waiting.append(freed)
        try:
            # Another process does not report a release: poll, with growing pauses.
            with anyio.move_on_after(pause):
                await freed.wait()
        finally:
            with suppress(ValueError):
                self._waiting.remove(freed)
        return freed.is_set()

    def wake(self) -> None:
        """Wake the waiting tasks of this process, to try again."""
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            freed.set()

    def clear_after(self, run: str) -> None:
        """Release the slots that still name a run without living processes.

        A killed runtime had taken them; the highest ones may not be asked for again for a long time.
        """
        for taken in self.holders():
            if not taken.dirty or taken.holder.get("run") != run:
                continue
            if (descriptor := _locked(f"{self.directory}/{taken.slot}.lock")) is None:
                continue  # another process has just taken it, and cleared it
            try:
                if _holder(descriptor) == taken.holder:
                    if self._on_dirty is not None:
                        self._on_dirty(taken.holder)
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)

    def holders(self) -> list[Taken]:
        """List the taken slots. No held lock is touched; a dirty slot's is, for a moment."""
        return holders(self.directory)

    def _try(self, agent: str, holder: Holder, limit: int | None, place: QueueEntry | None) -> Slot | Lack:
        """Acquire a slot, or return what is missing."""
        own = self.limits.of(agent)
        most = own if own is None or limit is None else min(own, limit)
        mine = [f"{agent}-{number}" for number in range(1, (most or 0) + 1)]
        all_of_us = [f"pool-{number:02}" for number in range(1, self.limits.total + 1)]
        if lack := self._lack_behind(self._queue.ahead(place), agent, mine, all_of_us):
            return lack
        taken: list[tuple[str, int]] = []
        try:
            if own is not None:
                self._take(taken, mine, holder)
                if not taken or (most != own and self._is_over(agent, taken[0][0], own, len(mine))):
                    return "agent"
            before = len(taken)
            self._take(taken, all_of_us, holder)
            if len(taken) == before:
                return "pool"
            slot = Slot(self, tuple(taken))
            self.taken.update(slot.names)
            taken.clear()
            return slot
        finally:
            for _, descriptor in taken:
                os.ftruncate(descriptor, 0)
                os.close(descriptor)

    def _lack_behind(
        self, ahead: Iterable[Waiter], agent: str, mine: list[str], pool: list[str]
    ) -> Lack | None:
        """Return what is missing once the earlier entries get theirs; None if there is enough for all."""
        same = needed = 0
        for one in ahead:
            same += one.label == agent
            # A worker without a slot of its own agent cannot use one of the pool: others may have that.
            needed += one.note == "pool" or one.label == agent
            if mine and same >= len(mine):
                return "agent"
            if needed >= len(pool):
                return "pool"
        if mine and same and not self._has_free(mine, same + 1):
            return "agent"
        return None if not needed or self._has_free(pool, needed + 1) else "pool"

    def _is_over(self, agent: str, got: str, own: int, most: int) -> bool:
        """Return whether the acquired slot is one too many for a lowered limit.

        Counted once it is ours: of two who take the last ones at the same time, one at least sees the other.
        """
        others = [name for number in range(1, own + 1) if (name := f"{agent}-{number}") != got]
        return not self._has_free(others, own - most)

    def _has_free(self, names: list[str], enough: int) -> bool:
        """Return whether at least `enough` of these slots are free at this moment."""
        for left, name in zip(range(len(names), 0, -1), names, strict=True):
            if enough <= 0 or left < enough:
                break
            try:
                descriptor = os.open(self.directory / f"{name}.lock", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                enough -= 1  # it was never taken
                continue
            enough -= try_lock(descriptor, fcntl.LOCK_SH)
            os.close(descriptor)
        return enough <= 0

    def _take(self, taken: list[tuple[str, int]], names: list[str], holder: Holder) -> None:
        """Add the first free slot of `names` to `taken`, with the holder written into it."""
        for name in names:
            descriptor = None if name in self.taken else _locked(f"{self.directory}/{name}.lock")
            if descriptor is None:
                continue
            try:
                former = _holder(descriptor)
                if former is not None:
                    if self._on_dirty is not None:
                        self._on_dirty(former)
                    os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(dict(holder)).encode(), 0)
            except BaseException:
                os.close(descriptor)  # with its former holder's name: the slot stays dirty
                raise
            taken.append((name, descriptor))
            return


def holders(directory: Path) -> list[Taken]:
    """List the taken slots below a directory, by slot."""
    found: list[Taken] = []
    for path in sorted(directory.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        refuse_irregular(path, descriptor)
        try:
            holder = _holder(descriptor)
            if holder is not None:
                found.append(Taken(path.stem, holder, dirty=try_lock(descriptor, fcntl.LOCK_SH)))
        finally:
            os.close(descriptor)
    return found


def _locked(path: str) -> int | None:
    """Open a slot's file and lock it; None if another process holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if not try_lock(descriptor, fcntl.LOCK_EX):
            os.close(descriptor)
            return None
        if refuse_irregular(path, descriptor).st_nlink:
            return descriptor
        os.close(
            descriptor
        )  # removed by another process between our open and our lock: others see another file


def _holder(descriptor: int) -> dict[str, str] | None:
    """Read the holder in a slot's file; a name that was cut short in a crash is a holder without fields."""
    text = os.pread(descriptor, 65536, 0)
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
