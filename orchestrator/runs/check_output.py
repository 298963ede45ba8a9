"""The last output of the commands that the reason of a verdict names: acceptance commands and the gate."""

import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.runs.packed import packed_text
from workers.agents.follow import read_tail
from workers.agents.stream import plain

TAIL = 20
"""How many lines of a command's output are shown; its file has the others."""
LONGEST = 4096
"""Bytes of an output's end in which these are looked for."""
LONGEST_LINE = 200
_NAMES_A_TEST = ("FAILED ", "ERROR ", "FAIL: ", "ERROR: ", "not ok ", "--- FAIL: ")
"""As the runners begin it that print a summary."""
_SEE = r"\bsee (?P<path>\.taskers/runs/\S+/checks/\S+?)\.std(?:out|err)\b"
_STREAMS = ("stdout", "stderr")


def named_outputs(root: Path, reason: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each output that is not empty, with its last lines."""
    for path in dict.fromkeys(found["path"] for found in re.finditer(_SEE, reason)):
        for stream in _STREAMS:
            if lines := last_lines(root, name := f"{path}.{stream}"):
                yield name, lines


def last_lines(root: Path, path: str) -> list[str]:
    """Return the last lines of a file, without control characters; none where there is no file.

    `path` is relative to the root; that of a packed run is read from its archive.
    """
    text = read_tail(root / path) or packed_text(root, path, LONGEST, end=True) or ""
    return [plain(line) for line in text.splitlines()[-TAIL:]]


def telling_line(root: Path, path: str) -> str:
    """Return the line of a failed check's output that tells most: one that names a test, else the last."""
    lines = [" ".join(line.split()) for line in last_lines(root, path) if line.strip()]
    named = (line for line in lines if line.startswith(_NAMES_A_TEST))
    return next(named, lines[-1] if lines else "")[:LONGEST_LINE]
