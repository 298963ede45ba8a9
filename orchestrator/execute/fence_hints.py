"""Whether a command that failed may have met the fence and not a fault of the work. Pure."""

import re
from typing import Literal

from workers.fence.probe import Level

_EMPTY = re.compile(r"""(?<![\w.-])(?:/var)?/(?:tmp|run)(?=[/\s'"`:;,)]|$)""")
"""Folders that are empty behind namespaces."""
_REFUSED = re.compile(
    r"read-only file system|permission denied|operation not permitted|\bEROFS\b|\bEACCES\b", re.IGNORECASE
)
_UNREACHED = re.compile(
    r"network is unreachable|could not resolve|name resolution|name or service not known|getaddrinfo"
    r"|connection refused|\bENOTFOUND\b|\bECONNREFUSED\b|\bENETUNREACH\b|failed to connect|no route to host",
    re.IGNORECASE,
)
_UNSET = re.compile(r"unbound variable|parameter (?:not set|null)|KeyError: '[A-Z][A-Z0-9_]*'")


def fence_signs(level: Level, network: Literal["open", "none"], root: str, command: str, printed: str) -> str:
    """Say what the fence keeps from a command, where what it says smells of that; empty where it does not.

    `root` is the project's folder: that it lies below `/tmp` means nothing.
    """
    if level == "advisory":
        return ""
    said = f"{command}\n{printed}".replace(root, "")
    hides, closed = level == "namespaces", network == "none"
    signs = [_REFUSED, _UNSET, *([_EMPTY] if hides else []), *([_UNREACHED] if closed else [])]
    if not any(sign.search(said) for sign in signs):
        return ""
    has = [*(["an empty /tmp"] if hides else []), *(["no network"] if closed else []), "no keys"]
    return f"it ran fenced ({', '.join(has)}; only its tree and $TMPDIR are writable)"
