"""The warm process that shims are forked from: single-threaded, so that a fork is cheap and safe.

Run by its path as `python -I -S fork_server.py FD`. It reads launches from the socket FD, forks a shim
for each, and ends when that socket closes; its shims live on.
A launch is four bytes of length, with descriptors attached (locks of slots, then the end of a channel on
which the runtime hears of that shim), and a JSON object. A shim that has nothing left below it takes
another launch from its channel, there without the length and with the locks alone, and ends when its
runtime is gone.
"""

import gc
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.shim import shim

MAX_DESCRIPTORS = 64
LARGEST = 1 << 16
"""The most bytes of a launch through a channel; larger ones go to a fresh shim."""


def main(argv: list[str]) -> None:
    """Serve launches from the socket whose descriptor is given until it closes."""
    if len(argv) != 1 or not argv[0].isdigit():
        sys.exit("fork server: unknown arguments; run as `fork_server.py FD`")
    # -I hides our folder; it is added at the end, so that no module of it shadows the standard library.
    sys.path.append(__file__.rsplit(os.sep, 3)[0])
    serve(socket.socket(fileno=int(argv[0])))


def serve(launches: socket.socket) -> None:
    """Fork a shim for each launch; return when the other end is gone."""
    from workers.shim import shim  # noqa: PLC0415 - found only once `main` has said where

    launches.set_inheritable(False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a shim that hears of no end would wait for its limits
    system = shim.look_at_system()
    # Ignored: the kernel reaps ended shims, and the fork server waits for nothing but its socket.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.disable()
    gc.freeze()
    while launch := _receive(launches):
        body, descriptors = launch
        try:
            forked = os.fork()
        except OSError as error:
            shim.notify(descriptors[-1], {"end": "not_started", "error": f"cannot fork: {error.strerror}"})
            forked = -1
        if forked == 0:
            try:
                os.close(launches.detach())
                _hold(body, descriptors, system)
            finally:
                os._exit(0)  # never back into this loop: there would be two fork servers
        for descriptor in descriptors:
            os.close(descriptor)


def _hold(body: bytes, descriptors: list[int], system: "shim.System") -> None:
    """Hold one worker as its shim, and others after it while there are any."""
    from workers.shim import shim  # noqa: PLC0415 - as above

    wake = shim.become_shim(system)
    *locks, end = descriptors
    with socket.socket(fileno=end) as channel:
        while body and shim.Shim(json.loads(body), locks, end, wake, system).live():
            body, locks, _, _ = socket.recv_fds(channel, LARGEST, MAX_DESCRIPTORS)
            for lock in locks:
                os.set_inheritable(lock, False)


def _receive(launches: socket.socket) -> tuple[bytes, list[int]] | None:
    """Read one launch; None once the other end is closed, also in the middle of one."""
    head, descriptors, _, _ = socket.recv_fds(launches, 4, MAX_DESCRIPTORS)
    for descriptor in descriptors:
        # recv_fds ignores its flags: a worker that inherits a slot's lock would hold the slot after its shim.
        os.set_inheritable(descriptor, False)
    size, body = int.from_bytes(head, "big"), b""
    while len(head) == 4 and len(body) < size and (part := launches.recv(size - len(body))):
        body += part
    return (body, descriptors) if body and len(body) == size else None


if __name__ == "__main__":
    main(sys.argv[1:])
