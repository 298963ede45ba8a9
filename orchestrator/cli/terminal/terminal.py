"""Standard output: written to safely, and its width."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

UNBOUND = 10_000
"""Columns where no width is known: in a pipe nothing is cut and nothing wrapped."""


def columns() -> int:
    """Return the width of a line: `COLUMNS`, else the terminal's width."""
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns))
    except (OSError, ValueError):
        return UNBOUND


def say(text: str, stream: "TextIO | None") -> bool:
    """Write a line; return whether it could be written. A closed pipe or a full disk ends nothing."""
    from orchestrator.redaction import printable  # noqa: PLC0415 - for start-up time

    if stream is None:
        return False
    try:
        print(printable(text), file=stream, flush=True)
    except OSError:
        # The rest of the buffer would fail once more when the interpreter ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return False
    except ValueError:  # closed, or not this stream's encoding
        return False
    return True
