"""A repository whose workers nothing holds, and what they do to it."""

import runpy
from pathlib import Path

import pytest

CLI = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
SCRIPT, shell, _pattern, lab = (CLI[name] for name in ("SCRIPT", "shell", "_pattern", "lab"))
EVIL = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'
JOURNAL = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/events.jsonl"'


@pytest.fixture
def unfenced(lab):
    """Give a repository without a fence."""
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    return lab
