"""Landlock by ctypes: limits writes to a few paths, without any privilege. Standard library only.

It limits writes and, from the sixth version on, signals and abstract sockets. It hides nothing, and does not
limit chmod, chown or times. A right here is an access right of `linux/landlock.h`.
"""

# pathlib would be a third of the start-up time:
# ruff: noqa: PTH112
import ctypes
import os
import signal
import sys
from contextlib import suppress

from workers.shim._programs import RESET

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_GIVE_VERSION = 1
_NO_NEW_PRIVS = 38
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
           "/dev/pts")  # fmt: skip


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    found = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GIVE_VERSION))
    return max(0, int(found))


def restrict(writable: list[str]) -> None:
    """Limit the writes of this process and its children to these paths and below. Raises OSError.

    It cannot be undone. Call it with one thread only: others would not be limited.
    """
    known = version()
    if not known:
        raise OSError(38, "the kernel has no Landlock")
    handled = WRITE_FILE | REMOVE_AND_MAKE | (REFER if known >= 2 else 0) | (TRUNCATE if known >= 3 else 0)
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if known >= 6 else 0
    rules = _Ruleset(handled, 0, scoped)
    # Older kernels refuse what is longer than they know, unless the rest is zero; zero it is.
    ruleset = _call(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    try:
        for path in (*writable, *DEVICES):
            with suppress(FileNotFoundError):
                _allow(ruleset, path, handled)
        if _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs")
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), 0)
    finally:
        os.close(ruleset)


def start_held(
    program: str, argv: list[str], env: dict[str, str], ends: tuple[int, ...], writable: list[str]
) -> int:
    """Start a program that may write only there; return its process id. Raises OSError.

    For a process of one thread: between fork and exec our own code runs.
    """
    hears, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in RESET:
                with suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.setsid()
            for target, descriptor in enumerate(ends):
                os.dup2(descriptor, target)
            restrict(writable)
            os.execve(program, argv, env)  # noqa: S606 - a shell is what nobody wants here
        except OSError as error:
            os.write(says, str(error.errno or 0).encode())
        finally:
            os._exit(127)
    os.close(says)
    said = os.read(hears, 64)
    os.close(hears)
    if said:
        os.waitpid(pid, 0)
        raise OSError(int(said), os.strerror(int(said)))
    return pid


def _allow(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        # A rule for a file may hold no right that only folders have.
        allowed = rights if os.path.isdir(path) else rights & (WRITE_FILE | TRUNCATE)
        rule = _Beneath(allowed, parent)
        _call(_ADD_RULE, ctypes.c_int(ruleset), _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _call(number: int, *arguments: object) -> int:
    found = _libc().syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return int(found)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
