"""Rows, items and sections that come and go: examples of what each edit writes, and of what it refuses."""

import pytest

from tickets.markdown import (
    MarkdownError,
    add_items,
    add_row,
    add_rows,
    add_section,
    items,
    parse,
    remove_rows,
    section,
    take_items,
)

TABLE = b"""# Board

## Plans

| Plan | **State** | Ours |
|------|:---------:|---|
| 02-01 | done | x |
| 02-1 | open | `a\\|b` |
| `02-10` | open | z |

## Log

None.

---

**File End**
"""


def board(text=TABLE):
    document = parse(text, "F.md")
    return document, section(document, "Plans")


def log(text):
    document = parse(text, "F.md")
    return document, section(document, "Log")


def test_a_row_has_its_values_by_column_and_a_dash_where_none_was_said():
    after = add_row(*board(), {"state": "a|b", "Plan": "02-02"})
    assert after.data == TABLE.replace(b"| z |\n", b"| z |\n| 02-02 | a\\|b | - |\n")


@pytest.mark.parametrize("before", ["02-1", 1])
def test_a_row_stands_above_the_one_that_is_named(before):
    after = add_row(*board(), {"Plan": "new"}, before=before)
    assert after.data == TABLE.replace(b"| 02-1 |", b"| new | - | - |\n| 02-1 |")


def test_a_first_row_stands_below_the_line_of_dashes():
    empty = remove_rows(*board(), ["02-01", "02-1", "02-10"])
    assert empty.data == TABLE[: TABLE.index(b"| 02-01")] + TABLE[TABLE.index(b"\n## Log") :]
    after = add_row(empty, section(empty, "Plans"), {"Plan": "one"})
    assert b"|---|\n| one | - | - |\n\n## Log" in after.data


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_row_at_the_end_of_a_file_leaves_it_without_a_line_end_as_it_was(end):
    text = TABLE[: TABLE.index(b"\n\n## Log")].replace(b"\n", end)
    after = add_row(*board(text), {"Plan": "one"})
    assert after.data == text + end + b"| one | - | - |"


def test_a_row_in_a_list_keeps_its_indent():
    text = b"# Board\n\n## Plans\n\n- a table\n\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n"
    assert add_row(*board(text), {"a": "3"}).data == text + b"  | 3 | - |\n"


def test_a_row_is_found_by_its_whole_first_cell():
    assert remove_rows(*board(), ["02-1"]).data == TABLE.replace(b"| 02-1 | open | `a\\|b` |\n", b"")
    with pytest.raises(MarkdownError, match=r"no row `02`, so it was not updated"):
        remove_rows(*board(), ["02"])


REFUSED = {
    "a column that is not there": ({"Owner": "x"}, r"F\.md:5: no column `Owner`, so it was not updated"),
    "two lines": ({"Plan": "a\nb"}, "would not be read back"),
    "blanks around": ({"Plan": " a"}, "would not be read back"),
    "a backslash before a pipe": ({"Plan": "a\\|b"}, "would not be read back"),
    "half a character": ({"Plan": "\ud800"}, "half a character"),
    "a NUL byte": ({"Plan": "\0"}, "NUL byte"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_row_that_would_not_be_read_back_is_refused(why):
    cells, said = REFUSED[why]
    with pytest.raises(MarkdownError, match=said):
        add_row(*board(), cells)


def test_a_ragged_row_is_refused_where_it_is_named_and_stays_where_it_is_not():
    text = TABLE.replace(b"| 02-1 | open |", b"| 02-1 | open | more |")
    with pytest.raises(MarkdownError, match=r"F\.md:8: the row has 4 cells where the header has 3"):
        remove_rows(*board(text), ["02-1"])
    after = add_row(*board(text), {"Plan": "new"})
    assert after.data == text.replace(b"| z |\n", b"| z |\n| new | - | - |\n")


def test_a_table_with_a_ragged_header_takes_no_row():
    with pytest.raises(MarkdownError, match=r"F\.md:5: the row has an unescaped pipe in the code span"):
        add_row(
            *board(TABLE.replace(b"| Ours |", b"| `O|urs` |").replace(b"|---|\n", b"|---|---|\n")),
            {"Plan": "x"},
        )


def test_none_goes_with_the_first_item_and_returns_with_the_last():
    one = add_items(*log(TABLE), ["- one"])
    assert one.data == TABLE.replace(b"None.", b"- one")
    two = add_items(one, section(one, "Log"), ["- two"])
    assert two.data == TABLE.replace(b"None.", b"- one\n- two")
    part = section(two, "Log")
    assert take_items(two, part, items(two, part)[:1]).data == TABLE.replace(b"None.", b"- two")
    assert take_items(two, part, items(two, part)).data == TABLE


def test_none_is_a_paragraph_of_its_own_between_other_text():
    document, part = log(b"# F\n\n## Log\n\nOur log:\n- a\n\n## Next\n")
    after = take_items(document, part, items(document, part))
    assert after.data == b"# F\n\n## Log\n\nOur log:\n\nNone.\n\n## Next\n"
    again = add_items(after, section(after, "Log"), ["- b"])
    assert again.data == b"# F\n\n## Log\n\nOur log:\n\n- b\n\n## Next\n"


@pytest.mark.parametrize(
    "text", ["None. Yet.", "None.\nmore", "`None.`", "```\nNone.\n```", "<!--\nNone.\n-->"]
)
def test_what_only_looks_like_none_stays(text):
    before = TABLE.replace(b"None.", text.encode())
    after = add_items(*log(before), ["- one"])
    assert after.data == before.replace(text.encode(), f"{text}\n\n- one".encode())


def test_a_section_below_another_takes_the_place_of_none_and_the_next_follows_it():
    one = add_section(*log(TABLE), "### B1\n\n> said\n")
    assert one.data == TABLE.replace(b"None.", b"### B1\n\n> said")
    two = add_section(one, section(one, "Log"), "### B2\n\nwhy")
    assert two.data == TABLE.replace(b"None.", b"### B1\n\n> said\n\n### B2\n\nwhy")


@pytest.mark.parametrize("text", ["## Beside", "# Above", "### Below\n\n## Beside"])
def test_a_section_that_would_not_stand_below_is_refused(text):
    with pytest.raises(MarkdownError, match="would end `Log`"):
        add_section(*log(TABLE), text)


@pytest.mark.parametrize("before", [None, "02-01", "02-1"])
def test_rows_that_are_added_at_once_are_as_if_they_were_added_one_by_one(before):
    document, part = board()
    new = [{"Plan": "a|b"}, {"Plan": "new", "state": "x"}]
    alone = document
    for cells in new:
        alone = add_row(alone, section(alone, "Plans"), cells, before=before)
    assert add_rows(document, part, new, before=before) == alone
