"""A place for a fenced process."""

import pytest
from support.fences import Den


@pytest.fixture
def den(tmp_path):
    """Return a folder with an inside and an outside."""
    return Den(tmp_path)
