"""Workers below shims: started, waited for, and found again after a runtime's death."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from workers.errors import WorkerError
from workers.files.exit_record import Exit, is_held, parsed_exit, read_exit
from workers.files.run_dir import read_json
from workers.shim import processes as descendants
from workers.shim.spec import Launch

RUNTIME_DIED = "the death of its runtime"
"""`Exit.cancelled_by` of a worker that `stops_with_runtime`; the shim knows this text, too."""
NEVER_STARTED = "its runtime died before it was started"
"""`Exit.error` of a launch that no shim had begun."""
MARK = descendants.MARK
"""The variable by which a worker's processes are found once its shim is gone."""
_LARGEST = 1 << 16
"""Bytes of a message to or from a shim, at most; `workers.shim.fork_server` knows it, too."""
_FORK_SERVER = Path(__file__).resolve().parents[1] / "shim" / "fork_server.py"
_DESCRIPTORS = Path("/proc/self/fd")
_SEND_DEADLINE = 10.0
_DEATH_DEADLINE = 10.0
_APPEARS = 1.0
_ATTEMPTS = 2


class ForkServer:
    """The fork server of shims: one warm process, restarted when it has died."""

    def __init__(self, python: str, log: Path) -> None:
        self._python = python
        self._log = log
        self._lock = anyio.Lock()
        self._socket: socket.socket | None = None
        self._process: anyio.abc.Process | None = None
        self._waiting: list[socket.socket] = []
        """The channels of shims that wait for another worker."""

    @property
    def pid(self) -> int | None:
        """The process id of the warm process, None before the first and between two."""
        return None if self._process is None else self._process.pid

    async def run(self, launch: Launch, lock_fds: Sequence[int] = ()) -> Exit:
        """Start a worker and wait until all of its processes have exited.

        Cancelling the wait leaves shim and worker running: `stop` ends them, `wait_adopted` finds them.
        The shim holds the locks behind `lock_fds` from here on, and empties their files at its end.
        Raises WorkerError if no shim is available.
        """
        for _ in range(_ATTEMPTS):
            if found := await self._attempt(launch, lock_fds):
                return found._replace(worker=launch.worker)
            if launch.started_record.exists():
                return await _lost(launch.worker, launch.mark)
            # A shim's first act is to make that file. Without it there was no shim: once more is safe.
        raise WorkerError(f"no shim can be started: the fork server exits at once; see {self._log}")

    async def start(self) -> None:
        """Start the fork server; called by `open_fork_server`, and again when it has died."""
        ours, theirs = socket.socketpair()
        with theirs, self._log.open("ab") as log:
            # Its own session: Ctrl-C is for the runtime. None of the runtime's secrets in its environment.
            self._process = await anyio.open_process(
                [self._python, "-I", "-S", "-X", "utf8", str(_FORK_SERVER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={
                    **_language(),
                    "LD_BIND_NOW": "1",
                },  # otherwise each shim resolves the same symbols again
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours

    async def close(self) -> None:
        """End the fork server and the shims without a worker, and wait until they exit; others live on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        waiting, self._waiting = self._waiting, []
        with anyio.CancelScope(shield=True), anyio.move_on_after(_DEATH_DEADLINE):
            for channel in waiting:
                with suppress(OSError):  # its shim has ended
                    channel.shutdown(socket.SHUT_WR)
            for channel in waiting:
                await _read_once(channel)
        for channel in waiting:
            channel.close()
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(_DEATH_DEADLINE):
                    await self._process.wait()
                if self._process.returncode is None:
                    self._process.kill()  # one that is stopped never sees that its socket is gone
                await self._process.aclose()
            self._process = None

    async def _attempt(self, launch: Launch, lock_fds: Sequence[int]) -> Exit | None:
        """Send a launch and wait; None where no record has its end."""
        channel = await self._launched(_spec(launch), list(lock_fds))
        told = b""
        try:
            told = await _read_once(channel)
        finally:
            if told[:1] == b"+" and self._socket is not None:
                self._waiting.append(channel)  # that shim can take another one
            else:
                channel.close()
        return parsed_exit(told[1:]) if told else read_exit(launch.exit_record)

    async def _launched(self, spec: bytes, locks: list[int]) -> socket.socket:
        """Send a launch to a waiting shim, else to a fresh one; return the channel to it."""
        while self._waiting and len(spec) <= _LARGEST:
            channel = self._waiting.pop()
            try:
                socket.send_fds(channel, [spec], locks)
            except OSError:
                channel.close()  # its shim ended while it waited
                continue
            return channel
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.setblocking(False)
        try:
            with theirs:
                # Half a launch would garble all that follow: a cancel waits until it is sent.
                with anyio.CancelScope(shield=True):
                    await self._hand_over(spec, [*locks, theirs.fileno()])
        except BaseException:
            channel.close()
            raise
        return channel

    async def _hand_over(self, spec: bytes, descriptors: list[int]) -> None:
        async with self._lock:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    with anyio.fail_after(_SEND_DEADLINE):
                        if self._socket is None:
                            await self.start()
                        await self._send(spec, descriptors)
                except (OSError, TimeoutError) as error:
                    # A launch that was not taken whole was not started: sending it to the next one is safe.
                    await self.close()
                    if attempt == _ATTEMPTS:
                        raise WorkerError(f"no shim can be started: {error}; see {self._log}") from error
                else:
                    return

    async def _send(self, spec: bytes, descriptors: list[int]) -> None:
        channel = self._socket
        assert channel is not None  # noqa: S101 - `_hand_over` has just started it
        left = memoryview(len(spec).to_bytes(4, "big") + spec)
        while left:
            try:
                # In one piece where it fits: the fork server wakes once.
                sent = socket.send_fds(channel, [left], descriptors) if descriptors else channel.send(left)
                left, descriptors = left[sent:], []
            except BlockingIOError:
                await anyio.wait_writable(channel)


@asynccontextmanager
async def open_fork_server(log: Path, python: str = sys.executable) -> AsyncIterator[ForkServer]:
    """Keep a fork server for the block; its workers may outlive it."""
    fork_server = ForkServer(python, log)
    await fork_server.start()
    try:
        yield fork_server
    finally:
        await fork_server.close()


async def stop(launch: Launch) -> Exit:
    """Stop a worker by its first cancel file, and wait until all of its processes have exited."""
    if not launch.cancel_paths:
        raise WorkerError(f"{launch.worker}: it has no cancel file to be stopped by; name one in its launch")
    launch.cancel_paths[0].touch()
    return await wait_adopted(launch.worker, launch.exit_record, launch.started_record, mark=launch.mark)


async def wait_adopted(
    worker: str, exit_record: Path, started_record: Path, *, mark: str = "", poll: float = 0.05
) -> Exit:
    """Wait for a worker that another runtime started; `lost` if its shim is gone and left no record."""
    until, looks = time.monotonic() + _APPEARS, 2
    while True:
        has_begun = _has_text(started_record)  # before its lock is read: it may begin in between
        living = is_held(started_record)  # before the record is read: it may be written in between
        if found := read_exit(exit_record):
            return found
        if has_begun and not living:
            lost = await _lost(worker, mark)
            return (
                lost._replace(error="the machine was restarted") if _of_earlier_boot(started_record) else lost
            )
        # The runtime may have died while its last launch was on its way: its shim has no record yet.
        if not living and time.monotonic() > until:
            looks -= 1
            if _is_claimed(started_record) or not looks:
                return (await _lost(worker, mark))._replace(error=NEVER_STARTED)
            until = time.monotonic() + _APPEARS
        await anyio.sleep(poll)


def stopped_with_runtime(ended: Exit) -> bool:
    """Return whether a worker was stopped or lost with its runtime, and not by its own fault."""
    if ended.end == "lost":
        return True
    return ended.end == "cancelled" and (
        ended.cancelled_by == RUNTIME_DIED or ended.cancelled_by.endswith("/cancel/.runtime")
    )


def kill_at_once(started_record: Path) -> None:
    """Let the shim of a worker that is being stopped kill it without grace; a lock shows that it lives."""
    with suppress(OSError):
        if is_held(started_record):
            pid = (read_json(started_record) or {}).get("shim_pid")
            # A worker may have written another process's id there: a shim has its own record open.
            if type(pid) is int and pid > 1 and _has_open(pid, started_record):
                os.kill(pid, signal.SIGTERM)


def kill_marked(mark: str) -> int:
    """Kill every process with a mark, or one that begins so, and all below it; return how many, once dead.

    Raises WorkerError naming those that do not exit.
    """
    if not mark:
        return 0
    killed: set[int] = set()
    until = time.monotonic() + _DEATH_DEADLINE
    while found := descendants.marked(mark):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        killed |= found
        if time.monotonic() > until:
            left = ", ".join(str(pid) for pid in sorted(found))
            raise WorkerError(f"processes {left}: could not be killed; kill them yourself")
        time.sleep(0.002)
    return len(killed)


def _has_text(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_size > 0
    return False


def _is_claimed(started_record: Path) -> bool:
    """Create the file that a shim begins with, so that none begins from here on; False where one has."""
    try:
        os.close(os.open(started_record, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _of_earlier_boot(started_record: Path) -> bool:
    """Return whether a shim was started before the machine was; nothing of it can live."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return bool((read_json(started_record) or {}).get("boot_id", boot) != boot)
    return False


def _has_open(pid: int, path: Path) -> bool:
    """Return whether a process has a file open; true where the system does not show it."""
    if not _DESCRIPTORS.is_dir():
        return True
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if one.samefile(path):
                return True
    return False


async def _lost(worker: str, mark: str) -> Exit:
    survivors = await anyio.to_thread.run_sync(kill_marked, mark) if mark else 0
    return Exit(worker, "lost", error="its shim is gone and left no record", survivors=survivors)


def _spec(launch: Launch) -> bytes:
    fields = launch._asdict()
    for name in ("cwd", "stdin", "stdout", "stderr", "started_record", "exit_record"):
        fields[name] = str(fields[name])
    fields["busy_path"] = None if launch.busy_path is None else str(launch.busy_path)
    fields["env"] = {**launch.env, **({MARK: launch.mark} if launch.mark else {})}
    fields["limits"] = launch.limits._asdict()
    fields["cancel_paths"] = [str(path) for path in launch.cancel_paths]
    return json.dumps(fields).encode()


def _language() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("LC_", "LANG"))}


async def _read_once(channel: socket.socket) -> bytes:
    """Return the next message of a channel; nothing once its other end is gone."""
    while True:
        await anyio.wait_readable(channel)  # before the first read: there can be no answer yet
        try:
            return channel.recv(_LARGEST)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            return b""
