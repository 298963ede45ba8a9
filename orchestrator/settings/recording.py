"""What `orchestrate.toml` says of state files: all that commands need which record, or show what is recorded.

To check all settings would take longer than most of these commands.
"""

from pathlib import Path
from typing import cast

from orchestrator.settings.toml_text import FILE, read_toml
from orchestrator.state import ALWAYS, FAMILIES, Family
from orchestrator.store.read import read_file
from tickets.problems import Problem
from tickets.value import Value


class Recording(Value):
    """Which state files there are, and whether they are committed."""

    families: tuple[Family, ...] = ALWAYS
    commits: bool = True


def read_recording(root: Path) -> Recording:
    """Read these settings. Raises Refusal where one of them is wrong."""
    problems: list[Problem] = []
    tables = read_toml(FILE, read_file(root, FILE) or b"", problems)
    families, git = tables.get("families", list(ALWAYS)), tables.get("git", {})
    commit = git.get("commit", "integration") if isinstance(git, dict) else None
    known = isinstance(families, list) and all(family in FAMILIES for family in families)
    if known and commit in ("integration", "never") and not problems:
        return Recording(tuple(cast("list[Family]", families)), commit == "integration")
    from orchestrator.settings.settings import read_settings  # noqa: PLC0415 - says what is wrong, and where

    settings = read_settings(root)
    return Recording(settings.families, settings.git.commit == "integration")
