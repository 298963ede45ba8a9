"""Places in this repository, wherever a test stands."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
