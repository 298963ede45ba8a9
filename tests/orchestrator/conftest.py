"""Repositories for what several rooms test."""

import pytest


@pytest.fixture
def unfenced(lab):
    """Return a repository without a fence."""
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    return lab
