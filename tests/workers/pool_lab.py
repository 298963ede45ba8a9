"""Who holds a slot, for the tests of slots and of the line at them."""

import pytest

HOLDER = {"run": "20260216_142834", "worker": "Codex-Worker-1", "at": "2026-02-16T14:28:34Z"}


@pytest.fixture
def anyio_backend() -> str:
    """Have each test run on asyncio, as we do."""
    return "asyncio"
