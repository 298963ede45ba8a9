"""The processes below a process or with a mark, and whether they have been idle for too long."""

# pathlib would triple the time of a scan:
# ruff: noqa: PTH112, PTH208
import os
import resource
from collections.abc import Callable, Iterator

MARK = "ORCHESTRATE_MARK"
"""The variable of a worker's processes that nobody else has."""
WORKS = 0.03
"""Share of one processor above which a silent worker counts as working."""


def processes() -> Iterator[tuple[int, int]]:
    """Yield process id and parent of every living process; zombies are omitted."""
    if not os.path.isdir("/proc/self"):
        with os.popen("ps -A -o pid= -o ppid= -o stat=") as listing:  # noqa: S605 - macOS has no /proc
            rows = [line.split() for line in listing]
        yield from ((int(pid), int(parent)) for pid, parent, state in rows if not state.startswith("Z"))
        return
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat_fields(int(name))) and fields[0] not in "ZX":
            yield int(name), int(fields[1])


def marked(mark: str) -> set[int]:
    """Return the living processes with a mark, or one that begins so, and all below them."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for pid, _ in processes():
        environ = b"\0" + _read(f"/proc/{pid}/environ")
        is_marked = b"\0" + wanted + b"\0" in environ or b"\0" + wanted + b"/" in environ
        if pid != os.getpid() and is_marked:
            found |= {pid, *below(pid)}
    return found


def below(root: int) -> list[int]:
    """Return the living descendants of a process, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [root]
    while queue:
        fresh = children.pop(queue.pop(0), [])
        found += fresh
        queue += fresh
    return found


def busy_seconds(root: int) -> float:
    """Return the processor seconds used below `root`, by living and by already reaped processes."""
    dead = resource.getrusage(resource.RUSAGE_CHILDREN)
    fields = (_stat_fields(pid) for pid in below(root))
    ticks = sum(
        int(field[11]) + int(field[12]) + int(field[13]) + int(field[14]) for field in fields if field
    )
    return dead.ru_utime + dead.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


class Idle:
    """Detects that nothing happened below the shim for too long: no output, next to no processor time."""

    def __init__(self, limit: float, now: float, busy_path: str | None) -> None:
        self.limit = limit
        self.busy_path = busy_path
        self.step = min(5.0, limit / 4)
        self.looked = self.active = now
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # The use of the shim's earlier workers is not this one's.
        self.seen = (0, before.ru_utime + before.ru_stime)

    def reached(self, now: float, written: Callable[[], int]) -> bool:
        """Measure, at most once a step, and return whether the limit is reached."""
        if now - self.looked < self.step:
            return False
        output, busy = written(), busy_seconds(os.getpid())
        # A CLI that only waits uses up to a hundredth of the time, more on a busy machine: not work.
        if (
            (self.busy_path and os.path.lexists(self.busy_path))
            or output != self.seen[0]
            or busy - self.seen[1] > (now - self.looked) * WORKS
        ):
            self.active = now
        self.looked, self.seen = now, (output, busy)
        return now - self.active >= self.limit


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty for a process that is gone."""
    # The name of a program may hold blanks and brackets: the last bracket ends it.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()


def _read(path: str) -> bytes:
    """Read a file of a process; empty where that is gone, or another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, 4096), b""))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
