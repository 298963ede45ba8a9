"""Marks of workers, and that none is left."""

import uuid

import pytest

from workers.engine.process import kill_marked


@pytest.fixture
def mark():
    """Give the mark of a test's workers, and see that none of them is left."""
    name = f"test-{uuid.uuid4().hex}"
    yield name
    assert kill_marked(name) == 0, "a test left a worker behind"
