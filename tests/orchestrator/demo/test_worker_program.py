"""The program that the demo's workers run: it mends what it can mend exactly, and nothing else."""

from pathlib import Path

import pytest

from orchestrator.demo.mend import Source, audit, faults, mended, report

CASES = {
    "== None": ("a = 1\nb = a == None\n", "a = 1\nb = a is None\n"),
    "!= None, tight": ("x = y!=None\n", "x = y is not None\n"),
    "None in a chain": ("x = a == b != None\n", "x = a == b is not None\n"),
    "None after parentheses": ("x = (a) == (None)\n", "x = (a) is (None)\n"),
    "after other letters": ('x = "ü"; y = x == None\n', 'x = "ü"; y = x is None\n'),
    "bare except": (
        "try:\n    f()\nexcept:\n    g()\n",
        "try:\n    f()\nexcept Exception:\n    g()\n",
    ),
    "default, docstring kept first": (
        'def f(a, b=[1]):\n    """Do."""\n    return b\n',
        'def f(a, b=None):\n    """Do."""\n    if b is None:\n        b = [1]\n    return b\n',
    ),
    "two defaults, in order": (
        "def f(a={}, *, b=[]):\n g(a)\n",
        "def f(a=None, *, b=None):\n if a is None:\n     a = {}\n if b is None:\n     b = []\n g(a)\n",
    ),
    "default of a method": (
        "class C:\n    def f(self, a=[]):\n        return a\n",
        "class C:\n    def f(self, a=None):\n        if a is None:\n            a = []\n        return a\n",
    ),
    "default before a decorated function": (
        "def f(a=[]):\n    @g\n    def h(): pass\n    return h\n",
        "def f(a=None):\n    if a is None:\n        a = []\n    @g\n    def h(): pass\n    return h\n",
    ),
    "import": ("import os\nimport sys\nprint(sys)\n", "import sys\nprint(sys)\n"),
    "one name of several": (
        "from a.b import c, d as e, f\nprint(c, f)\n",
        "from a.b import c, f\nprint(c, f)\n",
    ),
    "import between blank lines": ('"""Do."""\n\nimport os\n\nx = 1\n', '"""Do."""\n\nx = 1\n'),
    "open": ("open(path)\n", 'open(path, encoding="utf-8")\n'),
    "open, nested, with a comma": (
        'open(open((p)).read(), "w",)\n',
        'open(open((p), encoding="utf-8").read(), "w", encoding="utf-8")\n',
    ),
    "f-string": ('x = f"a" + Rf"b"\n', 'x = "a" + R"b"\n'),
    "line ends": ("a = 1\r\nb = a == None\r\n", "a = 1\r\nb = a is None\r\n"),
}

LEFT = {
    "a default with a type": "def f(a: list[int] = []):\n    return a\n",
    "a body beside its def": "def f(a=[]): return a\n",
    "a default that may hold faults": 'def f(a=[g(f"b{c}")]):\n    return a\n',
    "a comment in between": "x = (a  # == here\n     == None)\n",
    "an import that shares its line": "import os; x = 1\n",
    "braces that stand for themselves": 'x = f"{{}}"\n',
    "f-strings side by side": 'x = f"a" f"b"\n',
    "what stands inside an f-string": 'x = f"{a == None}"\n',
}

SOUND = {
    "binary files": 'open(p, "rb")\nopen(p, mode=m)\nopen(p, **k)\nopen(p, encoding=None)\n',
    "names used in strings": 'import os\nimport re\n__all__ = ["os"]\nx: "re.Pattern"\n',
    "placeholders and formats": 'x = f"{a:>10}" f"b"\n',
    "values that are not None": "x = a == 0\ny = a is None\n",
    "future": "from __future__ import annotations\n",
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_mended_and_every_other_byte_stays(case):
    before, after = CASES[case]
    source = Source(before.encode())
    assert mended(source, faults(source)).decode() == after
    assert faults(Source(after.encode())) == []


@pytest.mark.parametrize("case", LEFT)
def test_what_cannot_be_mended_exactly_is_told_and_left(case):
    source = Source(LEFT[case].encode())
    found = faults(source)
    assert len(found) == 1
    assert mended(source, found) == source.data


@pytest.mark.parametrize("case", SOUND)
def test_sound_code_has_no_faults(case):
    assert faults(Source(SOUND[case].encode())) == []


def test_findings_are_read_back_from_a_ticket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("import os\n")
    listed = "\n".join(audit([Path("a.py")]))
    assert listed == "1 fault in 1 file\na.py:1: os is imported and never used"
    ticket = f"# Ticket\n\n```text\n{listed}\na.py:1: fixed: os is imported\n```\n"
    assert report(Path("docs/faults.md"), ticket, [Path("a.py")]) == [
        "docs/faults.md: 1 fault fixed in 1 file, 1 left"
    ]
    assert "## `a.py`\n\n- os is imported\n" in Path("docs/faults.md").read_text()
