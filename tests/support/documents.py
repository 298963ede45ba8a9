"""Documents as people write them, made at random, and two other parsers that find headings."""

import tree_sitter
import tree_sitter_markdown
from hypothesis import strategies as st
from markdown_it import MarkdownIt

_COMMONMARK = MarkdownIt("commonmark").enable("table")
_TREE = tree_sitter.Parser(tree_sitter.Language(tree_sitter_markdown.language()))
_UNDERLINES = {"setext_h1_underline": 1, "setext_h2_underline": 2}

WORDS = st.sampled_from(
    [
        "Tickets",
        "Status",
        "next step",
        "Ärger",
        "2.1",
        "2.10",
        "21",
        "\U0001f680 go",
        "`code` x",
        "a_b",
        "C++",
        "x",
    ]
)
DATES = st.dates().map(str)
MARKS = st.sampled_from(["**{0}:** {1}", "{0}: {1}", "- **{0}**: {1}", "- **{0}:** {1}", "**{0}**: {1}"])
KEYS = st.sampled_from(["Owner", "Lead Agent", "Phase", "Last Updated"])
VALUES = st.sampled_from(["Ada", "2026-02-16 14:28", "[##--] 40% (note)", "`x` y", "1.10", "07", "é — ü", ""])
CELLS = st.sampled_from(["", "x", "a \\| b", "`c`", "2.1", "**b**", "é"])
FENCES = st.sampled_from(["```", "~~~", "`````", "```yaml"])
STRAY = st.sampled_from(
    [
        "plain words",
        "*",
        "two  ",
        "a\x0cb",
        "x \u2028 y",
        "\\# none",
        "<area>",
        "[ref]: /url",
        "> said",
        "a | b",
    ]
)


@st.composite
def _table(draw):
    width = draw(st.integers(1, 3))
    row = st.lists(CELLS, min_size=width, max_size=width)
    rows = draw(st.lists(row | st.lists(CELLS, max_size=4), max_size=4))
    head = "| " + " | ".join(f"h{n}" for n in range(width)) + " |"
    return [head, "|" + "---|" * width, *("| " + " | ".join(cells) + " |" for cells in rows)]


@st.composite
def _fence(draw):
    fence = draw(FENCES)
    inside = draw(
        st.lists(st.sampled_from(["# no", "## Status", "- [ ] no", "K: no", "", "<!--"]), max_size=3)
    )
    return [fence, *inside, fence.rstrip("yaml")]


_HEADINGS = st.tuples(st.integers(1, 4), WORDS).map(lambda one: ["#" * one[0] + " " + one[1]])
_ENTRIES = st.tuples(DATES, WORDS).map(lambda one: [f"## {one[0]}: {one[1]}", "", "why", "", "---"])
_FIELDS = st.lists(
    st.tuples(MARKS, KEYS, VALUES).map(lambda one: one[0].format(*one[1:])), min_size=1, max_size=3
)
_CHECKS = st.lists(
    st.tuples(st.sampled_from(["- [ ] ", "- [x] ", "  - [ ] ", "* ", "1. "]), WORDS).map("".join), min_size=1,
    max_size=4,
)  # fmt: skip
_COMMENTS = st.sampled_from([["<!-- one -->"], ["<!--", "## Status", "- [ ] no", "-->"], ["<!--", "", "-->"]])
_BLOCKS = (
    _HEADINGS | _ENTRIES | _FIELDS | _CHECKS | _COMMENTS | _fence() | _table()
    | st.lists(STRAY, min_size=1, max_size=2) | st.just(["---"])
)  # fmt: skip
_FRONT = st.sampled_from(
    [
        [],
        [],
        ["---", "phase: 07", "flag: yes # why", "at: '10:30'", "---"],
        ["---", "title: a: b", "---"],
        ["---"],
    ]
)


@st.composite
def documents(draw):
    """Return a file's bytes: front matter, blocks, line ends of one kind or of all, BOM, or no final end."""
    lines = list(draw(_FRONT))
    for block in draw(st.lists(_BLOCKS, max_size=7)):
        lines += [*block, *[""] * draw(st.sampled_from([0, 1, 1, 1, 2]))]
    if draw(st.sampled_from([False, False, False, True])):
        lines += ["```", "never closed"]
    end = draw(st.sampled_from(["\n", "\r\n", None]))
    ends = [end or draw(st.sampled_from(["\n", "\r\n"])) for _ in lines]
    text = "".join(line + one for line, one in zip(lines, ends, strict=True))
    if draw(st.sampled_from([False, False, True])):
        text = text.rstrip("\r\n")
    return (b"\xef\xbb\xbf" if draw(st.booleans()) else b"") + text.encode()


def markdown_it_headings(text):
    """Return (level, line) of every top-level heading, by markdown-it-py."""
    tokens = _COMMONMARK.parse(text)
    found = [one for one in tokens if one.type == "heading_open" and one.level == 0]
    return [(int(one.tag[1]), one.map[0] + 1) for one in found]


def tree_sitter_headings(text):
    """Return (level, line) of every top-level heading, by tree-sitter-markdown.

    The line put before keeps it from reading front matter of its own in a body that begins with `---`; the
    one put behind is for a heading on a last line without an end, which it does not see.
    """
    found = []
    waiting = [_TREE.parse(f"\n{text}\n".encode()).root_node]
    while waiting:
        for node in waiting.pop().children:
            if node.type == "section":
                waiting.append(node)
            elif node.type == "atx_heading":
                found.append((int(node.children[0].type[5]), node.start_point.row))
            elif node.type == "setext_heading":
                found.append((_UNDERLINES[node.children[-1].type], node.start_point.row))
    return sorted(found, key=lambda one: one[1])
