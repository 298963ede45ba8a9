"""Landlock by ctypes: limits reads and writes to a few paths, without any privilege. Standard library only.

From the sixth version on it limits signals and abstract sockets, too. It hides no name, and does not limit
chmod, chown, times, or connections to sockets with a path. A right here is an access right of
`linux/landlock.h`.
"""

# pathlib would be a third of the start-up time:
# ruff: noqa: PTH112
import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

from workers.shim.keyring import keyring_filter

RESET = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""Signals whose handlers a started program must not inherit."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_GIVE_VERSION = 1
_NO_NEW_PRIVS, _SECURE_BITS, _SECCOMP, _FILTER = 38, 28, 22, 2
_NO_ROOT = 0b1111
"""Neither the number 0 of a user nor a change to it gives capabilities, for good."""
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READ = EXECUTE | READ_FILE | READ_DIR
TRUNCATE, REFER = 1 << 14, 1 << 13
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
"""Where our packages are: Python lists a folder before it imports from it. Its other files stay closed."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
           "/dev/pts")  # fmt: skip


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    found = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GIVE_VERSION))
    return max(0, int(found))


def restrict(writable: list[str], readable: list[str], listed: Sequence[str] = ()) -> None:
    """Limit this process and its children to these paths and below. Raises OSError.

    The folders `listed`, and those below, show the names that are in them and no content.
    It cannot be undone. Call it with one thread only: others would not be limited.
    """
    known = version()
    if not known:
        raise OSError(38, "the kernel has no Landlock")
    writes = WRITE_FILE | REMOVE_AND_MAKE | (REFER if known >= 2 else 0) | (TRUNCATE if known >= 3 else 0)
    rights = {
        "/dev": READ_DIR,
        **dict.fromkeys((OURS, *listed), READ_DIR),
        **dict.fromkeys(readable, READ),
        **dict.fromkeys(DEVICES, READ | writes),
    }
    _enter(READ | writes, {**rights, **dict.fromkeys(writable, READ | writes)}, known)
    if os.geteuid() == 0:
        # Root passes by most of what guards other processes and devices as long as it has capabilities.
        with suppress(PermissionError):  # a root that may not give them up has next to none
            _prctl(_SECURE_BITS, _NO_ROOT, "no capabilities of root")
    if steps := keyring_filter():
        _prctl(_SECCOMP, _FILTER, "a filter of system calls", ctypes.byref(_Program(len(steps) // 8, steps)))


def restrict_sockets() -> None:
    """Keep this process and its children from the abstract sockets of others, where the kernel can.

    It permits mounts, which no other rule of Landlock does. Raises OSError.
    """
    if (known := version()) >= 6:
        _enter(0, {}, known)


def start_held(
    program: str, argv: list[str], env: dict[str, str], ends: tuple[int, ...], hold: Callable[[], None]
) -> int:
    """Start a program that `hold` has restricted; return its process id. Raises OSError.

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
            # Out of the way first: one of them may have the number that another gets.
            moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in (*ends, says)]
            for target, descriptor in enumerate(moved[:-1]):
                os.dup2(descriptor, target)
            says = moved[-1]
            hold()
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


def _enter(handled: int, rights: dict[str, int], known: int) -> None:
    """Enter a domain of Landlock that grants these rights, at and below each path, of those handled."""
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if known >= 6 else 0
    rules = _Ruleset(handled, 0, scoped)
    # Older kernels refuse what is longer than they know, unless the rest is zero; zero it is.
    ruleset = _call(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    try:
        for path, allowed in rights.items():
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow(ruleset, path, allowed)
        _prctl(_NO_NEW_PRIVS, 1, "no_new_privs")
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        # A rule for a file may hold no right that only folders have.
        allowed = rights if os.path.isdir(path) else rights & OF_FILES
        rule = _Beneath(allowed, parent)
        _call(_ADD_RULE, ctypes.c_int(ruleset), _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _call(number: int, *arguments: object) -> int:
    found = _libc().syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return int(found)


def _prctl(what: int, value: int, name: str, pointer: object = 0) -> None:
    if _libc().prctl(what, value, pointer, 0, 0):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
