"""The program's own source as syntax trees, parsed by the first test that asks and not by each collection."""

import ast
from functools import cache

from support.paths import ROOT, TESTS


@cache
def modules():
    """Return the syntax tree of each module of the program, by its path relative to the root."""
    return _trees(ROOT / package for package in ("tickets", "workers", "orchestrator"))


@cache
def other_modules():
    """Return those of the tests and the benchmarks, without what packages of npm bring along."""
    return _trees((TESTS, ROOT / "benchmarks"))


def _trees(folders):
    paths = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_bytes())
        for path in paths
        if "node_modules" not in path.parts
    }
