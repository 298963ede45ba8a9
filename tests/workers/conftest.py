"""Marks of workers, and that none is left."""

import uuid

import pytest

from workers.engine.process import kill_marked


@pytest.fixture
def mark():
    """Yield the mark of a test's workers, and check that none of them is left."""
    name = f"test-{uuid.uuid4().hex}"
    yield name
    assert kill_marked(name) == 0, "a test left a worker behind"
