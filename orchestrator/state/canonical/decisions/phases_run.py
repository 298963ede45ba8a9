"""Which phases were run, as the decision log tells: pure, and light, since `status` asks."""

import re

PATH = "DECISIONS.md"
_ENTRY = re.compile(rb"^## .*\bIntegrated run \d{8}_\d{6}(?:_\d+)? \((\S+)\)\s*$", re.MULTILINE)


def phases_run(log: bytes | None) -> frozenset[str]:
    """Give the phases of which a run was integrated, by the names that `run` was called with."""
    return frozenset(name.decode("utf-8", "replace") for name in _ENTRY.findall(log or b""))
