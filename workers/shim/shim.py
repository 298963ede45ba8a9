"""The small process that holds one worker: starts and limits it, waits for its whole tree, records its end.

It is forked by the fork server, is the subreaper of all that the worker starts, and outlives the runtime.
Once nothing of its worker is left it may hold another: a fork costs as much again as all that it does.
Standard library only, and little of it: what is imported here is start-up time of every run.
"""

# pathlib would be a third of that time:
# ruff: noqa: PTH123
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

from workers.shim._capture import Stream
from workers.shim._programs import is_there, start_failure
from workers.shim.atomic import create_whole
from workers.shim.processes import Idle, below, processes
from workers.shim.start import Keeper, fence_failure, killed_by, start_worker

SCHEMA = 1
TICK = 0.1
"""Seconds between two polls of cancel files, sizes and idleness."""
SIGNALLED = "a signal"
"""The text for a worker whose cancel file names no cause."""
UNKILLABLE = 30.0
"""Seconds after which a tree that does not exit is given up and named in the record."""
LINUX = sys.platform.startswith("linux")
PR_SET_CHILD_SUBREAPER = 36


class System(NamedTuple):
    """The values that are the same for all shims of a fork server."""

    boot_id: str
    """Identifies one boot of this machine; empty where the system has no such id."""
    prctl: Any
    """The function of the C library; None where there is no subreaper."""


def look_at_system() -> System:
    """Read once, in the fork server, the facts that every shim needs."""
    boot = ""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return System(boot, ctypes.CDLL(None).prctl if LINUX else None)


def become_shim(system: System) -> int:
    """Turn a process just forked into a shim; return the descriptor that wakes its waits."""
    os.setsid()
    if system.prctl is not None:
        system.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, signalled = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return wake


class Shim:
    """The work of a shim for one worker, from its launch to its record."""

    def __init__(
        self, spec: dict[str, Any], locks: list[int], channel: int, wake: int, system: System
    ) -> None:
        self.spec = spec
        self.locks = locks
        self.channel = channel
        self.wake = wake
        self.system = system
        self.pid: int | None = None
        self.status: int | None = None
        self.claim = -1
        self.used = 0.0
        self.peak = 0
        self.childless = False
        self.told = 0
        self.orphaned = False
        self.end = ""
        self.error = ""
        self.cancelled_by = ""
        self.killed: set[int] = set()
        self.own: set[int] = set()
        """The worker itself, and the wrappers between it and us: none of them is a survivor."""
        self.left = 0
        self.keeper: Keeper | None = None
        self.streams: list[Stream] = []
        self.poll = select.poll()
        self.began = time.time()
        self.clock = time.monotonic()

    def live(self) -> bool:
        """Hold the worker until it and all below it have exited and the record is written.

        Returns whether it left nothing behind, so that this process may hold another.
        """
        signal.signal(signal.SIGTERM, self._tell)
        signal.signal(signal.SIGINT, self._tell)
        try:
            self.poll.register(self.wake, select.POLLIN)
            if self._start():
                self._watch()
                self._stop()
        except BaseException as error:  # noqa: BLE001 - whatever happens, the tree dies and a record says so
            self.end, self.error = "shim_error", f"{type(error).__name__}: {error}"
        try:
            self._kill_below()
            self._read_keeper()
            for stream in self.streams:
                stream.close()
                if stream.cut and self.end == "exited":
                    self.end = "output_cap"
        except BaseException as error:  # noqa: BLE001 - as above
            self.end, self.error = "shim_error", f"{type(error).__name__}: {error}"
        return self._finish()

    def _tell(self, *_: object) -> None:
        self.told += 1

    def _start(self) -> bool:
        """Start the worker; on failure note the reason in plain words and return False."""
        spec, argv, limits = self.spec, self.spec["argv"], self.spec["limits"]
        what = f"cannot create {spec['started_record']}"
        try:
            # Locked for life: its lock shows any reader of this file whether this shim is alive.
            try:
                self.claim = os.open(spec["started_record"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                # A later runtime waited for us in vain, and starts this worker itself.
                self._free_slots()
                os._exit(0)
            fcntl.flock(self.claim, fcntl.LOCK_EX)
            if self._cancelled():
                self.end = "cancelled"
                return False
            for name in ("stdout", "stderr"):
                what = f"cannot create {spec[name]}"
                self.streams.append(Stream(name, spec[name], limits["output_cap"]))
            what = f"cannot read {spec['stdin']}"
            stdin = os.open(spec["stdin"], os.O_RDONLY)
            what = f"cannot enter {spec['cwd']}"
            os.chdir(spec["cwd"])
            what = f"cannot start {argv[0]}"
            ends = (stdin, self.streams[0].sink, self.streams[1].sink)
            self.pid, self.keeper = start_worker(spec, ends)
            self.own = {self.pid}
        except OSError as error:
            self.end = "not_started"
            self.error = start_failure(what, argv[0], error.errno or 0, there=is_there(argv[0]))
            return False
        os.chdir("/")  # a worktree can be unmounted or removed below a worker, not below its shim
        os.close(stdin)
        for stream in self.streams:
            stream.started()
            if stream.source >= 0:
                self.poll.register(stream.source, select.POLLIN)
        if spec["stops_with_runtime"]:
            self.poll.register(self.channel, 0)  # a hang-up is always reported: no runtime listens any more
        who = {"schema": SCHEMA, "worker": spec["worker"], "pid": self.pid, "shim_pid": os.getpid()}
        os.write(
            self.claim,
            json.dumps({**who, "boot_id": self.system.boot_id, "started": _utc(self.began)}).encode(),
        )
        return True

    def _watch(self) -> None:
        """Wait until the worker ends or a limit is reached."""
        limits = self.spec["limits"]
        total = None if limits["total"] is None else self.clock + limits["total"]
        ticking = self.spec["cancel_paths"] or limits["idle"]
        idle = Idle(limits["idle"], self.clock, self.spec["busy_path"]) if limits["idle"] else None
        while not self.end:
            now = time.monotonic()
            until = now + TICK if ticking else total
            self._wait(until if total is None or until is None else min(until, total))
            now = time.monotonic()
            if self.status is not None:
                self.end = "exited"
            elif any(stream.over() for stream in self.streams):
                self.end = "output_cap"
            elif self._cancelled():
                self.end = "cancelled"
            elif self.orphaned:
                self.end, self.cancelled_by = "cancelled", "the death of its runtime"
            elif total is not None and now >= total:
                self.end = "timed_out"
            elif idle is not None and idle.reached(now, self._written):
                self.end = "idle"

    def _stop(self) -> None:
        """Ask the worker to end, and wait for its grace; a flooding worker gets half a second of it."""
        if self.status is not None or (self.keeper and "started" not in self.keeper.messages()):
            return
        grace = self.spec["limits"]["grace"]
        until = time.monotonic() + (min(grace, 0.5) if self.end == "output_cap" else grace)
        for pid in self._soft_targets():
            _send(pid, self.spec["soft_signal"])
        # A second signal means: at once. It may have come before we saw the file.
        asked = 1 if self.cancelled_by == SIGNALLED else 0
        while self.status is None and time.monotonic() < until and self.told <= asked:
            self._wait(min(until, time.monotonic() + TICK))
            if self.end != "output_cap" and any(stream.over() for stream in self.streams):
                return

    def _soft_targets(self) -> list[int]:
        """Return the process that is asked to end: the worker, or the one that its wrappers wrap."""
        assert self.pid is not None  # noqa: S101 - only called for a worker that was started
        found = [self.pid]
        for _ in range(self.spec["soft_depth"]):
            children = sorted(pid for pid, parent in processes() if parent in found)
            # The oldest: orphans inside a fence become children of its keeper, beside the worker.
            found = children[:1] or found
            self.own |= set(found)
        return found

    def _kill_below(self) -> None:
        """Kill all processes that remain below, and wait until they have exited. No scan if none remains."""
        if self.pid is None:
            return
        until = time.monotonic() + UNKILLABLE
        self._reap()
        while not self.childless:
            # Frozen first, until a scan finds none that runs: a fork bomb would outrun single kills.
            frozen: set[int] = set()
            while fresh := set(below(os.getpid())) - frozen:
                for pid in fresh:
                    _send(pid, signal.SIGSTOP)
                frozen |= fresh
            for pid in frozen:
                _send(pid, signal.SIGKILL)
            self.killed |= frozen - self.own
            self._wait(time.monotonic() + TICK)
            if time.monotonic() > until and not self.childless:
                left = ", ".join(str(pid) for pid in below(os.getpid()))
                raise TimeoutError(f"processes below could not be killed: {left}")
        if self.system.prctl is None:
            _send(-self.pid, signal.SIGKILL)  # orphans are not re-parented to us here: the group finds some

    def _read_keeper(self) -> None:
        """Read the messages of the keeper inside a fence; bubblewrap knows less of how the worker ended."""
        if self.keeper is None:
            return
        words = self.keeper.messages()
        if "ended" in words:
            self.status, self.left = words["ended"]
            return
        killed = None if self.status is None else killed_by(self.status)
        # As a wait status: a wrapper killed around a worker counts as a death by signal, like its own.
        self.status = killed or self.status
        if "started" not in words and self.end == "exited":
            self.end, self.pid, self.status = "not_started", None, killed
            self.error = fence_failure(self.spec, words.get("failed"), killed)

    def _wait(self, until: float | None) -> None:
        """Sleep until a child changes, output comes, a signal arrives or the time is over; then reap."""
        span = None if until is None else max(0.0, until - time.monotonic()) * 1000
        for descriptor, _ in self.poll.poll(span):
            if descriptor == self.wake:
                os.read(self.wake, 4096)
                self._reap()
                continue
            if descriptor == self.channel:
                self.orphaned = True
                self.poll.unregister(descriptor)
                continue
            for stream in self.streams:
                if stream.source == descriptor:
                    stream.pump()
                    if stream.source < 0:
                        self.poll.unregister(descriptor)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, use = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            # Not what the system counts for all our children: there were others before this worker.
            self.used += use.ru_utime + use.ru_stime
            self.peak = max(self.peak, use.ru_maxrss)
            if pid == self.pid:
                self.status = status

    def _cancelled(self) -> bool:
        found = (path for path in self.spec["cancel_paths"] if os.path.lexists(path))
        self.cancelled_by = next(found, SIGNALLED if self.told else "")
        return bool(self.cancelled_by)

    def _written(self) -> int:
        return sum(stream.size for stream in self.streams)

    def _record(self) -> dict[str, Any]:
        now = time.time()
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        sizes = {f"{stream.name}_bytes": stream.size for stream in self.streams}
        return {
            "schema": SCHEMA,
            "worker": self.spec["worker"],
            "pid": self.pid,
            "shim_pid": os.getpid(),
            "boot_id": self.system.boot_id,
            "started": _utc(self.began),
            "ended": _utc(now),
            "seconds": round(time.monotonic() - self.clock, 3),
            "end": self.end,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "error": self.error,
            "cancelled_by": self.cancelled_by,
            "survivors": len(self.killed) + self.left,
            "stdout_bytes": 0,
            "stderr_bytes": 0,
            **sizes,
            "cut": [stream.name for stream in self.streams if stream.cut],
            "cpu_seconds": round(self.used, 3),
            "max_rss_kb": self.peak if LINUX else self.peak // 1024,
        }

    def _finish(self) -> bool:
        """Write the record, free the slots, notify the runtime: in this order, so that no one sees less."""
        record = self._record()
        try:
            create_whole(self.spec["exit_record"], json.dumps(record).encode(), 0o600)
        except OSError as error:
            record["error"] = record["error"] or f"cannot write {error.filename}: {error.strerror}"
        self._free_slots()
        if self.claim >= 0:
            os.close(self.claim)
        # Before the notification: from here on a signal is for no worker, and ends this process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        may_go_on = self.end == "exited" and self.childless and not (self.told or self.killed or self.left)
        notify(self.channel, record, waits=may_go_on)
        return may_go_on

    def _free_slots(self) -> None:
        # An empty slot file is a clean one: one whose tree may live on keeps its holder's name, and is dirty.
        for lock in self.locks:
            if self.childless or self.pid is None:
                os.ftruncate(lock, 0)
            os.close(lock)


def notify(channel: int, record: dict[str, Any], *, waits: bool = False) -> None:
    """Notify the runtime of the end, and whether this process waits for another worker (`+`, else `-`).

    If no runtime listens, the file informs its successor.
    """
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(channel, (b"+" if waits else b"-") + json.dumps(record).encode())


def _send(pid: int, number: int) -> None:
    # Already gone, or not ours to kill: the next scan shows which.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"
