"""A repository whose workers change things."""

import pytest
from support.changes import Lab


@pytest.fixture
def lab(tmp_path):
    """Return an empty repository."""
    return Lab(tmp_path / "repo")
