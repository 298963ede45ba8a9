"""Front matter: found strictly, changed in place."""

import pytest

from tickets.markdown import MarkdownError, front_problems, front_value, parse, set_front

FRONT = """---
phase: 07
version: 1.10 # keep me
time: 10:30
at: 2026-02-16T14:28:00+02:00
flag: yes
name: 'single'
title: "double"
wrapped: a value
  that goes on
empty:
progress:
  total: 8
  done: 6
tags: [a, b]
ref: &anchor here
other: *anchor
---
# Body

---
time: 1
---
"""


@pytest.mark.parametrize(
    ("key", "worth"),
    [("phase", "07"), ("version", "1.10"), ("time", "10:30"), ("flag", "yes"), ("empty", ""),
     ("wrapped", "a value that goes on"), ("at", "2026-02-16T14:28:00+02:00"), ("name", "single")],
)  # fmt: skip
def test_a_value_is_read_as_it_is_spelled(key, worth):
    assert front_value(parse(FRONT.encode(), "F.md"), key) == worth


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("phase", "08", "phase: 07\n", "phase: 08\n"),
        ("version", "1.11", "version: 1.10 # keep", "version: 1.11 # keep"),
        ("flag", "no", "flag: yes", "flag: no"),
        ("name", "it's", "name: 'single'", "name: 'it''s'"),
        ("title", 'a "b"', 'title: "double"', 'title: "a \\"b\\""'),
        ("wrapped", "short", "wrapped: a value\n  that goes on\n", "wrapped: short\n"),
        ("wrapped", "a: b # c", "wrapped: a value\n  that goes on\n", 'wrapped: "a: b # c"\n'),
        ("wrapped", "yes", "wrapped: a value\n  that goes on\n", 'wrapped: "yes"\n'),
        ("empty", "x", "empty:\n", "empty: x\n"),
    ],
)
@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\n"), ("\ufeff", "\r\n")])
def test_a_change_touches_the_value_alone(key, value, old, new, mark, end):  # noqa: PLR0917 - a table's row
    before = (mark + FRONT).replace("\n", end).encode()
    after = set_front(parse(before, "F.md"), key, value=value)
    assert after.data == (mark + FRONT.replace(old, new)).replace("\n", end).encode()
    assert front_value(after, key) == value


@pytest.mark.parametrize("key", ["progress", "tags", "other", "absent"])
def test_what_is_no_plain_value_is_left_alone(key):
    document = parse(FRONT.encode(), "F.md")
    with pytest.raises(MarkdownError, match="not updated"):
        set_front(document, key, value="40%")


def test_a_nested_value_is_changed_by_its_path():
    after = set_front(parse(FRONT.encode(), "F.md"), "progress", "done", value="7")
    assert after.data == FRONT.replace("done: 6", "done: 7").encode()


def test_keys_given_twice_are_reported_where_they_stand_and_not_changed():
    document = parse(b"---\na: 1\nlist:\n  - id: 1\n    id: 2\na: 3\n---\n# T\n", "F.md")
    assert sorted(one.place for one in front_problems(document)) == ["F.md:5", "F.md:6"]
    with pytest.raises(MarkdownError, match="`a` 2 times"):
        set_front(document, "a", value="2")


@pytest.mark.parametrize("line", ["title: a: b", 'title: "a" b', "title: `x`", "title: @x", "title: *x"])
def test_front_matter_that_is_no_yaml_leaves_the_body_usable(line):
    document = parse(f"---\n{line}\n---\n# T\n".encode(), "F.md")
    assert document.front is not None
    assert [one.title for one in document.headings] == ["T"]
    assert front_problems(document)[0].place == "F.md:2"
    with pytest.raises(MarkdownError, match="not YAML"):
        set_front(document, "title", value="x")


@pytest.mark.parametrize(
    "text",
    [
        "---\njust text between rules\n---\n# T\n",
        "---\n\n# T\n\ntext\n",
        "--- \n- a\n- b\n---\n# T\n",
        "text\n---\n# T\n",
    ],
)
def test_a_document_that_only_begins_like_front_matter_has_none(text):
    document = parse(text.encode(), "F.md")
    assert document.front is None
    assert document.headings[-1].title == "T"


def test_front_matter_that_refers_to_itself_is_read():
    document = parse(b"---\na: &x [*x, 1]\nb: 2\n---\n", "F.md")
    assert set_front(document, "b", value="3").data == b"---\na: &x [*x, 1]\nb: 3\n---\n"
