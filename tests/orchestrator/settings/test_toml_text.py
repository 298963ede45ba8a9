"""The text of `orchestrate.toml`: what `init` writes is read without a parser, to the same tables."""

import subprocess
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.settings.settings import default_settings
from orchestrator.settings.toml_text import _tables_alone, read_toml

LINES = [
    "", "# word", "#", "[a]", "[b]", "[a.b]", "[a.c]", "[b.a]", "x = 1", "# \x00", "# \u00e9", "[a",
    "[a.b.c]", " [a]", "#\ttab", "\r", "# a\r", "[a] ", "[a] # b", "\u2028# a",
    'x = "y"', 'x = "z"', 'a = "y"', 'b = "y"', 'x= "y"', 'x = "y" ', 'x = "y z"', 'x_y = "z"',
    'x = ["y"]', 'a = ["y", "y_z"]', 'x = ["y",]', "x = []", 'x = ["y" , "z"]', 'x = ["y"] # z',
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_what_is_read_without_a_parser_is_what_a_parser_reads(lines):
    text = "\n".join(lines)
    found = _tables_alone(text.encode())
    assert found is None or found == tomllib.loads(text)


@pytest.mark.parametrize("families", ["", 'families = ["canonical", "checkpoints", "phases"]\n'])
def test_the_settings_that_init_writes_take_no_parser(families):
    text = (families + default_settings()).encode()
    assert _tables_alone(text) == tomllib.loads(text.decode())
    code = (
        "import sys; from orchestrator.settings.toml_text import read_toml\n"
        "read_toml('orchestrate.toml', sys.stdin.buffer.read(), []); sys.exit('tomllib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], input=text, check=False).returncode == 0


@pytest.mark.parametrize("text", [b"[a]\n[a]\n", b"# \xff\n", b"[a]\r[b]\n", b"[a]\n\x00\n"])
def test_what_is_no_toml_is_a_problem_as_before(text):
    problems = []
    assert read_toml("orchestrate.toml", text, problems) == {}
    assert len(problems) == 1


@pytest.mark.parametrize("text", [b"[a]\n", b"[a]\nx = 1\n"])
def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(text):
    problems = []
    found = read_toml("orchestrate.toml", b"\xef\xbb\xbf" + text, problems)
    assert (found, problems) == (tomllib.loads(text.decode()), [])
