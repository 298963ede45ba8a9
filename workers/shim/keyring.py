"""A filter of system calls that keeps a worker from the kernel's keyrings. Standard library only.

No namespace of a worker's own covers them, and the keys of a user are open to all processes of that user.
"""

import os
import struct
import sys
from functools import cache

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_REFUSED, _ALLOWED = 0x00050001, 0x7FFF0000
_ARCHITECTURES = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
}
"""By machine: how programs may be built for it, with the numbers of `add_key`, `request_key`, `keyctl`."""
_X32 = 0x40000000
"""Bit in the numbers of a further set of calls, which next to no program uses."""


@cache
def keyring_filter() -> bytes:
    """Return the filter, for `--seccomp` or the kernel; empty where the numbers are not known."""
    kinds = _ARCHITECTURES.get(os.uname().machine, {}) if sys.platform == "linux" else {}
    steps = [_step(_LOAD, 4)] if kinds else []
    for kind, numbers in kinds.items():
        checks = [_step(_LOAD, 0), _step(_AT_LEAST, _X32, no=1), _step(_RETURN, _REFUSED)]
        for number in numbers:
            checks += [_step(_EQUAL, number, no=1), _step(_RETURN, _REFUSED)]
        checks.append(_step(_RETURN, _ALLOWED))
        steps += [_step(_EQUAL, kind, no=len(checks)), *checks]
    return b"".join([*steps, _step(_RETURN, _ALLOWED)]) if kinds else b""


def _step(code: int, value: int, *, no: int = 0) -> bytes:
    """Return one instruction; `no` is how many follow that are left out where a comparison fails."""
    return struct.pack("=HBBI", code, 0, no, value)
