"""The first process inside a fence of namespaces (the keeper): starts the worker, and reports its end.

bubblewrap reports a death by signal as an exit code, and kills the rest of a namespace unseen.
Standard library only, and next to nothing of it: its start is a third of what a fence costs.
What it says goes to descriptor 3, by line: `started`; `failed ERRNO THERE`; `ended WAIT_STATUS LEFT`.
"""

# pathlib would be as long again:
# ruff: noqa: PTH208
import os

from workers.shim._programs import find_program, is_there

SAYS_ON = 3
IGNORED_BY_PYTHON = (13, 25)
"""SIGPIPE and SIGXFSZ, by number: the module that names them takes longer than all else here."""


def main(argv: list[str]) -> None:
    """Run a worker to its end, kill all processes that it left, and exit; never returns."""
    if os.getpid() != 1:
        # The kill below reaches every process that we may signal: outside of a namespace, the whole machine.
        os.write(2, b"the keeper is not the first process of a namespace, and does not start here\n")
        os._exit(1)
    os.set_inheritable(SAYS_ON, False)
    try:
        worker = os.posix_spawn(
            find_program(argv[0], os.environ.get("PATH", os.defpath)),
            argv,
            _environment(),
            setsid=True,
            setsigmask=(),
            setsigdef=IGNORED_BY_PYTHON,
        )
    except OSError as error:
        _say(b"failed %d %d\n" % (error.errno or 0, is_there(argv[0])))
        os._exit(1)
    _say(b"started\n")
    pid = 0
    while pid != worker:
        pid, status = os.waitpid(-1, 0)
    left = _living_count()
    try:
        os.kill(-1, 9)
    except ProcessLookupError:
        left = 0
    _say(b"ended %d %d\n" % (status, left))
    os._exit(0)


def _environment() -> dict[bytes, bytes]:
    """Return the environment as it was passed to us: Python adds to its own."""
    descriptor = os.open("/proc/self/environ", os.O_RDONLY)
    text = b""
    while part := os.read(descriptor, 1 << 16):
        text += part
    os.close(descriptor)
    pairs = (pair.partition(b"=") for pair in text.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


def _living_count() -> int:
    """Count the living processes besides us; zombies do not count."""
    others = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    if not others:
        return 0
    from workers.shim.processes import processes  # noqa: PLC0415 - for start-up time: most leave nothing

    return sum(pid != 1 for pid, _ in processes())


def _say(words: bytes) -> None:
    os.write(SAYS_ON, words)
