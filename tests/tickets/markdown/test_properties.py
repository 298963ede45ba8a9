"""What holds of every edit, in documents and with values made at random."""

import re
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.documents import documents, markdown_it_headings, tree_sitter_headings

from tickets.markdown import (
    MarkdownError,
    add_entry,
    add_items,
    add_row,
    add_section,
    append_section,
    cell,
    doubtful_from,
    fields,
    front_value,
    header,
    insert,
    items,
    one_line,
    parse,
    remove_items,
    remove_rows,
    sections,
    set_cell,
    set_cells,
    set_checkbox,
    set_field,
    set_front,
    set_item,
    set_items,
    set_percent,
    set_section,
    set_text,
    tables,
    take_items,
)

# A place is drawn from what a document happens to hold, so many documents are passed by.
CHECKS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
HOSTILE = st.sampled_from(
    ["# x", "```", "<!--", "-->", "x\n## y", "---", "[ ] x", "[x] y", "> x", "|", "a|b", "\\|", "`", "`a|b`",
     "\\", " x", "x ", "a\r", "\0", "\ud800", "**", "***",
     "x: y", "- x", "<area>", "1. x", r"\1", "", "\u2028"],
) | st.text(max_size=8)  # fmt: skip
HARMLESS = st.sampled_from(["Ada", "2026-03-01", "é — ü", "fix `x`", "[###-] 75%", "07", "src/**", "C++"])
TEXTS = HOSTILE | HARMLESS
SCALARS = ("phase", "version", "note", "single", "double", "empty", "wrapped")
BLOCKS = TEXTS | st.sampled_from(
    ["## New\n\nwhy", "### Below\n\n- [ ] one", "~~~\n# no\n~~~", "```\nopen", "K: v"]
)


def parts(document):
    """Return the header and every section at every depth."""
    found = [header(document)]
    waiting = list(sections(document))
    while waiting:
        part = waiting.pop()
        found.append(part)
        waiting += sections(document, part)
    return found


def one_of(data, choices, what):
    """Draw one of what a document holds; pass the document by where it holds none."""
    return data.draw(st.sampled_from(choices), label=what) if choices else None


def outline(document):
    return [(one.level, one.title) for one in document.headings]


def values(document):
    return [(one.key, one.value) for part in parts(document) for one in fields(document, part)]


def changed(document, edit):
    """Make the edit; None where it is refused. Whatever comes of it, the document is what it was."""
    before = bytes(document.data)
    refused = after = None
    try:
        after = edit()
    except MarkdownError as error:
        refused = error.problems[0].place
    assert document == parse(before, "F.md")
    assert refused is None or re.fullmatch(r"F\.md:\d+", refused)
    assert after is None or after == parse(after.data, "F.md")
    return after


def assert_span(document, after, start, end):
    """Check that each byte before `start` and behind `end` is there still, in its place."""
    kept = len(document.data) - end
    assert after.data[:start] == document.data[:start]
    assert len(after.data) >= start + kept
    assert after.data[len(after.data) - kept :] == document.data[end:]


def sound(document):
    return doubtful_from(document) is None and b"\0" not in document.data


@CHECKS
@given(documents(), TEXTS, st.data())
def test_a_field_says_the_new_value_and_no_other_field_or_heading_changes(raw, value, data):
    document = parse(raw, "F.md")
    found = [(part, one) for part in parts(document) for one in fields(document, part)]
    chosen = one_of(data, found, "field")
    if chosen is None:
        return
    part, old = chosen
    after = changed(document, lambda: set_field(document, part, old.key, value))
    alone = [one.key for one in fields(document, part)].count(old.key) == 1
    if after is None:
        assert value not in {"Ada", "2026-03-01", "07"} or not alone or not sound(document)
        return
    assert_span(document, after, old.start, old.end)
    index = [one for _, one in found].index(old)
    wanted = values(document)
    wanted[index] = (old.key, value)
    assert values(after) == wanted
    assert outline(after) == outline(document)


@CHECKS
@given(documents(), st.integers(-5, 120), st.data())
def test_a_percentage_changes_and_the_words_around_it_stay(raw, percent, data):
    document = parse(raw + b"\n\n## Figures\n\nDone: [##--] 40% (note)\n", "F.md")
    found = [(part, one) for part in parts(document) for one in fields(document, part) if "%" in one.value]
    chosen = one_of(data, found, "field")
    if chosen is None:
        return
    part, old = chosen
    after = changed(document, lambda: set_percent(document, part, old.key, percent))
    if after is None:
        return
    assert 0 <= percent <= 100
    assert_span(document, after, old.start, old.end)
    grown = part._replace(own_end=part.own_end + len(after.data) - len(document.data))
    (new,) = [one for one in fields(after, grown) if one.key == old.key]
    assert new.value.endswith(f" {percent}% (note)")
    assert outline(after) == outline(document)


@CHECKS
@given(documents(), st.booleans(), st.data())
def test_a_ticked_box_is_one_byte(raw, done, data):
    document = parse(raw, "F.md")
    item = one_of(data, document.items, "item")
    if item is None:
        return
    after = changed(document, lambda: set_checkbox(document, item, done=done))
    if after is None:
        assert item.done is None or not sound(document)
        return
    assert_span(document, after, item.box, item.box + 1)
    assert [one.done for one in after.items] == [done if one == item else one.done for one in document.items]


@CHECKS
@given(documents(), TEXTS, st.data())
def test_an_item_says_the_new_text_and_keeps_its_box_and_depth(raw, text, data):
    document = parse(raw, "F.md")
    item = one_of(data, document.items, "item")
    if item is None:
        return
    after = changed(document, lambda: set_item(document, item, text))
    if after is None:
        assert text not in {"Ada", "2026-03-01", "07"} or not sound(document) or not item.text
        return
    assert_span(document, after, item.text_start, item.text_end)
    new = " ".join(text.split())
    assert [(one.text, one.done, one.depth) for one in after.items] == [
        (new if one == item else one.text, one.done, one.depth) for one in document.items
    ]
    assert outline(after) == outline(document)


@CHECKS
@given(documents(), TEXTS, st.data())
def test_a_cell_says_the_new_value_and_the_others_what_they_said(raw, value, data):
    document = parse(raw, "F.md")
    found = [
        (part, number, one) for part in parts(document) for number, one in enumerate(tables(document, part))
    ]
    chosen = one_of(data, [one for one in found if one[2].rows], "table")
    if chosen is None:
        return
    part, number, table = chosen
    row = data.draw(st.integers(0, len(table.rows) - 1), label="row")
    column = one_of(data, table.columns, "column")
    after = changed(document, lambda: set_cell(document, part, row, column, value, ordinal=number))
    if after is None:
        harmless = {"Ada", "2026-03-01", "07", "a|b", "`a|b`"}
        assert value not in harmless or table.rows[row].problem or not sound(document)
        return
    assert table.rows[row].problem is None
    old = cell(document, table, row, column)
    assert_span(document, after, old.low, old.high)
    again = [one for part in parts(after) for one in tables(after, part)]
    index = [one for *_, one in found].index(table)
    assert cell(after, again[index], row, column).text == value
    texts = [[[one.text for one in line.cells] for line in (each.header, *each.rows)] for *_, each in found]
    texts[index][row + 1][table.columns.index(column)] = value
    assert texts == [
        [[one.text for one in line.cells] for line in (each.header, *each.rows)] for each in again
    ]
    assert outline(after) == outline(document)


def one_by_one(document, start, number, wanted):
    """Set some cells of the table of the section that starts there; None where one of them is refused."""
    for row, cells in wanted.items():
        for column, value in cells.items():
            part = next(one for one in parts(document) if one.start == start)
            try:
                document = set_cell(document, part, row, column, value, ordinal=number)
            except MarkdownError:
                return None
    return document


@CHECKS
@given(documents(), st.data())
def test_cells_that_are_set_at_once_are_as_if_they_were_set_one_by_one(raw, data):
    document = parse(raw, "F.md")
    found = [(part, at, one) for part in parts(document) for at, one in enumerate(tables(document, part))]
    chosen = one_of(data, [one for one in found if one[2].rows], "table")
    if chosen is None:
        return
    part, number, table = chosen
    wanted = data.draw(
        st.dictionaries(
            st.integers(0, len(table.rows) - 1),
            st.dictionaries(st.sampled_from(table.columns), TEXTS, max_size=3),
            max_size=3,
        ),
        label="cells",
    )
    after = changed(document, lambda: set_cells(document, part, wanted, ordinal=number))
    alone = one_by_one(document, part.start, number, wanted)
    assert alone is None or after == alone


def drawn_table(document, data):
    """Draw a table of a document: its section, its number there, itself, its number in the document."""
    found = [
        (part, number, one) for part in parts(document) for number, one in enumerate(tables(document, part))
    ]
    chosen = one_of(data, found, "table")
    return chosen and (*chosen, found.index(chosen))


def rows_of(document):
    """Return what each row of each table says, the headers first."""
    found = [one for part in parts(document) for one in tables(document, part)]
    return [[[one.text for one in line.cells] for line in (each.header, *each.rows)] for each in found]


@CHECKS
@given(documents(), st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_a_new_row_says_its_values_and_all_else_what_it_said(raw, values, data):
    document = parse(raw, "F.md")
    drawn = drawn_table(document, data)
    if drawn is None:
        return
    part, number, table, index = drawn
    cells = dict(zip(table.columns, values, strict=False))
    before = data.draw(st.none() | st.integers(0, max(0, len(table.rows) - 1)), label="before")
    after = changed(document, lambda: add_row(document, part, cells, before=before, ordinal=number))
    if after is None:
        harmless = set(values) <= {"Ada", "2026-03-01", "07", "a|b", "`a|b`"}
        fits = before is None or (table.rows and table.rows[before].problem is None)
        assert not (harmless and fits) or not sound(document) or table.header.problem
        return
    at = len(table.rows) if before is None else before
    texts = rows_of(document)
    texts[index].insert(at + 1, [cells.get(column, "-") for column in table.columns])
    assert rows_of(after) == texts
    line = (table.rows[at - 1].line if at else table.header.line + 1) - 1
    place = document.lines[line].after
    assert_span(document, after, place, place)
    assert outline(after) == outline(document)
    again = next(one for each in parts(after) for one in tables(after, each) if one.start == table.start)
    assert [one.problem for one in again.rows].count(None) == 1 + [one.problem for one in table.rows].count(
        None
    )
    gone = changed(after, lambda: remove_rows(after, _like(after, part), [at], ordinal=number))
    added_end = len(document.data) == place and not document.data.endswith((b"\n", b"\r"))
    assert gone is not None
    assert gone.data == document.data + (document.newline if added_end else b"")


def _like(document, part):
    """Return the part of a changed document that begins where one began before."""
    return next(one for one in parts(document) if (one.start, one.level) == (part.start, part.level))


@CHECKS
@given(documents(), st.data())
def test_removed_rows_are_gone_and_every_other_line_stays(raw, data):
    document = parse(raw, "F.md")
    drawn = drawn_table(document, data)
    if drawn is None or not drawn[2].rows:
        return
    part, number, table, index = drawn
    gone = data.draw(st.sets(st.integers(0, len(table.rows) - 1), min_size=1, max_size=3), label="gone")
    after = changed(document, lambda: remove_rows(document, part, gone, ordinal=number))
    if after is None:
        assert any(table.rows[one].problem for one in gone) or not sound(document)
        return
    assert not any(table.rows[one].problem for one in gone)
    texts = rows_of(document)
    texts[index] = [row for at, row in enumerate(texts[index], -1) if at not in gone]
    assert rows_of(after) == texts
    lines = {table.rows[one].line for one in gone}
    kept = document.data[: document.lines.starts[0]] + b"".join(
        document.data[line.start : line.after] for at, line in enumerate(document.lines, 1) if at not in lines
    )
    assert after.data == kept


NOTHING = st.sampled_from(
    ["None.", "None.", "", "Words.", "Words.\n\nNone.", "None.\nmore", "```\nNone.\n```"]
)


@CHECKS
@given(documents(), st.sampled_from(["\n", "\r\n"]), NOTHING, st.lists(TEXTS, min_size=1, max_size=3))
def test_none_goes_with_the_first_item_and_returns_with_the_last(raw, end, text, words):
    """A list section that stands below any document, in any line end."""
    added = f"\n\n## A list of ours\n\n{text}\n\n---\n\n**File End**\n".replace("\n", end)
    document = parse(raw + added.encode(), "F.md")
    own = [one for one in parts(document) if one.title == "A list of ours"]
    if len(own) != 1 or not sound(document):
        return
    lines = [f"- {one_line(word)}" for word in words if one_line(word).strip()]
    after = changed(document, lambda: add_items(document, own[0], lines))
    if after is None or not lines:
        assert after is document or not lines or any("\x85" in line or "\u2028" in line for line in lines)
        return
    part = _like(after, own[0])
    assert len(items(after, part)) == len(lines)
    inside = after.data[part.body : part.own_content_end].decode()
    is_alone = text.split("\n\n")[-1] == "None."
    assert ("None." in inside) is ("None." in text and not is_alone)
    assert_span(document, after, own[0].body, own[0].own_end)
    back = changed(after, lambda: take_items(after, part, items(after, part)))
    assert back is not None
    if is_alone:
        assert back.data == document.data
    else:
        assert b"None." in back.data[part.body :]
    assert items(back, _like(back, part)) == ()


@CHECKS
@given(documents(), st.lists(TEXTS, min_size=2, max_size=4), st.data())
def test_only_the_last_of_the_items_brings_none_back(raw, words, data):
    document = parse(raw + b"\n\n## A list of ours\n\nNone.\n\n## Next\n", "F.md")
    own = [one for one in parts(document) if one.title == "A list of ours"]
    lines = [f"- {one_line(word)}" for word in words if one_line(word).strip()]
    after = changed(document, lambda: add_items(document, own[0], lines)) if len(own) == 1 else None
    if after is None or len(lines) < 2:
        return
    part = _like(after, own[0])
    gone = one_of(data, items(after, part), "item")
    left = changed(after, lambda: take_items(after, part, [gone]))
    assert left is not None
    assert left.data == changed(after, lambda: remove_items(after, [gone])).data
    assert b"None." not in left.data[part.body : part.own_end].splitlines()


@CHECKS
@given(documents(), st.sampled_from(["None.", "", "Words."]), BLOCKS, BLOCKS)
def test_new_sections_stand_below_theirs_in_order(raw, text, first, second):
    document = parse(raw + f"\n\n## Ours\n\n{text}\n\n---\n\n**File End**\n".encode(), "F.md")
    after = document
    for number, block in enumerate([first, second], 1):
        own = [one for one in parts(after) if one.title == "Ours"]
        if len(own) != 1:
            return
        made = changed(after, partial(add_section, after, own[0], f"### B{number}\n\n{block}"))
        if made is None:
            return
        after = made
    own = next(one for one in parts(after) if one.title == "Ours")
    titles = [one.title for one in sections(after, own)]
    assert [title for title in titles if title in {"B1", "B2"}] == ["B1", "B2"]
    assert after.data.endswith(b"\n\n---\n\n**File End**\n")
    assert (b"None." in after.data[own.body : own.own_end].splitlines()) is False
    rest = iter(outline(after))
    assert all(one in rest for one in outline(document))


@CHECKS
@given(documents(), TEXTS, st.data())
def test_a_stretch_of_text_is_replaced_or_nothing_is(raw, text, data):
    document = parse(raw, "F.md")
    found = [one for part in parts(document) for one in fields(document, part) if one.value]
    old = one_of(data, found, "stretch")
    if old is None:
        return
    after = changed(document, lambda: set_text(document, old.start, old.end, text))
    if after is not None:
        assert after.data == document.data[: old.start] + text.encode() + document.data[old.end :]
        assert outline(after) == outline(document)


@CHECKS
@given(documents(), st.lists(TEXTS, min_size=3, max_size=3), st.data())
def test_items_changed_at_once_are_as_if_changed_from_the_last_to_the_first(raw, texts, data):
    document = parse(raw, "F.md")
    if not document.items:
        return
    picked = data.draw(
        st.lists(st.sampled_from(document.items), min_size=1, max_size=3, unique=True), label="items"
    )
    wanted = sorted(zip(picked, texts, strict=False), key=lambda one: -one[0].start)
    after = changed(document, lambda: set_items(document, wanted))
    single = document
    for item, text in wanted:
        single = single and changed(single, lambda now=single, it=item, said=text: set_item(now, it, said))
    # One at a time may be refused for what the next one would have mended, never the other way round.
    if single is not None:
        assert after is not None
        assert after.data == single.data
    elif after is not None:
        assert outline(after) == outline(document)


@CHECKS
@given(documents(), st.data())
def test_removed_items_are_gone_and_every_other_line_stays(raw, data):
    document = parse(raw, "F.md")
    if not document.items:
        return
    gone = data.draw(st.lists(st.sampled_from(document.items), min_size=1, max_size=3), label="gone")
    after = changed(document, lambda: remove_items(document, gone))
    if after is None:
        return
    starts = [document.lines[item.line - 1].start for item in gone]
    kept = document.data[: document.lines.starts[0]] + b"".join(
        document.data[line.start : line.after]
        for line in document.lines
        if not any(start <= line.start < item.end for start, item in zip(starts, gone, strict=True))
    )
    assert after.data == kept
    assert outline(after) == outline(document)


@CHECKS
@given(documents(), BLOCKS, st.data())
def test_a_section_holds_the_new_text_and_its_neighbours_what_they_held(raw, text, data):
    document = parse(raw, "F.md")
    part = one_of(data, parts(document), "section")
    after = changed(document, lambda: set_section(document, part, text))
    if after is None:
        return
    assert_span(document, after, part.body, part.content_end)
    inside = after.data[part.body : len(after.data) - (len(document.data) - part.content_end)]
    assert inside.strip() == text.strip().encode().replace(b"\n", document.newline)
    before = [one for one in document.headings if not part.body <= one.start < part.content_end]
    own = [one for one in after.headings if part.body <= one.start < part.body + len(inside)]
    assert sorted(outline(after)) == sorted([(one.level, one.title) for one in [*before, *own]])
    assert all(one.level > part.level for one in own)


@CHECKS
@given(documents(), BLOCKS, st.data())
def test_inserted_lines_part_what_was_there_and_change_none_of_it(raw, text, data):
    document = parse(raw, "F.md")
    at = data.draw(st.sampled_from([line.start for line in document.lines] + [len(raw)]), label="at")
    after = changed(document, lambda: insert(document, max(at, document.body), text))
    if after is not None:
        assert_span(document, after, max(at, document.body), max(at, document.body))
        rest = iter(outline(after))
        assert all(one in rest for one in outline(document))


@CHECKS
@given(documents(), BLOCKS, st.sampled_from([add_entry, append_section]))
def test_a_new_section_adds_itself_and_changes_nothing(raw, text, make):
    document = parse(raw, "F.md")
    entry = f"## 2026-03-01: new\n\n{text}"
    after = changed(document, lambda: make(document, entry))
    if after is None:
        assert text not in {"Ada", "07", "~~~\n# no\n~~~"} or not sound(document)
        return
    added = [one for one in after.headings if one.title == "2026-03-01: new"]
    assert len(added) == 1
    at = added[0].start
    while not (document.data.startswith(after.data[:at]) and at <= len(document.data)):
        at -= 1  # what divides it from the text above
    assert_span(document, after, at, at)


@CHECKS
@given(st.sampled_from(["\n", "\r\n"]), st.booleans(), documents(), TEXTS, st.sampled_from(SCALARS))
def test_a_scalar_says_the_new_value_and_all_else_what_it_said(end, mark, raw, value, key):
    top = ["---", "phase: 07", "version: 1.10 # why", "note: x", "single: 'y'", 'double: "z"', "empty:",
           "wrapped: a", "  b", "last: 10:30", "---", ""]  # fmt: skip
    body = raw.removeprefix(b"\xef\xbb\xbf")
    document = parse(b"\xef\xbb\xbf" * mark + end.join(top).encode() + body, "F.md")
    after = changed(document, lambda: set_front(document, key, value=value))
    if after is None:
        assert value not in {"Ada", "07", "2026-03-01", "x: y", "# x", "`"} or b"\0" in raw
        return
    assert front_value(after, key) == value
    others = [
        one
        for one in ("phase", "version", "note", "single", "double", "empty", "wrapped", "last")
        if one != key
    ]
    assert [front_value(after, one) for one in others] == [front_value(document, one) for one in others]
    start = document.data.index(key.encode() + b":") + len(key) + 1
    line = document.lines.number_at(start) + (key == "wrapped")
    assert_span(document, after, start, document.lines[line].end)
    assert outline(after) == outline(document)


@CHECKS
@given(documents(), st.text(max_size=12), st.data())
def test_text_made_harmless_is_taken_wherever_it_goes(raw, text, data):
    """The road of every foreign word into a state file: one_line, then an edit."""
    document = parse(raw, "F.md")
    line = one_line(text)
    # Words in an empty item would draw in the paragraph below it: that is refused, whatever they are.
    found = [item for part in parts(document) for item in items(document, part) if item.text]
    item = one_of(data, found, "item")
    if item is not None and sound(document) and line and not line[-1].isspace():
        assert set_item(document, item, line).data.count(line.encode()) >= 1


@CHECKS
@given(documents())
def test_headings_are_where_two_other_parsers_see_them(raw):
    """Not compared: front matter and byte order mark, which are ours; lone unknown tags are blanked."""
    document = parse(raw, "F.md")
    first = document.lines.number_at(document.body)
    found = [(one.level, one.line - first) for one in document.headings]
    body = raw[document.body :].decode().replace("<area>", "      ")
    assert found == markdown_it_headings(body)
    # For tree-sitter-markdown a row of blank cells ends the table, and a rule right below a table is none:
    # either hides the heading below it.
    blank = [
        row for grid in document.grids for row in grid.rows if not raw[row.start : row.end].strip(b"| \r\n")
    ]
    ruled = [grid for grid in document.grids if re.match(rb"\s{0,2}---", raw[grid.end :])]
    assert blank or ruled or found == tree_sitter_headings(body)


@pytest.mark.parametrize(
    ("text", "headings"),
    [("# a\n\nb\n===\n\n> # no\n\n- # no\n\n```\n# no\n```\n## c", [(1, 1), (1, 3), (2, 13)]), ("x\n", [])],
)
def test_the_other_parsers_see_what_they_are_asked_for(text, headings):
    assert markdown_it_headings(text) == headings
    assert tree_sitter_headings(text) == headings
