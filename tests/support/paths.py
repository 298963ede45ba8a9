"""Paths of this repository, for tests in any folder."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
