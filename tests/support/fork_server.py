"""Calls of the console script without its imports: a process that has them forks for each call.

Half of what a call costs is the start of Python and the imports, and the tests make thousands of calls. Here
a call is one process with its own arguments, folder, environment, standard streams and end, as it is with
`subprocess.run`; only that its modules are there already. What a test says of the start itself, of signals,
of limits or of the process table starts the real script.
"""

import array
import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

OURS = ("orchestrator", "tickets", "workers")
OF_THE_INTERPRETER = ("PYTHON", "LC_", "LD_", "LANG", "MALLOC_", "GLIBC_", "PYDANTIC_")
"""Beginnings of variables that Python, its C library or an import reads at the start."""
MOST_BYTES = 1 << 20


class Forked:
    """One server, for the calls of one process; several threads may call at once."""

    def __init__(self, script):
        self._script = str(script)
        self._process = self._socket = None
        self._lock = threading.Lock()

    def can(self, env):
        """Return whether a call with this environment is the same by fork as by a start."""
        return all(
            os.environ.get(name) == value
            for name, value in env.items()
            if name.startswith(OF_THE_INTERPRETER)
        )

    def run(self, arguments, cwd, env):
        """Call the script; return its exit code as `subprocess` has it, its output and its errors."""
        pipes = [os.pipe() for _ in range(2)]
        ours, theirs = socket.socketpair()
        with ours, Path(os.devnull).open("rb") as nothing:
            try:
                told = json.dumps([self._script, *map(str, arguments)]), str(cwd), json.dumps(dict(env))
                self._send(
                    "\0".join(told).encode(errors="surrogateescape"),
                    [nothing.fileno(), pipes[0][1], pipes[1][1], theirs.fileno()],
                )
            finally:
                theirs.close()
                for _, end in pipes:
                    os.close(end)
            pid = 0
            try:
                pid = int(_line(ours))
                out, err = _read_all([end for end, _ in pipes])
                return int(_line(ours)), out, err
            except BaseException:
                if (
                    pid
                ):  # as `subprocess.run` does: the server has not seen its end, so that the id is its own
                    os.kill(pid, signal.SIGKILL)
                raise
            finally:
                for end, _ in pipes:
                    os.close(end)

    def _send(self, told, descriptors):
        with self._lock:
            if self._process is None:
                self._start()
            assert len(told) < MOST_BYTES, "too long for one message to the fork server"
            self._socket.sendmsg(
                [told], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            )

    def _start(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
        atexit.register(self.close)

    def close(self):
        """End the server, and see it dead."""
        self._socket.close()
        self._process.wait()


def _line(stream):
    """Read one line of the server's, or fail: it has gone."""
    found = b""
    while not found.endswith(b"\n"):
        part = stream.recv(1)
        assert part, "the fork server has ended"
        found += part
    return found


def _read_all(ends):
    """Read pipes to their ends, whoever of the call's descendants holds them."""
    found = {end: [] for end in ends}
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                part = os.read(key.fd, 1 << 16)
                found[key.fd].append(part)
                if not part:
                    selector.unregister(key.fd)
    return [b"".join(parts) for parts in found.values()]


def _import_ours():
    """Import every module of the program that a command may need."""
    import gc
    import importlib
    import pkgutil

    for package in map(importlib.import_module, OURS):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


def serve(descriptor):
    """Fork for each call until the socket ends; return the call's arguments in a child, None in the end."""
    calls = socket.socket(fileno=descriptor)
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    answers = {}
    with selectors.DefaultSelector() as selector:
        selector.register(calls, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(1 << 12)
                    _tell_ends(answers)
                    continue
                told, descriptors, *_ = socket.recv_fds(calls, MOST_BYTES, 4)
                if not told:
                    return None
                answer = socket.socket(fileno=descriptors.pop())
                pid = os.fork()
                if not pid:
                    for one in (calls, woken, wakes, answer, *answers.values()):
                        one.close()
                    return _become(told, descriptors)
                answers[pid] = answer
                answer.sendall(b"%d\n" % pid)
                for one in descriptors:
                    os.close(one)


def _tell_ends(answers):
    while answers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with answers.pop(pid) as answer:
            try:
                answer.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:
                continue  # its caller has given up


def _become(told, descriptors):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, one in enumerate(descriptors):
        os.dup2(one, number)
        os.close(one)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (
        os.fdopen(one, "w", buffering=-1 if one == 1 else 1, closefd=False) for one in (1, 2)
    )
    words, cwd, env = told.decode(errors="surrogateescape").split("\0")
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(json.loads(env))
    return json.loads(words)


def _end(main):
    """End as the script does, but leave the modules where they are: that is half of a short call."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path.pop(0)
    import _orchestrate

    _import_ours()
    found = serve(int(sys.argv[1]))
    if found is not None:
        sys.argv[:] = found
        _end(_orchestrate.main)
