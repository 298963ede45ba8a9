"""Slots as locked files, shared by every process on the repository. Light to import, for `ps`."""

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import anyio

Holder = Mapping[str, str]
"""Who holds a slot: `run`, `worker`, `at`, and what else its holder wants found (`mark`)."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


class PoolLimits(NamedTuple):
    """How many workers run at once; `command` has no limit of its own."""

    total: int = 15
    codex: int = 5
    claude: int = 5
    gemini: int = 5

    def of(self, agent: str) -> int | None:
        """Give an agent's own limit, None where it has none."""
        found: int | None = self._asdict().get(agent) if agent != "total" else None
        return found


class Taken(NamedTuple):
    """One slot in use; `dirty` if it names a holder whose shim is gone without having cleared it."""

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
        """Let go. Where a shim still holds the locks, the slot stays taken until it ends. Twice is fine."""
        files, self._files = self._files, ()
        for name, descriptor in files:
            if not self._is_shared:
                # Before the lock goes: a program that we are just starting (git, in another thread) may hold
                # a copy of it for an instant, and the name would stay.
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
            # Nobody else has the lock: no shim lives, so the holder's name is out of date.
            if (again := _locked(self._pool.directory / f"{name}.lock")) is not None:
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
        self._on_dirty = on_dirty
        self._waiting: list[anyio.Event] = []
        directory.mkdir(parents=True, exist_ok=True)

    def acquire_nowait(self, agent: str, holder: Holder) -> Slot | None:
        """Take a slot for a worker of `agent`; None if all are taken."""
        own = self.limits.of(agent)
        taken: list[tuple[str, int]] = []
        try:
            if own is not None:
                self._take(taken, [f"{agent}-{number}" for number in range(1, own + 1)], holder)
            if own is None or taken:
                self._take(taken, [f"pool-{number:02}" for number in range(1, self.limits.total + 1)], holder)
            if len(taken) == (1 if own is None else 2):
                slot = Slot(self, tuple(taken))
                taken.clear()
                return slot
        finally:
            for _, descriptor in taken:
                os.ftruncate(descriptor, 0)
                os.close(descriptor)
        return None

    async def acquire(self, agent: str, holder: Holder, timeout: float | None = None) -> Slot | None:  # noqa: ASYNC109 - part of the outside contract (`--wait`)
        """Wait for a slot; None if none came free within `timeout` seconds, or the agent's limit is 0."""
        import anyio  # noqa: PLC0415 - for start-up time: `ps` and `status` need only `holders`

        if 0 in (self.limits.total, self.limits.of(agent)):
            return None
        pause = _FIRST_PAUSE
        with anyio.move_on_after(timeout):
            while (slot := self.acquire_nowait(agent, holder)) is None:
                freed = anyio.Event()
                self._waiting.append(freed)
                try:
                    # Another process does not tell when it lets go: look again, ever more slowly.
                    with anyio.move_on_after(pause):
                        await freed.wait()
                finally:
                    with suppress(ValueError):
                        self._waiting.remove(freed)
                pause = _FIRST_PAUSE if freed.is_set() else min(_LONGEST_PAUSE, pause * 2)
            return slot
        return None

    def wake(self) -> None:
        """Have those who wait in this process look again."""
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            freed.set()

    def holders(self) -> list[Taken]:
        """List what is taken, by slot. No lock that is held is touched; a dirty slot's is, for an instant."""
        return holders(self.directory)

    def _take(self, taken: list[tuple[str, int]], names: list[str], holder: Holder) -> None:
        """Add the first free slot of `names` to `taken`, with the holder written into it."""
        for name in names:
            descriptor = _locked(self.directory / f"{name}.lock")
            if descriptor is None:
                continue
            try:
                former = _holder(descriptor)
                if former is not None and self._on_dirty is not None:
                    self._on_dirty(former)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(dict(holder)).encode(), 0)
            except BaseException:
                os.close(descriptor)  # with its former holder's name: the slot stays dirty
                raise
            taken.append((name, descriptor))
            return


def holders(directory: Path) -> list[Taken]:
    """List what is taken of the slots below a directory, by slot."""
    found: list[Taken] = []
    for path in sorted(directory.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            holder = _holder(descriptor)
            if holder is not None:
                found.append(Taken(path.stem, holder, dirty=_lock(descriptor, fcntl.LOCK_SH)))
        finally:
            os.close(descriptor)
    return found


def _locked(path: Path) -> int | None:
    """Open a slot's file and lock it; None if somebody holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _lock(descriptor, fcntl.LOCK_EX):
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # removed by somebody between our open and our lock: others see another file


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> dict[str, str] | None:
    """Read who is named in a slot's file; a name that was cut short in a crash is a holder without fields."""
    text = os.pread(descriptor, 65536, 0)
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
