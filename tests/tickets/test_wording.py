"""Counts and lists: one grammar, and no other copy of it in the code."""

import re
from pathlib import Path

import tickets
from tickets.wording import count_of, rest_of, some_of

ROOT = Path(tickets.__file__).parents[1]
COPIES = re.compile(r"""else ["']s["']\}|(?<!\()and \{[^}]*\} more\b|["']s["'] \* """)
ALONE = {"orchestrator/demo/fix_faults.py", "workers/messages/delivery.py", "tickets/wording.py"}
"""Programs of their own, which import nothing of ours; the helper itself."""


def test_a_count_agrees_with_its_noun():
    assert [count_of(number, "file") for number in (0, 1, 2, 1000)] == [
        "0 files", "1 file", "2 files", "1,000 files",
    ]  # fmt: skip
    assert [count_of(number, "criterion", "criteria") for number in (1, 2)] == ["1 criterion", "2 criteria"]


def test_a_list_names_the_first_and_counts_the_rest():
    assert some_of([]) == ""
    assert some_of(["a"]) == "a"
    assert some_of(["a", "b", "c"]) == "a, b, c"
    assert some_of(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert some_of(["a", "b"], 2, total=5) == "a, b and 3 more"
    assert some_of(["a", "b", "c"], 2, between="; ") == "a; b and 1 more"
    assert (rest_of(3, 3), rest_of(5, 3)) == ([], ["and 2 more"])


def test_no_module_has_a_grammar_of_its_own():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for room in ("orchestrator", "workers", "tickets")
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in ALONE
        for line in path.read_text().splitlines()
        if COPIES.search(line)
    ]
    assert found == []
