"""What `init` knows when it writes the first state files."""

from datetime import datetime
from typing import NamedTuple


class Facts(NamedTuple):
    """The words that differ from project to project; `at` is UTC."""

    project: str
    lead: str
    at: datetime
    phase: str = "Review"
    """The name of phase 1."""
    milestone: str = "Baseline reviewed"


def minute(at: datetime) -> str:
    """Spell a time as state files do."""
    return at.strftime("%Y-%m-%d %H:%M")


def day(at: datetime) -> str:
    """Spell a date as state files do."""
    return at.strftime("%Y-%m-%d")
