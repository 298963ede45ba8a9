"""Hardening cases, T01 to T40 and later: each has a test that names it and that is repeated in a soak."""

import ast
import re

from support.paths import TESTS

NUMBERS = {f"T{number:02}" for number in (*range(1, 56), *range(61, 73), *range(74, 78))}
NOT_YET: dict[str, str] = {}
"""Cases without a test, and why; whoever builds what is missing removes its line."""


def numbered():
    """Find the tests whose docstring begins with a case's number: number to places and whether repeated."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        is_all = any(
            "pytestmark" in ast.unparse(one) and "hardening" in ast.unparse(one) for one in module.body
        )
        for one in ast.walk(module):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                is_marked = is_all or any("hardening" in ast.unparse(mark) for mark in one.decorator_list)
                said = re.match(r"((?:T\d\d(?:, | and )?)+)", ast.get_docstring(one) or "")
                for number in re.findall(r"T\d\d", said[1] if said else ""):
                    found.setdefault(number, []).append((f"{path.name}::{one.name}", is_marked))
    return found


def test_every_case_has_a_test_that_carries_its_number():
    found = numbered()
    assert set(found) <= NUMBERS
    assert NUMBERS - set(found) == set(NOT_YET)


def test_every_numbered_test_is_repeated_in_a_soak():
    assert [place for tests in numbered().values() for place, is_marked in tests if not is_marked] == []
