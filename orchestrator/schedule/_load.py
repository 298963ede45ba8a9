"""How busy the machine is, and how full: psutil for the machine, cgroup files for a container's own limit."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/")
_CACHES = ("active_file", "inactive_file", "slab_reclaimable")
"""What the kernel gives back before it runs out: to read a large checkout is not to fill the memory."""


class Load(NamedTuple):
    """Processor seconds spent busy and idle since the machine started, and percent of the memory in use."""

    busy: float
    idle: float
    memory: float
    total: int = 0
    """Bytes of which that is so many percent; 0 where nobody knows."""


def measured() -> Load:
    """Look at this machine. Where a container may have less memory than the machine has, that counts."""
    import psutil  # noqa: PLC0415 - for start-up time: 15 ms, and only a runtime needs it

    memory = psutil.virtual_memory()
    used = [(memory.percent, memory.total)]
    used += [(100 * used / limit, limit) for used, limit in limited(memory.total)]
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts the time of virtual machines a second time.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return Load(sum(times) - guests - idle, idle, *max(used))


def limited(total: int, root: Path = _ROOT) -> Iterator[tuple[int, int]]:
    """Give (bytes in use, limit) of each cgroup around us that may have less than `total` bytes."""
    for folder, limit_name, used_name, prefix in _groups(root):
        try:
            limit = int((folder / limit_name).read_text())
            if not 0 < limit < total:
                continue
            used = int((folder / used_name).read_text())
            lines = (folder / "memory.stat").read_text().splitlines()
            said = dict(line.split(" ", 1) for line in lines if " " in line)
            spare = sum(int(said.get(f"{prefix}{name}", 0)) for name in _CACHES)
        except (OSError, ValueError):
            continue  # "max", or not there: a group that limits nothing
        yield max(0, used - spare), limit


def _groups(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Give the memory groups that we are in, innermost first, with the names that their version has."""
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
        # In a container the path may be the host's, and not be there; the mount itself is ours.
        folder = mount / path.lstrip("/")
        yield from ((group, *names) for group in (folder, *folder.parents) if group.is_relative_to(mount))
