"""A ledger."""

import pytest
from support.ledger import Books


@pytest.fixture
def books(tmp_path):
    """Return a ledger without a line."""
    return Books(tmp_path)
