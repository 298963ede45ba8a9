"""docs/troubleshooting.md quotes what the program says: each quoted piece stands in its source."""

import ast
import re
from functools import cache

import pytest
from support.paths import ROOT
from support.sources import modules

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SYMPTOMS = [line.split(" | ")[0][2:] for line in PAGE.splitlines() if re.match(r"\| [^y-]", line)]
QUOTED = [quoted for symptom in SYMPTOMS for quoted in re.findall(r"`([^`]+)`", symptom)]


@cache
def source_text():
    """Return all string constants of the program, as one text."""
    nodes = [node for tree in modules().values() for node in ast.walk(tree)]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return "\n".join(value for value in constants if isinstance(value, str))


@pytest.mark.parametrize("quoted", QUOTED)
def test_what_the_page_quotes_is_what_the_program_says(quoted):
    for piece in quoted.split("…"):
        assert piece.strip(' "') in source_text(), piece


def test_the_page_quotes_enough():
    assert len(QUOTED) > 25
