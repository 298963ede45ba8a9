"""Edits: what they are about changes, and every other byte stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.markdown import (
    MarkdownError,
    add_entry,
    append_section,
    field,
    header,
    insert,
    items,
    parse,
    remove_items,
    section,
    set_cell,
    set_checkbox,
    set_field,
    set_item,
    set_items,
    set_percent,
    set_section,
)

BASE = """# Project

**Last Updated:** 2026-02-16 14:28
- **Lead**: Ada
Phase: one

---

## Tickets

```text
# Next
## Status
- [ ] not a row
```

- [ ] first
- [x] second

<!-- a note
## Status
-->

| a | b | extra |
|---|---|-------|
| 1 | 2 | 3 |

## Status

**State:** open

## Other

kept

"""
STYLES = {
    "lf": BASE.encode(),
    "crlf": BASE.replace("\n", "\r\n").encode(),
    "mixed": BASE.replace("\n", "\r\n", 9).replace("\r\n", "\n", 3).encode(),
    "mark": b"\xef\xbb\xbf" + BASE.encode(),
    "no final end": BASE.rstrip("\n").encode(),
}


def changed_lines(before, after):
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    assert len(old) == len(new)
    return [(a, b) for a, b in zip(old, new, strict=True) if a != b]


@pytest.mark.hardening
@pytest.mark.parametrize("style", STYLES)
def test_one_changed_field_is_one_changed_line_in_every_line_style(style):
    """T31: LF, CRLF, mixed, and with a mark."""
    document = parse(STYLES[style], "F.md")
    values = [field(document, header(document), key).value for key in ("Last Updated", "Lead", "Phase")]
    assert values == ["2026-02-16 14:28", "Ada", "one"]
    after = set_field(document, header(document), "Lead", "Grace")
    ((old, new),) = changed_lines(document.data, after.data)
    assert (old.rstrip(b"\r\n"), new.rstrip(b"\r\n")) == (b"- **Lead**: Ada", b"- **Lead**: Grace")
    assert old[len(old.rstrip()) :] == new[len(new.rstrip()) :]


@pytest.mark.parametrize(
    ("line", "new"),
    [("**K:** v", "**K:** w"), ("K: v", "K: w"), ("- **K**: v", "- **K**: w"), ("- **K:** v", "- **K:** w"),
     ("**K**: v", "**K**: w"), ("**K:** v  ", "**K:** w  "), ("**K:**", "**K:** w"), ("K:", "K: w")],
)  # fmt: skip
def test_a_field_keeps_its_spelling_and_its_hard_break(line, new):
    document = parse(f"# T\n\n{line}\nmore\n".encode(), "F.md")
    assert set_field(document, header(document), "K", "w").data == f"# T\n\n{new}\nmore\n".encode()


def test_a_value_is_never_a_replacement_pattern():
    document = parse(b"# T\n\nK: v\n", "F.md")
    assert set_field(document, header(document), "K", r"\1 \g<0> $1").data == b"# T\n\nK: \\1 \\g<0> $1\n"


@pytest.mark.hardening
def test_a_percentage_changes_in_the_body_and_its_note_stays():
    """T32: the map of the same name in the front matter keeps its keys."""
    text = "---\nprogress:\n  a: 1\n  b: 2\n---\n# T\n\nProgress: [##--] 20% (note)\n"
    document = parse(text.encode(), "F.md")
    after = set_percent(document, header(document), "Progress", 75)
    assert after.data == text.replace("[##--] 20%", "[###-] 75%").encode()


@pytest.mark.hardening
def test_a_percentage_without_its_line_is_not_updated():
    """T32: where there is no such line, that is reported and nothing changes."""
    document = parse(b"---\nprogress:\n  a: 1\n  b: 2\n---\n# T\n", "F.md")
    with pytest.raises(MarkdownError, match="not updated"):
        set_percent(document, header(document), "Progress", 40)


@pytest.mark.hardening
@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_rows_below_a_fence_are_seen_and_the_fence_stays(fence):
    """T34: headings in fences of every kind are none."""
    text = BASE.replace("```", fence)
    document = parse(text.encode(), "F.md")
    assert [item.text for item in items(document, section(document, "Tickets"))] == ["first", "second"]
    after = set_section(document, section(document, "Status"), "**State:** closed")
    assert after.data == text.replace("**State:** open", "**State:** closed").encode()


@pytest.mark.hardening
def test_rows_below_an_indented_block_are_seen():
    """T34: headings in an indented block are none."""
    document = parse(
        b"# T\n\n## Tickets\n\n    # Next\n    ## Status\n\n- [ ] a\n- [ ] b\n\n## Status\n\nx\n", "F.md"
    )
    assert len(items(document, section(document, "Tickets"))) == 2
    assert section(document, "Status").line == 11


@pytest.mark.parametrize("style", STYLES)
def test_a_ticked_box_is_one_changed_byte(style):
    document = parse(STYLES[style], "F.md")
    first = document.items[1]
    assert first.text == "first"
    after = set_checkbox(document, first, done=True)
    assert [(a, b) for a, b in zip(document.data, after.data, strict=True) if a != b] == [
        (ord(" "), ord("x"))
    ]
    assert set_checkbox(after, after.items[1], done=False).data == document.data


def test_an_item_without_a_box_is_refused():
    document = parse(b"- plain\n", "F.md")
    with pytest.raises(MarkdownError, match=r"F\.md:1: `plain` has no checkbox"):
        set_checkbox(document, document.items[0], done=True)


def test_an_item_is_replaced_without_what_hangs_below_it():
    document = parse(b"# T\n\n- [ ] one\n  two\n  - nested\n- last\n", "F.md")
    assert set_item(document, document.items[0], "new").data == b"# T\n\n- [ ] new\n  - nested\n- last\n"


def test_several_items_are_replaced_as_one_edit_and_what_lies_between_stays():
    document = parse("# T\n\n- é\n  - nested\n- [x] two\n\n## A\n\n- three\n- four".encode(), "F.md")
    one, _, two, _, four = document.items
    after = set_items(document, [(four, "vier"), (one, "longer than it was"), (two, "")])
    assert after.data == b"# T\n\n- longer than it was\n  - nested\n- [x] \n\n## A\n\n- three\n- vier"


def test_an_item_and_the_one_below_it_are_replaced_at_once():
    document = parse(b"- [ ] one\n  - nested\n- last\n", "F.md")
    after = set_items(document, [(item, item.text.upper()) for item in document.items])
    assert after.data == b"- [ ] ONE\n  - NESTED\n- LAST\n"


def test_one_bad_text_of_several_refuses_them_all():
    document = parse(b"- one\n- two\n- three\n", "F.md")
    with pytest.raises(MarkdownError, match="this edit was not made"):
        set_items(document, [(document.items[0], "1"), (document.items[1], "```")])


def test_items_before_code_that_nothing_closes_are_replaced_and_those_in_doubt_are_not():
    document = parse(b"- one\n\n```\nx\n\n```text\n- two\n```\n\n- three\n\n```\n", "F.md")
    first, last = document.items[0], document.items[-1]
    assert set_items(document, [(first, "1")]).data.startswith(b"- 1\n")
    with pytest.raises(MarkdownError, match="never closed"):
        set_items(document, [(first, "1"), (last, "3")])


def test_removed_items_take_what_hangs_below_them():
    document = parse(b"# T\n\n- one\n  - nested\n- two\n- three", "F.md")
    gone = [document.items[0], document.items[2]]
    assert remove_items(document, gone).data == b"# T\n\n- three"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_entry_stands_above_the_newest_in_the_files_own_line_end(end):
    before = b"# Log\n\n**Project:** x\n\n---\n\n## old\n\ntext\n\n---\n\n**Log End**\n".replace(b"\n", end)
    after = add_entry(parse(before, "F.md"), "## new\n\nwhy").data
    assert after == before.replace(b"## old", end.join([b"## new", b"", b"why", b"", b"---", b"", b"## old"]))


def test_the_first_entry_stands_before_the_trailer():
    after = add_entry(parse(b"# Log\n\n---\n\n**Log End**\n", "F.md"), "## new\n\nwhy").data
    assert after == b"# Log\n\n---\n\n## new\n\nwhy\n\n---\n\n**Log End**\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"# T\n\n## A\n\nx\n", b"# T\n\n## A\n\nx\n\n---\n\n## B\n\ny\n"),
        (b"# T\n\n## A\n\nx", b"# T\n\n## A\n\nx\n\n---\n\n## B\n\ny"),
        (b"# T\r\n\r\nx\r\n", b"# T\r\n\r\nx\r\n\r\n---\r\n\r\n## B\r\n\r\ny\r\n"),
        (b"# T\n\nx\n\n---\n\n**F End**\n", b"# T\n\nx\n\n---\n\n## B\n\ny\n\n---\n\n**F End**\n"),
        (b"", b"## B\n\ny\n"),
    ],
)
def test_a_missing_section_goes_to_the_end_before_a_trailer(before, after):
    assert append_section(parse(before, "F.md"), "## B\n\ny").data == after


def test_a_section_that_would_fall_into_an_open_fence_is_refused():
    document = parse(b"# T\n\n```\nnever closed\n", "F.md")
    with pytest.raises(MarkdownError, match=r"F\.md:3: a code fence is never closed, so what follows"):
        append_section(document, "## B\n\ny")


def test_a_line_that_would_become_a_heading_over_a_rule_is_refused():
    document = parse(b"# T\n\n---\n\n## A\n", "F.md")
    with pytest.raises(MarkdownError, match="this edit was not made"):
        insert(document, 5, "text")


@pytest.mark.parametrize("value", ["a\nb", "a\r", "a\n\n## b"])
def test_a_value_of_two_lines_is_refused(value):
    document = parse(b"# T\n\nK: v\n", "F.md")
    with pytest.raises(MarkdownError, match="more than one line"):
        set_field(document, header(document), "K", value)


def test_a_value_that_would_open_a_fence_is_refused():
    document = parse(b"# T\n\n- one\n\n## A\n", "F.md")
    with pytest.raises(MarkdownError, match="this edit was not made"):
        set_item(document, document.items[0], "```")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(STYLES)),
    st.text(max_size=12) | st.sampled_from(["# x", "```", "<!--", "x\n## y", "---", "[ ] x", "> x"]),
    st.integers(0, 3),
)
def test_an_edit_changes_its_span_or_nothing(style, text, which):
    document = parse(STYLES[style], "F.md")
    item = document.items[which % len(document.items)]
    try:
        after = set_item(document, item, text)
    except (MarkdownError, UnicodeEncodeError):
        return
    assert after.data[: item.text_start] == document.data[: item.text_start]
    assert after.data[item.text_start + len(text.encode()) :] == document.data[item.text_end :]
    assert [one.title for one in after.headings] == [one.title for one in document.headings]


@pytest.mark.parametrize("make", [add_entry, append_section])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\ufeff# Log\n", "\ufeff# Log\n\n---\n\n## New\n\nAda\n"),
        ("\ufeffsome words\n", "\ufeffsome words\n\n---\n\n## New\n\nAda\n"),
        ("\ufeff", "\ufeff## New\n\nAda\n"),
    ],
)
def test_a_byte_order_mark_stays_where_it_is(make, before, after):
    document = parse(before.encode(), "F.md")
    assert make(document, "## New\n\nAda").data.decode() == after


MARK = "\ufeff"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("below", ["", "Bob\n", "Bob\n\n---\n\n**Log End**\n"])
def test_an_entry_goes_above_one_right_behind_a_byte_order_mark(below, end):
    old = f"## Old\n{below}".replace("\n", end)
    document = parse(f"{MARK}{old}".encode(), "F.md")
    new = "## New\n\nAda\n\n---\n\n".replace("\n", end)
    assert add_entry(document, "## New\n\nAda").data.decode() == f"{MARK}{new}{old}"


FIRST_LINES = {
    "section": ("## A\nK: v\n", lambda one: set_section(one, section(one, "A"), "w"), "## A\n\nw\n"),
    "field of a section": (
        "## A\nK: v\n", lambda one: set_field(one, section(one, "A"), "K", "w"), "## A\nK: w\n",
    ),
    "field": ("K: v\n\n## A\n", lambda one: set_field(one, header(one), "K", "w"), "K: w\n\n## A\n"),
    "field at the very end": (
        "K: v\n- **Lead**: ", lambda one: set_field(one, header(one), "Lead", "w"), "K: v\n- **Lead**: w",
    ),
    "bold field": ("**K:** v\n", lambda one: set_field(one, header(one), "K", "w"), "**K:** w\n"),
    "item": ("- [ ] a\n- b\n", lambda one: remove_items(one, [one.items[0]]), "- b\n"),
    "trailer": ("**T End**\n", lambda one: append_section(one, "## A"), "## A\n\n**T End**\n"),
    "table": (
        "| K | L |\n|---|---|\n| a | b |\n",
        lambda one: set_cell(one, header(one), "a", "L", "w"),
        "| K | L |\n|---|---|\n| a | w |\n",
    ),
}  # fmt: skip
"""What may stand on the first line: the file, an edit that needs it found, and the file afterwards."""


@pytest.mark.parametrize("mark", ["", MARK], ids=["without", "with"])
@pytest.mark.parametrize("name", FIRST_LINES)
def test_the_first_line_is_read_the_same_behind_a_byte_order_mark(name, mark):
    before, edit, after = FIRST_LINES[name]
    assert edit(parse(f"{mark}{before}".encode(), "F.md")).data.decode() == f"{mark}{after}"
