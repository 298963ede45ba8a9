"""docs/progress/FEATURE-AGENT.md: begun and moved on by events, whatever stands in the place of one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.errors import StateError
from orchestrator.state.checkpoints import checkpoint
from orchestrator.state.checkpoints.form import front_matter, own_form
from orchestrator.state.checkpoints.glance import glance
from orchestrator.state.checkpoints.names import LONGEST, slug
from orchestrator.state.checkpoints.read import read
from orchestrator.state.events import CheckpointWritten
from tickets.markdown import front_value, one_line, parse, plain
from tickets.problems import Problem

AT = datetime(2026, 2, 16, 14, 28, 34, tzinfo=UTC)
PATH = "docs/progress/parser-codex-2.md"
CUT_OFF = "Cut off: timed out after 30 minutes; last: edited src/parser/tree.py; 2 files are kept"
BEGUN = b"""\
---
feature: "parser"
team: "phase-2"
agent: "codex-2"
phase: "implementation"
status: "in_progress"
last_action: "Claimed by Codex-Worker-2 (run 20260216_142834)"
updated: "2026-02-16T14:28:34Z"
---

## Progress Notes

- [14:28] Claimed by Codex-Worker-2 (run 20260216_142834)
"""
CLAIM = CheckpointWritten(
    "parser", "codex-2", "in_progress", "Claimed by Codex-Worker-2 (run 20260216_142834)", AT, team="phase-2",
    stage="implementation", is_run=True,
)  # fmt: skip


def after(tree, *events):
    """Return the files after some events."""
    for event in events:
        needed = checkpoint.needs(tree, event)
        changed = checkpoint.changes({path: tree.get(path) for path in needed}, event)
        assert set(changed) <= set(needed)
        tree = {**tree, **changed}
    return tree


def later(seconds=960, action="Lexer reads 14 of 20 fixtures; next: string escapes", **more):
    """Return the next event of the same pair."""
    fields = {"status": "in_progress", "team": "", "stage": None, **more}
    return CLAIM._replace(at=AT + timedelta(seconds=seconds), action=action, **fields)


def shown(tree, path=PATH):
    """Return a checkpoint as it reads."""
    return read(path, tree[path])


# Names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Parser / Lexer (v2)", "parser-lexer-v2"),
        ("sweep[module=api]", "sweep-module-api"),
        ("Парсер", "парсер"),
        ("  ", "unnamed"),
        ("../../etc/passwd", "etc-passwd"),
        ("Cafe\u0301", "café"),
        ("İ", "i\u0307"),
        ("½ ² x", "½-²-x"),
    ],
)
def test_a_slug_holds_letters_marks_and_numbers(text, name):
    assert slug(text) == name


def test_a_long_slug_is_cut_at_a_character_and_ends_in_a_digest_of_the_whole():
    assert slug("a" * 60) == "a" * 60
    long = slug("a" * 61)
    assert long.startswith("a" * 51 + "-")
    assert len(long) == 60
    assert slug("a" * 62) != long
    assert slug("ж" * 50).startswith("ж" * 25 + "-")
    assert "--" not in slug("a" * 50 + " " + "b" * 50)


@given(st.text(max_size=200))
@example("\u0130" * 40)
def test_every_text_has_a_slug_that_is_its_own(text):
    found = slug(text)
    assert found == slug(found)
    assert 0 < len(found.encode()) <= LONGEST
    assert not set(found) & set("/\\. \n\0")


# Begun and moved on


def test_a_first_stage_begins_the_file_literally():
    assert after({}, CLAIM) == {PATH: BEGUN}
    assert checkpoint.problems(BEGUN) == []


def test_a_later_stage_changes_what_it_names_and_appends_a_note():
    tree = after({}, CLAIM, later(), later(1806, CUT_OFF, status="blocked", stage="testing"))
    assert tree[PATH].decode().splitlines() == [
        "---",
        'feature: "parser"',
        'team: "phase-2"',
        'agent: "codex-2"',
        'phase: "testing"',
        'status: "blocked"',
        f'last_action: "{CUT_OFF}"',
        'updated: "2026-02-16T14:58:40Z"',
        "---",
        "",
        "## Progress Notes",
        "",
        "- [14:28] Claimed by Codex-Worker-2 (run 20260216_142834)",
        "- [14:44] Lexer reads 14 of 20 fixtures; next: string escapes",
        f"- [14:58] {CUT_OFF}",
    ]


def test_what_is_recorded_again_changes_nothing():
    tree = after({}, CLAIM, later())
    assert after(tree, later()) == tree
    # A run that was killed before it noted that it had recorded this does so again, later.
    assert after(tree, later(1000)) == tree
    assert after(tree, later(1000, is_run=False)) != tree
    assert after(tree, later(1000, status="blocked")) != tree


def test_a_note_of_another_day_has_its_date_and_times_are_utc():
    east = timezone(timedelta(hours=10))
    next_day = datetime(2026, 2, 17, 19, 10, tzinfo=east)
    tree = after(
        {},
        CLAIM,
        later()._replace(at=next_day),
        later(action="more")._replace(at=next_day + timedelta(minutes=1)),
    )
    assert [note.at for note in shown(tree).notes] == ["14:28", "2026-02-17 09:10", "09:11"]
    assert shown(tree).updated == "2026-02-17T09:11:00Z"


def test_updated_never_goes_back_and_notes_keep_their_order():
    tree = after({}, CLAIM, later(-3600, "An hour back"))
    assert shown(tree).updated == "2026-02-16T14:28:34Z"
    assert [note.text for note in shown(tree).notes][-1] == "An hour back"
    assert shown(tree).last_action == "An hour back"


def test_more_than_a_hundred_notes_lose_the_oldest_and_say_so():
    tree = after({}, CLAIM, *(later(n, f"step {n}") for n in range(1, 100)))
    assert len(shown(tree).notes) == 100
    tree = after(tree, later(100, "step 100"))
    lines = tree[PATH].decode().splitlines()
    assert lines[12:14] == ["- (1 earlier notes are in git)", "- [14:28] step 1"]
    tree = after(tree, later(101, "step 101", notes=("more", "and more")))
    assert tree[PATH].decode().splitlines()[12:14] == ["- (4 earlier notes are in git)", "- [14:28] step 4"]
    assert len(shown(tree).notes) == 101
    assert shown(tree).notes[-1].text == "and more"


def test_long_texts_are_cut():
    (path, text), *_ = after({}, later(0, "x" * 2_000_000)).items()
    found = read(path, text)
    assert (len(found.last_action), len(found.notes[0].text)) == (200, 300)
    assert found.last_action.endswith("x…")


@given(st.text())
@example('"')
@example("\\")
@example("a\u2028b\ufffe\ufeff\x85\x00\ud800")
@example("---\nstatus: complete")
@example("## Progress Notes")
@example("[14:28] one")
@example("```")
def test_no_text_becomes_a_key_a_heading_or_a_second_line(text):
    tree = after({}, CLAIM, later(0, text), later(1, "end", notes=(text,)))
    found = shown(tree)
    assert own_form(tree[PATH])
    assert (found.status, found.last_action, found.phase) == ("in_progress", "end", "implementation")
    assert [note.text for note in found.notes][2] == "end"
    assert len(found.notes) == 4
    said = plain(one_line(text))
    before = shown(after({}, CLAIM, later(0, text)))
    assert before.last_action == (said if len(said) <= 200 else said[:199] + "…")
    assert checkpoint.problems(tree[PATH]) == []


@given(st.text())
def test_our_own_form_is_what_yaml_reads(text):
    said = plain(one_line(text))
    values = dict.fromkeys(("feature", "team", "agent", "phase", "status", "last_action", "updated"), said)
    made = front_matter(values).encode()
    assert own_form(made)
    assert front_value(parse(made, "x"), "team") == said


# What others have written


def test_values_are_changed_in_place_and_all_else_stays():
    text = (
        b"---\r\n# mine\r\nstatus: in-progress # as of now\r\nfeature: Parser\r\n"
        b"agent: 'codex-2'\r\nowner: Ada\r\nlast_action: >-\r\n"
        b"  wrapped\r\n  text\r\n---\r\nText of mine.\r\n\r\n"
        b"## Progress Notes\r\n\r\n* one\r\n\r\n## Mine\r\n"
    )
    with pytest.raises(StateError, match="`last_action` in the front matter is not a plain value"):
        after({PATH: text}, later(is_run=False))
    assert after({PATH: text}, later())[PATH] == text  # a run takes the next name
    text = text.replace(b">-\r\n  wrapped\r\n  text", b"text")
    made = after({PATH: text}, later())[PATH]
    assert made == (
        b"---\r\n# mine\r\nstatus: in_progress # as of now\r\nfeature: Parser\r\n"
        b'team: ""\r\nagent: \'codex-2\'\r\nphase: "implementation"\r\nowner: Ada\r\n'
        b'last_action: "Lexer reads 14 of 20 fixtures; next: string escapes"\r\n'
        b'updated: "2026-02-16T14:44:34Z"\r\n---\r\nText of mine.\r\n\r\n## Progress Notes\r\n\r\n* one\r\n'
        b"* [14:44] Lexer reads 14 of 20 fixtures; next: string escapes\r\n\r\n## Mine\r\n"
    )


@pytest.mark.parametrize(
    ("word", "status", "is_ours"),
    [
        ("in_progress", "in_progress", True), ("in-progress", "in_progress", False),
        ("completed", "complete", False), ("Done", "complete", False), ("paused", "blocked", False),
    ],
)  # fmt: skip
def test_other_words_of_a_status_are_understood_and_warned_of(word, status, is_ours):
    text = BEGUN.replace(b'"in_progress"', f'"{word}"'.encode())
    assert read(PATH, text).status == status
    warned = [one for one in checkpoint.problems(text) if one.severity == "warning"]
    assert (warned == []) is is_ours
    made = after({PATH: text}, later())[PATH]
    assert b'status: "in_progress"' in made


def test_an_agent_whose_name_is_taken_by_another_pair_or_file_gets_the_next():
    one = CLAIM._replace(feature="a", agent="b-c")
    two = CLAIM._replace(feature="a-b", agent="c")
    tree = after({"docs/progress/a-b-c_2.md": b"# Notes of mine\n"}, one, two, two._replace(action="again"))
    assert set(tree) == {f"docs/progress/a-b-c{end}.md" for end in ("", "_2", "_3")}
    assert tree["docs/progress/a-b-c_2.md"] == b"# Notes of mine\n"
    assert len(shown(tree, "docs/progress/a-b-c_3.md").notes) == 2
    assert shown(tree, "docs/progress/a-b-c.md").feature == "a"


BROKEN = {
    "yaml": BEGUN.replace(b'"parser"', b'"parser'),
    "twice": BEGUN.replace(b"team:", b'status: "complete"\nteam:'),
    "conflict": BEGUN + b"<<<<<<< a\n- [x] one\n=======\n>>>>>>> b\n",
    "nul": BEGUN + b"\0",
    "fence": BEGUN.replace(b"## Progress", b"```\n## Progress"),
    "empty": b"",
    "not utf-8": BEGUN + b"\xff",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_damaged_checkpoint_refuses_the_lead_and_a_run_takes_the_next_name(kind):
    tree = {PATH: BROKEN[kind]}
    with pytest.raises(StateError) as refused:
        after(tree, later(is_run=False))
    assert all(one.place.startswith(PATH) and one.do for one in refused.value.problems)
    made = after(tree, later())
    assert made[PATH] == BROKEN[kind]
    assert shown(made, "docs/progress/parser-codex-2_2.md").last_action.startswith("Lexer reads")
    assert after(made, later(1000, "more"))[PATH] == BROKEN[kind]


def test_other_files_of_the_folder_have_no_problems():
    for text in (b"# Plan\n", b"---\ntitle: x\n---\n", b"---\nfeature: x\nagent: y\n---\n"):
        assert checkpoint.problems(text) == []


def test_missing_keys_and_a_doubled_section_are_told():
    text = BEGUN.replace(b'team: "phase-2"\n', b"").replace(b"implementation", b"coding")
    told = checkpoint.problems(text + b"\n## Progress Notes\n\n- x\n")
    said = [one.what for one in told]
    assert any("Progress Notes` is there 2 times" in one for one in said)
    assert any("front matter has no `team`" in one for one in said)
    assert any("`phase: coding` is none of research" in one for one in said)


@pytest.mark.parametrize("bad", [b"\xff", rb"\Uffffffff", rb"\U0000d800", rb"\x"])
def test_our_own_form_with_other_bytes_is_read_like_any_file(bad):
    text = BEGUN.replace(b"Claimed", bad)
    try:
        wanted = read(PATH, text)
    except StateError:
        with pytest.raises(StateError):
            glance(PATH, text)
    else:
        found = glance(PATH, text)
        assert found == (wanted and wanted._replace(notes=()))


def test_a_run_that_finds_no_place_writes_nothing():
    class Away(dict):
        def get(self, path, _default=None):
            raise StateError(Problem(path, "is a link", "make it a file"))

    assert checkpoint.needs(Away(), CLAIM) == ()
    assert checkpoint.changes(Away(), CLAIM) == {}
    with pytest.raises(StateError):
        checkpoint.needs(Away(), CLAIM._replace(is_run=False))
