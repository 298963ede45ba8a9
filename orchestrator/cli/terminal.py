"""The terminal's width, for whatever is laid out in columns. Imports next to nothing, since `--help` asks."""

import os

UNBOUND = 10_000
"""Columns where nobody says how many there are: in a pipe nothing is cut and nothing wrapped."""


def columns() -> int:
    """Tell how wide a line may be: `COLUMNS`, else the terminal's width."""
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns))
    except (OSError, ValueError):
        return UNBOUND
