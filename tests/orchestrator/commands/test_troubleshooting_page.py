"""docs/troubleshooting.md quotes what the program says: each quoted piece stands in its source."""

import ast
import re

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SYMPTOMS = [line.split(" | ")[0][2:] for line in PAGE.splitlines() if re.match(r"\| [^y-]", line)]
QUOTED = [quoted for symptom in SYMPTOMS for quoted in re.findall(r"`([^`]+)`", symptom)]


def source_texts():
    """Return all string constants of the program, as one text."""
    found = []
    for package in ("orchestrator", "workers", "tickets"):
        for path in sorted((ROOT / package).rglob("*.py")):
            nodes = ast.walk(ast.parse(path.read_text()))
            found += [
                one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    return "\n".join(found)


TEXTS = source_texts()


@pytest.mark.parametrize("quoted", QUOTED)
def test_what_the_page_quotes_is_what_the_program_says(quoted):
    for piece in quoted.split("…"):
        assert piece.strip(' "') in TEXTS, piece


def test_the_page_quotes_enough():
    assert len(QUOTED) > 25
