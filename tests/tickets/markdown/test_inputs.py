"""Fifteen inputs that state files are made of: each is read, edited in one place, refused in another."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support.documents import markdown_it_headings, tree_sitter_headings

from tickets.markdown import (
    Document,
    MarkdownError,
    add_entry,
    append_section,
    field,
    fields,
    find,
    front_problems,
    front_value,
    header,
    insert,
    items,
    parse,
    section,
    set_cell,
    set_checkbox,
    set_field,
    set_front,
    set_section,
)

BOM = b"\xef\xbb\xbf"


class Edit(NamedTuple):
    """What `make` does to a file is what replacing `old`, which stands there once, by `new` does."""

    make: Callable[[Document], Document]
    old: bytes
    new: bytes


class Refusal(NamedTuple):
    make: Callable[[Document], Any]
    says: str
    """A pattern that the whole message matches from its start: place, line, what."""


class Input(NamedTuple):
    number: int
    name: str
    data: bytes
    titles: list[str]
    edits: list[Edit]
    refusals: list[Refusal]
    blanked: tuple[str, ...] = ()
    """Lone unknown tags, which we read past and CommonMark does not: the other parsers do not see them."""


def lines(*some: str, end: str = "\n") -> bytes:
    return "".join(line + end for line in some).encode()


def state(*path: str, value: str = "closed", ordinal: int | None = None) -> Callable[[Document], Document]:
    return lambda one: set_field(one, section(one, *path, ordinal=ordinal), "State", value)


def front(*path: str, value: str) -> Callable[[Document], Document]:
    return lambda one: set_front(one, *path, value=value)


def cell(row: str, column: str, value: str) -> Callable[[Document], Document]:
    return lambda one: set_cell(one, section(one, "Board"), row, column, value)


CLOSED = (b"**State:** open", b"**State:** closed")
FENCE_7 = r"F\.md:7: a code fence is never closed"
TWO_LINES = "this edit was not made: the new text is more than one line"

INSIDE_OUT = lines(
    "# Guide", "", "## Before", "", "**State:** open", "",
    "```markdown", "# A report", "", "```yaml", "id: 1", "```", "", "## Looks real", "", "State: draft", "",
    "```", "", "## After", "", "State: waiting",
)  # fmt: skip
GLUED = lines(
    "# Areas", "",
    *(row for n in range(4) for row in ("<area>", f"## Area {n}", "", f"**State:** s{n}", "", "</area>", "")),
)  # fmt: skip
LONE_CR = b"# Mixed\rone\n\n## Notes\n\n**State:** open\n\n## Rest\n"
UTF16 = LONE_CR.replace(b"**State:** open", "Größe".encode("utf-16-le"))
TABBED = lines(
    "# Keys", "", "- key: v", "\t- inner: w", "\t- outer: z", "", "## Tree", "", "\tsrc", "\t\tmain: x", "",
    "## Pair", "", "```yaml", "---", "State: 1", "---", "State: 2", "```", "", "**State:** open",
)  # fmt: skip
SAMPLE = lines("# T", "", "So it begins:", "", "---", "id: 1", "---", "", "## Real", "", "**State:** open")
RULED = lines("---", "", "Only words.", "", "---", "", "# T", "", "## A", "", "**State:** open")
OPEN_FRONT = lines("---", "title: x", "", "# T", "", "## A", "", "**State:** open")
BROKEN_FRONT = lines("---", "title: a: b", "---", "# T", "", "## A", "", "**State:** open")
SCALARS = lines(
    "---", "phase: 07", "version: 1.10", "time: 10:30", "at: 2026-02-16T14:28:00+02:00", "flag: yes",
    "long: it goes on", "  and on", "note: here # why", "map:", "  a: 1", "list:", "  - id: 1", "    id: 2",
    "---", "# T",
)  # fmt: skip
BOARD = lines(
    "# T", "", "## Board", "", "| Id | Note | Tests |", "|----|------|-------|", "| 1 | `a|b` | x |",
    r"| 2 | c \| d | x |", "| 3 || x |", "| 4 |  | x |", "| 5 | short |", "| 6 | e | x |   ",
    "| 7 | a | b | c |", "", "## Next", "", "**State:** open",
)  # fmt: skip
DATED = lines(
    "# T", "", "## Log", "",
    *(line for n in range(10) for line in ("### 2026-02-16: Same", "", f"**State:** n{n}", "")),
)  # fmt: skip
COMMENT = lines(
    "<!--", "How to write here", "", "## Log", "", "### 2026-01-01: Entry", "", "**State:** example", "",
    *["more words", ""] * 40, "-->", "# T", "", "## Log", "", "### 2026-01-01: Entry", "", "**State:** open",
)  # fmt: skip
UNCLOSED = lines("# T", "", "## A", "", "**State:** open", "", "```sh", "make", "", "## B", "", "State: x")
BIG = lines("# T", "", "**Last:** 1", "", "## Log", "", *[f"{'word ' * 40}", ""] * 10_000, "## End", "", "x")
PLAIN = ("# T", "", "**Owner:** Ada  ", "**State:** open  ", "", "## A", "", "- [ ] one", "", "---")
FRONTED = ("---", "phase: 07", "---", *PLAIN)
MIXED = b"".join(line.encode() + (b"\r\n" if n % 3 else b"\n") for n, line in enumerate(PLAIN))
NUMBERED = lines(
    "# T", "", "## \U0001f680 **Phase 2** \u2014 2026-02-16:", "", "### 2.1", "", "**State:** a", "",
    "### 2.10", "", "**State:** b", "", "### 21", "", "**State:** c",
)  # fmt: skip
ROCKET = "\U0001f680 Phase 2 \u2014 2026-02-16"


def header_state(document: Document) -> Document:
    return set_field(document, header(document), "State", "closed")


def as_written(number: int, name: str, data: bytes) -> Input:
    return Input(
        number, name, data, ["T", "A"],
        [
            Edit(header_state, *CLOSED),
            Edit(lambda one: set_checkbox(one, one.items[0], done=True), b"[ ]", b"[x]"),
        ],
        [Refusal(lambda one: set_field(one, header(one), "Owner", "a\nb"), rf"F\.md:\d+: {TWO_LINES}")],
    )  # fmt: skip


INPUTS = [
    Input(
        1, "a fence in a fence turns the later ones inside out", INSIDE_OUT,
        ["Guide", "Before", "Looks real"],
        [Edit(state("Before"), *CLOSED)],
        [
            Refusal(state("After"), f"{FENCE_7}, so section `After` cannot be told from code"),
            Refusal(state("Looks real"), f"{FENCE_7}, so what follows cannot be told from code"),
            Refusal(lambda one: append_section(one, "## New"), FENCE_7),
        ],
    ),
    Input(
        2, "a lone tag is glued to a heading", GLUED, ["Areas", "Area 0", "Area 1", "Area 2", "Area 3"],
        [
            Edit(state("Area 2"), b"**State:** s2", b"**State:** closed"),
            Edit(lambda one: set_section(one, section(one, "Area 1"), "new"), b"**State:** s1", b"new"),
        ],
        [Refusal(lambda one: set_section(one, section(one, "Area 1"), "<!--"), r"F\.md:12: this edit")],
        ("<area>", "</area>"),
    ),
    Input(3, "UTF-16 in the middle", UTF16, [], [], [Refusal(lambda one: one, r"F\.md:6: byte 27 is")]),
    Input(
        3, "the same mended, a lone CR in it", LONE_CR, ["Mixed", "Notes", "Rest"],
        [Edit(state("Notes"), *CLOSED)],
        [Refusal(state("Notes", value="a\rb"), rf"F\.md:6: {TWO_LINES}")],
    ),
    Input(
        4, "keys and trees indented by tabs", TABBED, ["Keys", "Tree", "Pair"],
        [
            Edit(lambda one: set_field(one, header(one), "inner", "new"), b"\t- inner: w", b"\t- inner: new"),
            Edit(state("Pair"), *CLOSED),
        ],
        [Refusal(state("Tree"), r"F\.md:7: no field `State` in `Tree`, so it was not updated")],
    ),
    Input(
        5, "a metadata sample in mid-body", SAMPLE, ["T", "id: 1", "Real"],
        [Edit(state("Real"), *CLOSED)],
        [Refusal(front("id", value="2"), r"F\.md:1: no front matter, so `id` was not updated")],
    ),
    Input(
        6, "it begins like front matter and is none", RULED, ["T", "A"],
        [Edit(state("A"), *CLOSED)],
        [Refusal(front("title", value="y"), r"F\.md:1: no front matter, so `title` was not updated")],
    ),
    Input(
        6, "front matter that is never closed", OPEN_FRONT, ["T", "A"],
        [Edit(state("A"), *CLOSED)],
        [Refusal(front("title", value="y"), r"F\.md:1: no front matter, so `title` was not updated")],
    ),
    Input(
        7, "front matter that is no YAML", BROKEN_FRONT, ["T", "A"],
        [Edit(state("A"), *CLOSED)],
        [Refusal(front("title", value="y"), r"F\.md:2: front matter is not YAML")],
    ),
    Input(
        8, "scalars that lose their spelling when loaded", SCALARS, ["T"],
        [
            Edit(front("phase", value="08"), b"phase: 07", b"phase: 08"),
            Edit(front("version", value="1.20"), b"1.10", b"1.20"),
            Edit(front("time", value="09:05"), b"time: 10:30", b"time: 09:05"),
            Edit(front("at", value="2026-03-01T00:00Z"), b"2026-02-16T14:28:00+02:00", b"2026-03-01T00:00Z"),
            Edit(front("flag", value="no"), b"flag: yes", b"flag: no"),
            Edit(front("long", value="short"), b"it goes on\n  and on", b"short"),
            Edit(front("note", value="there"), b"here # why", b"there # why"),
            Edit(front("map", "a", value="2"), b"  a: 1", b"  a: 2"),
        ],
        [
            Refusal(front("map", value="x"), r"F\.md:11: `map` in the front matter is not a plain value"),
            Refusal(front("list", value="x"), r"F\.md:13: `list` in the front matter is not a plain value"),
        ],
    ),
    Input(
        9, "table rows as people leave them", BOARD, ["T", "Board", "Next"],
        [
            Edit(cell("2", "Note", "e|f"), rb"c \| d", rb"e\|f"),
            Edit(cell("3", "Note", "new"), b"| 3 ||", b"| 3 | new |"),
            Edit(cell("4", "Note", "new"), b"| 4 |  |", b"| 4 | new |"),
            Edit(cell("6", "Tests", "y"), b"| 6 | e | x |   ", b"| 6 | e | y |   "),
            Edit(state("Next"), *CLOSED),
        ],
        [
            Refusal(cell("1", "Tests", "y"), r"F\.md:7: the row has an unescaped pipe in the code span"),
            Refusal(cell("`a|b`", "Tests", "y"), r"F\.md:7: no row `.*`, .*; there are `1`, `2`"),
            Refusal(cell("5", "Tests", "y"), r"F\.md:11: the row has 2 cells where the header has 3"),
            Refusal(cell("7", "Id", "y"), r"F\.md:13: the row has 4 cells where the header has 3"),
            Refusal(cell("6", "Id", "a\nb"), rf"F\.md:12: {TWO_LINES}"),
            Refusal(cell("6", "Owner", "x"), r"F\.md:5: no column `Owner`, .*; there are `Id`, `Note`"),
        ],
    ),
    Input(
        10, "the same dated heading ten times", DATED, ["T", "Log", *["2026-02-16: Same"] * 10],
        [Edit(state("Log", "2026-02-16: Same", ordinal=7), b"**State:** n7", b"**State:** closed")],
        [
            Refusal(
                state("Log", "2026-02-16: Same"),
                r"F\.md:5: section `Log > .*: Same` is there 10 times \(line 5 and line 9 .* line 41\)",
            )
        ],
    ),
    Input(
        11, "a long comment with an example entry", COMMENT, ["T", "Log", "2026-01-01: Entry"],
        [
            Edit(state("Log", "2026-01-01: Entry"), *CLOSED),
            Edit(lambda one: add_entry(one, "## N"), b"-->\n# T\n\n", b"-->\n# T\n\n## N\n\n---\n\n"),
        ],
        [
            Refusal(
                lambda one: set_section(one, section(one, "Log", "2026-01-01: Entry"), "<!-- and so on"),
                r"F\.md:96: this edit was not made: the new text opens code, a comment",
            ),
            Refusal(lambda one: insert(one, 5, "-->"), r"F\.md:2: this edit was not made"),
        ],
    ),
    Input(
        12, "the last fence is not closed", UNCLOSED, ["T", "A"],
        [Edit(state("A"), *CLOSED)],
        [
            Refusal(state("B"), f"{FENCE_7}, so section `B` cannot be told from code"),
            Refusal(lambda one: append_section(one, "## C"), FENCE_7),
            Refusal(lambda one: set_section(one, section(one, "A"), "x"), FENCE_7),
            Refusal(lambda one: insert(one, len(one.data), "x"), FENCE_7),
        ],
    ),
    Input(
        13, "two megabytes below one heading", BIG, ["T", "Log", "End"],
        [Edit(lambda one: set_field(one, header(one), "Last", "2"), b"**Last:** 1", b"**Last:** 2")],
        [Refusal(lambda one: set_field(one, header(one), "Last", "2\n"), rf"F\.md:3: {TWO_LINES}")],
    ),
    as_written(14, "CRLF", lines(*PLAIN, end="\r\n")),
    as_written(14, "a byte order mark before front matter", BOM + lines(*FRONTED)),
    as_written(14, "line ends of both kinds", MIXED),
    as_written(14, "no final newline after a rule", lines(*PLAIN).removesuffix(b"\n")),
    Input(
        15, "numbers that look alike, a heading with all decorations", NUMBERED,
        ["T", f"{ROCKET}:", "2.1", "2.10", "21"],
        [
            Edit(state("phase 2 \u2014 2026-02-16", "2.1"), b"**State:** a", b"**State:** closed"),
            Edit(state(ROCKET, "2.10"), b"**State:** b", b"**State:** closed"),
            Edit(state(f"{ROCKET}:", "21"), b"**State:** c", b"**State:** closed"),
        ],
        [
            Refusal(state(ROCKET, "2.100"), r"F\.md:3: section `.* > 2\.100` is missing"),
            Refusal(state(ROCKET), r"F\.md:3: no field `State`"),
        ],
    ),
]  # fmt: skip
NAMES = [f"{one.number} {one.name}" for one in INPUTS]
READABLE = [one for one in INPUTS if one.titles]
READABLE_NAMES = [f"{one.number} {one.name}" for one in READABLE]


def test_there_are_fifteen_inputs():
    assert sorted({one.number for one in INPUTS}) == list(range(1, 16))


@pytest.mark.parametrize("given", READABLE, ids=READABLE_NAMES)
def test_the_headings_are_those_that_stand_there_and_two_other_parsers_agree(given):
    document = parse(given.data, "F.md")
    assert [one.title for one in document.headings] == given.titles
    first = document.lines.number_at(document.body)
    body = given.data[document.body :].decode()
    for tag in given.blanked:
        body = body.replace(tag, " " * len(tag))
    found = [(one.level, one.line - first) for one in document.headings]
    assert found == markdown_it_headings(body)
    # A lone CR ends a line for CommonMark and for us; for tree-sitter-markdown it is a character like others.
    assert found == tree_sitter_headings(body.replace("\r\n", "\n").replace("\r", "\n"))


@pytest.mark.parametrize("given", READABLE, ids=READABLE_NAMES)
def test_an_edit_changes_its_span_and_no_other_byte(given):
    document = parse(given.data, "F.md")
    for edit in given.edits:
        assert given.data.count(edit.old) == 1
        after = edit.make(document)
        assert after.data == given.data.replace(edit.old, edit.new)
        assert after == parse(after.data, "F.md")
        added = [title for title in [one.title for one in after.headings] if title not in given.titles]
        assert added == (["N"] if b"## N" in edit.new else [])
        assert document.data == given.data


@pytest.mark.parametrize("given", INPUTS, ids=NAMES)
def test_an_edit_that_would_be_a_guess_is_refused_where_it_stands(given):
    for refusal in given.refusals:
        with pytest.raises(MarkdownError, match=rf"\A{refusal.says}"):
            refusal.make(parse(given.data, "F.md"))


def test_a_label_a_key_and_a_scalar_are_read_as_they_are_spelled():
    tabbed = parse(TABBED, "F.md")
    assert [(one.key, one.value) for one in fields(tabbed, header(tabbed))] == [
        ("key", "v"), ("inner", "w"), ("outer", "z"),
    ]  # fmt: skip
    assert [item.depth for item in items(tabbed, header(tabbed))] == [0, 1, 1]
    scalars = parse(SCALARS, "F.md")
    spelled = {"phase": "07", "version": "1.10", "time": "10:30", "flag": "yes", "note": "here"}
    spelled["long"] = "it goes on and on"
    assert {key: front_value(scalars, key) for key in spelled} == spelled
    assert [str(one) for one in front_problems(scalars)] == [
        "F.md:14: front matter holds `id` again (first on line 13); keep it once"
    ]


def test_an_example_in_a_comment_is_not_the_entry_of_that_name():
    document = parse(COMMENT, "F.md")
    assert field(document, find(document, "Log", "2026-01-01: Entry"), "State").value == "open"


def test_what_stands_behind_a_link_is_read_and_an_edit_writes_nothing(tmp_path):
    # Whether a link may be followed is for the store, which alone writes; the document layer sees bytes.
    target, link = tmp_path / "inside.md", tmp_path / "STATUS.md"
    target.write_bytes(NUMBERED)
    link.symlink_to(target.name)
    after = state(ROCKET, "2.10")(parse(link.read_bytes(), "F.md"))
    assert after.data != NUMBERED
    assert link.is_symlink()
    assert target.read_bytes() == NUMBERED
