"""Foreign text in a document: one line, and harmless there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.markdown import one_line, parse, plain

NASTY = st.text(
    alphabet=st.sampled_from(list("#>-+*_=~`|<!/[]xX:().1 \\\n\r\t\x1b\x00\x07\u2028\u202e\x85aé\ud800")),
    max_size=24,
)


@settings(max_examples=400, deadline=None)
@given(NASTY)
def test_foreign_text_opens_nothing_wherever_it_stands(text):
    line = one_line(text)
    assert "\n" not in line
    assert line.isprintable()
    host = f"# T\n\n- {line}\n- [ ] {line}\n\n{line}\n\n**K:** {line}\n\n"
    host += f"## 2026-02-16: {line}\n\nend\n\n## Last\n"
    document = parse(host.encode(), "F.md")
    assert document.front is None
    assert len(document.headings) == 3
    assert not document.blocks
    assert [item.done for item in document.items] == [None, False]


@settings(max_examples=400, deadline=None)
@given(NASTY.filter(lambda text: text.isprintable()))
def test_harmless_text_is_read_back_as_it_was(text):
    assert plain(one_line(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Port the parser", "Port the parser"),
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07", "red"),
        ("# Heading", "\\# Heading"),
        ("[x] done", "\\[x] done"),
        ("fix `Vec<T>` and <script>", "fix `Vec<T>` and \\<script>"),
        ("<!-- x", "\\<!-- x"),
        ("```sh", "\\`\\`\\`sh"),
        ("1. first", "1\\. first"),
        ("src/**, tests/**", "src/**, tests/**"),
        ("", ""),
    ],
)
def test_a_text_becomes_this_line(text, line):
    assert one_line(text) == line
