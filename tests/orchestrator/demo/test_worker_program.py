"""The program that the demo's workers run: it fixes what it can fix exactly, and nothing else."""

from pathlib import Path

import pytest

from orchestrator.demo.fix_faults import Source, audit, faults, fixed, report

CASES = {
    "== None": ("a = 1\nb = a == None\n", "a = 1\nb = a is None\n"),
    "!= None, tight": ("x = y!=None\n", "x = y is not None\n"),
    "None in a chain": ("x = a == b != None\n", "x = a == b is not None\n"),
    "None twice": ("x = (a == None) != None\n", "x = (a is None) is not None\n"),
    "None after parentheses": ("x = (a) == (None)\n", "x = (a) is (None)\n"),
    "after other letters": ('x = "ü"; y = x == None\n', 'x = "ü"; y = x is None\n'),
    "bare except": (
        "try:\n    f()\nexcept:\n    g()\n",
        "try:\n    f()\nexcept Exception:\n    g()\n",
    ),
    "open": ("open(path)\n", 'open(path, encoding="utf-8")\n'),
    "open, nested": (
        'open(open((p)).read(), mode="w")\n',
        'open(open((p), encoding="utf-8").read(), mode="w", encoding="utf-8")\n',
    ),
    "two kinds on a line": (
        "open(p if p != None else q)\n", 'open(p if p is not None else q, encoding="utf-8")\n'
    ),
    "line ends": ("a = 1\r\nb = a == None\r\n", "a = 1\r\nb = a is None\r\n"),
}  # fmt: skip

LEFT = {
    "a comment in between": "x = (a  # == here\n     == None)\n",
    "a call with a comma at its end": 'open(p, "w",)\n',
    "a call over several lines": "open(\n    p  # here\n)\n",
}

SOUND = {
    "binary files": 'open(p, "rb")\nopen(p, mode=m)\nopen(p, **k)\nopen(p, encoding=None)\nopen(*a)\n',
    "values that are not None": "x = a == 0\ny = a is None\n",
    "what stands inside an f-string": 'x = f"{a == None}"\n',
    "an except with a type": "try:\n    f()\nexcept ValueError:\n    g()\n",
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_fixed_and_every_other_byte_stays(case):
    before, after = CASES[case]
    source = Source(before.encode())
    assert fixed(source, faults(source)).decode() == after
    assert faults(Source(after.encode())) == []


@pytest.mark.parametrize("case", LEFT)
def test_what_cannot_be_fixed_exactly_is_listed_and_left(case):
    source = Source(LEFT[case].encode())
    found = faults(source)
    assert len(found) == 1
    assert fixed(source, found) == source.data


@pytest.mark.parametrize("case", SOUND)
def test_sound_code_has_no_faults(case):
    assert faults(Source(SOUND[case].encode())) == []


def test_findings_are_read_back_from_a_ticket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("x = y == None\n")
    listed = "\n".join(audit([Path("a.py")]))
    assert listed == "1 fault in 1 file\na.py:1: `== None` asks the object; `is None` asks the language"
    ticket = f"# Ticket\n\n```text\n{listed}\na.py:1: fixed: `== None`\n```\n"
    assert report(Path("docs/faults.md"), ticket, [Path("a.py")]) == [
        "docs/faults.md: 1 fault fixed in 1 file, 1 left"
    ]
    assert "## `a.py`\n\n- `== None`\n" in Path("docs/faults.md").read_text()
