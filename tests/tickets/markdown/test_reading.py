"""Reading: the content of a document in any spelling."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tickets.markdown import (
    MarkdownError,
    field,
    fields,
    find,
    header,
    items,
    labelled,
    parse,
    section,
    sections,
)

FRAGMENTS = st.sampled_from(
    [
        "# Top", "## Section", "### Below", "## Sect*ion* `two` #", "text", "**Key:** value", "- **K**: v",
        "- [ ] open", "  - [x] nested", "1. first", "```", "~~~", "    indented", "<!-- note", "-->",
        "<area>", "</area>", "<div>", "| a | b |", "|---|---|", "| `x|y` | |", "---", "===", "> quoted",
        "> # quoted heading", "", "", "\ttabbed", "Ä ö \u2028 \u3042", "a\x0cb", "\\# no heading", "***",
        "- ## in an item", "key: v",
    ]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
DOCUMENTS = st.lists(st.tuples(FRAGMENTS, ENDS), max_size=14).map(lambda ls: "".join(a + b for a, b in ls))


def titles(text):
    return [(one.level, one.title) for one in parse(text.encode(), "F.md").headings]


def oracle(text):
    """Level and first line of every top-level heading, as another parser sees them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        (int(one.tag[1]), one.map[0] + 1) for one in tokens if one.type == "heading_open" and one.level == 0
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAGMENTS.filter(lambda line: "area" not in line), max_size=14).map("\n".join))
def test_headings_are_those_that_another_parser_finds(text):
    document = parse(text.encode(), "F.md")
    if document.front is None:
        assert [(one.level, one.line) for one in document.headings] == oracle(text)


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, st.booleans())
def test_the_lines_of_a_document_are_its_bytes_behind_the_mark(text, mark):
    mark = b"\xef\xbb\xbf" if mark else b""
    document = parse(mark + text.encode(), "F.md")
    assert document.data == mark + text.encode()
    assert b"".join(document.data[line.start : line.after] for line in document.lines) == text.encode()


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_a_byte_order_mark_moves_what_is_read_and_changes_none_of_it(text):
    plain, marked = (parse(mark + text.encode(), "F.md") for mark in (b"", b"\xef\xbb\xbf"))
    assert [one._replace(start=one.start + 3, end=one.end + 3) for one in plain.headings] == list(
        marked.headings
    )
    for old, new in zip((header(plain), *sections(plain)), (header(marked), *sections(marked)), strict=True):
        assert old.content_end + 3 == new.content_end
        assert [(one.key, one.value, one.start + 3) for one in fields(plain, old)] == [
            (one.key, one.value, one.start) for one in fields(marked, new)
        ]


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_sections_lie_inside_each_other_and_never_overlap(text):
    document = parse(text.encode(), "F.md")
    last = 0
    for part in sections(document):
        assert last <= part.start <= part.body <= part.content_end <= part.end
        assert part.body <= part.own_end <= part.end
        last = part.end


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_but_never_changed(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(MarkdownError, match="not UTF-8"):
            parse(data, "F.md")
    else:
        assert parse(data, "F.md").data == data


@pytest.mark.parametrize(
    "line",
    [
        "**Lead Agent:** Ada",
        "Lead Agent: Ada",
        "- **Lead Agent**: Ada",
        "- **Lead Agent:** Ada",
        "**Lead Agent**: Ada",
    ],
)
def test_a_field_is_read_in_each_of_its_five_spellings(line):
    document = parse(f"# T\n\n{line}\n".encode(), "F.md")
    assert field(document, header(document), "Lead Agent").value == "Ada"


def test_a_field_given_twice_is_refused_with_both_lines():
    document = parse(b"# T\n\n**Phase:** 1\nPhase: 2\n", "F.md")
    with pytest.raises(MarkdownError, match="line 3 and line 4"):
        field(document, header(document), "Phase")


def test_fields_in_code_comments_and_tables_are_none():
    shut = "```\nA: 1\n```\n\n<!--\nB: 2\n-->\n\n    C: 3\n\n"
    text = f"# T\n\n{shut}x <!--\nD: 4\n--> y\n\n|E: 5|\n|--|\n|F: 6|\n\nG: 7\n"
    document = parse(text.encode(), "F.md")
    assert [one.key for one in fields(document, header(document))] == ["G"]


def test_a_web_address_is_no_field():
    document = parse(b"# T\n\nsee http://example.org: x\nhttp://example.org\n", "F.md")
    assert "http" not in [one.key for one in fields(document, header(document))]


def test_two_sections_of_one_title_are_refused_with_both_lines():
    entries = "".join("### 2026-02-16: Same\n\ntext\n\n" for _ in range(10))
    document = parse(f"# T\n\n## Log\n\n{entries}".encode(), "F.md")
    with pytest.raises(MarkdownError, match=r"10 times \(line 5 and line 9"):
        find(document, "Log", "2026-02-16: Same")
    assert find(document, "Log", "2026-02-16: Same", ordinal=3).line == 17


def test_a_missing_section_is_named_by_its_path():
    document = parse(b"# T\n\n## A\n", "F.md")
    with pytest.raises(MarkdownError, match="`A > B` is missing"):
        section(document, "A", "B")


def test_a_title_is_found_without_its_decoration():
    document = parse("# T\n\n## \U0001f680 **Current Deliverable**:\n".encode(), "F.md")
    assert section(document, "current deliverable").line == 3


@pytest.mark.parametrize("word", ["2.1", "2.10", "21"])
def test_numbers_that_look_alike_are_different_titles(word):
    document = parse(b"# T\n\n## 2.1\n\n## 2.10\n\n## 21\n", "F.md")
    assert section(document, word).title == word


def test_a_fence_inside_a_fence_turns_the_later_ones_round():
    text = "# T\n\n## A\n\n```markdown\n# in\n```yaml\n# still in\n```\n# Out\n\n```\n## closed by the end\n"
    assert titles(text) == [(1, "T"), (2, "A"), (1, "Out")]


def test_a_lone_tag_does_not_swallow_the_heading_below_it():
    block = "<area>\n## S{0}\n\ntext\n\n</area>\n"
    text = "# T\n\n" + "".join(block.format(n) for n in range(4))
    assert [title for _, title in titles(text)] == ["T", "S0", "S1", "S2", "S3"]
    document = parse(text.encode(), "F.md")
    part = section(document, "S1")
    assert document.text(part.body, part.content_end) == "\ntext\n"


def test_utf16_in_the_middle_is_refused_with_its_line():
    data = b"# T\rtext\n" + "Ärger".encode("utf-16-le") + b"\n# Other\n"
    with pytest.raises(MarkdownError, match=r"F\.md:3: byte \d+ is not UTF-8"):
        parse(data, "F.md")


def test_keys_indented_by_tabs_hang_below_their_item():
    tree = "## Tree\n\n\troot\n\t\tleaf: x\n\n"
    text = f"# T\n\n- key: v\n\t- inner: w\n\n{tree}```yaml\n---\na: 1\n---\nb: 2\n```\n\n## End\n"
    document = parse(text.encode(), "F.md")
    assert [(one.key, one.value) for one in fields(document, header(document))] == [
        ("key", "v"),
        ("inner", "w"),
    ]
    assert fields(document, section(document, "Tree")) == ()
    assert [item.depth for item in document.items] == [0, 1]


def test_a_metadata_sample_in_mid_body_is_body():
    document = parse(b"# T\n\ntext\n\n---\nid: 1\n---\n\n## A\n", "F.md")
    assert document.front is None
    assert [one.title for one in document.headings] == ["T", "id: 1", "A"]


def test_headings_in_a_long_comment_are_examples():
    text = "<!--\n\n## Log\n\n### 2026-01-01: Example\n\n-->\n# T\n\n## Log\n\n### 2026-01-01: Example\n"
    document = parse(text.encode(), "F.md")
    assert find(document, "Log", "2026-01-01: Example").line == 12


def test_an_open_fence_holds_the_rest():
    assert titles("# T\n\n## A\n\n```\n## B\n\n**Status File End**\n") == [(1, "T"), (2, "A")]


def test_two_megabytes_of_entries_are_read():
    paragraph = "word " * 40
    text = "# T\n\n## Log\n\n" + f"{paragraph}\n\n" * 10_000 + "## End\n"
    assert len(text) > 2_000_000
    document = parse(text.encode(), "F.md")
    assert section(document, "End").start == len(text) - len("## End\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_items_end_before_the_blank_lines_below_them(end):
    text = end.join(["# T", "", "- [x] one", "- [ ] two", "  - sub", "", "", "text"])
    document = parse(text.encode(), "F.md")
    first, second, nested = document.items
    assert (first.text, first.done, first.depth) == ("one", True, 0)
    assert (second.text, second.done, nested.done) == ("two", False, None)
    assert document.text(second.start, second.end) == f"- [ ] two{end}  - sub{end}"


def test_a_label_holds_the_items_down_to_the_next_one():
    text = "# T\n\n## R\n\n**Active Workers:**\n- A: x (y: z)\n- B: y\n\n**Recent Completions:**\n- C: z\n"
    document = parse(text.encode(), "F.md")
    found = items(document, labelled(document, section(document, "R"), "Active Workers"))
    assert [item.text for item in found] == ["A: x (y: z)", "B: y"]


def test_rows_with_pipes_in_code_and_ragged_rows_hide_nothing():
    text = "# T\n\n|a|b|\n|--|--|\n|`a|b`|x|\n|\\||y|\n|||\n|short|\n|x|y|   \n\n## Next\n\nK: v\n"
    document = parse(text.encode(), "F.md")
    assert field(document, section(document, "Next"), "K").value == "v"
