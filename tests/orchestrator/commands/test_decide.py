"""Decisions are added on top, whole, once; what was there is watched over."""

import os
import pty
import subprocess
from datetime import UTC, datetime

import pytest
from support.repository import SCRIPT

from orchestrator.errors import StateError
from orchestrator.report.decision_history import all_edits, fresh_edits
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.decisions.append_only import acknowledged, edits, log_of
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.events import Decided, Decision, EditsAcknowledged
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 17, 9, 0, tzinfo=UTC)
START = decisions.initial(Facts("Demo", "Ada", datetime(2026, 2, 16, tzinfo=UTC))).encode()
MADE = Decision(
    "Use *one* parser", "Two parsers disagree.\n## x", "Keep `lex`.", ("Both - Rejected because slow",),
    ("positive: less code", "a new release"), ("2026-02-16: Lead this project with orchestrate",),
)  # fmt: skip


def after(text, *made, at=AT):
    for one in made:
        text = decisions.changes({"DECISIONS.md": text}, Decided((one,), at, "Ada")).get("DECISIONS.md", text)
    return text


def titles(text):
    return [title for title, _ in spans(text)]


def test_a_decision_stands_on_top_in_the_form_of_the_log():
    new = after(START, MADE).decode()
    assert new[: new.index("## ")] + new[new.index("## 2026-02-16") :] == START.decode()
    entry = new[new.index("## ") : new.index("## 2026-02-16")]
    assert (
        entry
        == """## 2026-02-17: Use *one* parser

**Context:** Two parsers disagree. ## x

**Decision:** Keep `lex`.

**Alternatives Considered:**
1. Both - Rejected because slow

**Consequences:**
- Positive: less code
- Neutral: a new release

**Status:** Accepted
**Supersedes:** 2026-02-16: Lead this project with orchestrate

---

"""
    )
    assert decisions.problems(new.encode()) == []


def test_the_same_decision_is_written_once_and_another_of_its_name_beside_it():
    once = after(START, MADE)
    assert after(once, MADE) == once
    twice = after(once, MADE._replace(decision="Keep none."))
    assert titles(twice)[:2] == ["2026-02-17: Use one parser (2)", "2026-02-17: Use one parser"]
    assert decisions.problems(twice) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"", "empty"), (START + b"\xff", "UTF-8"), (START + b"\0", "NUL"), (START + b"```\n", "never closed")],
)
def test_a_log_that_cannot_be_edited_is_refused(text, words):
    with pytest.raises(StateError, match=words):
        after(text, MADE)


def test_an_edited_and_a_removed_entry_are_told_apart_and_line_ends_and_blanks_are_no_edit():
    old = after(START, MADE, MADE._replace(title="Second"))
    assert edits(log_of([old]), log_of([old.replace(b"\n", b"\r\n") + b"\r\n\r\n"])) == []
    new = old.replace(b"Keep `lex`.", b"Keep all.", 1)
    (edit,) = edits(log_of([old]), log_of([new]))
    assert (edit.title, edit.how) == ("2026-02-17: Second", "was edited")
    gone = {(one.title, one.how) for one in edits(log_of([old]), log_of([START]))}
    assert gone == {(f"2026-02-17: {title}", "was removed") for title in ("Use one parser", "Second")}
    assert edits(log_of([old]), log_of([START, old[: old.index(b"## 2026-02-16")]])) == []


def test_an_acknowledged_edit_is_read_back():
    found = (("2026-02-17: Use `one` [parser] (x)", "0123456789ab"), ("2026-01-01: B", "removed"))
    text = decisions.changes({"DECISIONS.md": START}, EditsAcknowledged(found, AT, "Ada"))["DECISIONS.md"]
    assert acknowledged([text]) == set(found)


def decide(lab, title, *more):
    return lab.call("decide", title, "--context", "why", "--decision", "what", *more, "--json")


def test_decide_commits_one_entry_and_names_what_it_supersedes(lab):
    called = decide(
        lab, "Use one parser", "--supersedes", "lead this", "--alternative", "a", "--alternative", "b"
    )
    assert called.code == 0
    assert called.document["changed"] == ["DECISIONS.md"]
    (made,) = called.document["decisions"]
    assert made["supersedes"] == ["2026-02-16: Lead this project with orchestrate"]
    text = (lab.root / "DECISIONS.md").read_text()
    assert "1. a\n2. b\n" in text
    assert "**Supersedes:** 2026-02-16: Lead this project" in text
    assert lab.git("show", "--name-only", "--format=%s").split("\n")[0] == "Decided: Use one parser"
    assert lab.git("status", "--porcelain") == ""


def test_both_context_and_decision_are_needed(lab):
    before = lab.everything()
    called = lab.call("decide", "Use one parser", "--json")
    assert called.code == 2
    assert [one["what"] for one in called.document["problems"]] == [
        "the context is missing", "the decision is missing",
    ]  # fmt: skip
    assert lab.call("decide", "--json").code == 2
    assert decide(lab, "x", "--supersedes", "no such entry").code == 2
    assert lab.everything() == before


def test_an_old_entry_that_was_touched_is_a_warning_until_it_is_acknowledged_or_restored(lab):
    path = lab.root / "DECISIONS.md"
    decide(lab, "First")
    good = path.read_text()
    path.write_text(good.replace("**Decision:** what", "**Decision:** something else"))
    called = decide(lab, "Second")
    assert called.code == 0
    warning, remark = called.document["problems"]
    assert (warning["severity"], remark["severity"]) == ("warning", "info")
    assert "First` was edited since the last commit" in warning["what"]
    assert fresh_edits(lab.root) == []
    (found,) = all_edits(lab.root)
    assert found.commit == lab.git("rev-parse", "HEAD").strip()
    with_second = path.read_text()
    path.write_text(with_second.replace("something else", "what"))
    assert all_edits(lab.root) == []
    lab.git("commit", "--all", "--quiet", "--message=restored")
    assert all_edits(lab.root) == []
    path.write_text(with_second)
    assert len(lab.call("decide", "--acknowledge-edit", "--json").document["acknowledged"]) == 1
    assert all_edits(lab.root) == []
    again = lab.call("decide", "--acknowledge-edit", "--json").document
    assert (again["acknowledged"], again["commit"]) == ([], None)


def test_entries_that_move_to_an_archive_are_not_lost(lab):
    decide(lab, "First")
    path = lab.root / "DECISIONS.md"
    text = path.read_text()
    cut = text.index("## 2026-02-16")
    lab.commit({"docs/decisions/2026.md": "# Decisions of 2026\n\n" + text[cut:], "DECISIONS.md": text[:cut]})
    assert all_edits(lab.root) == []
    lab.commit({"docs/decisions/2026.md": "# Decisions of 2026\n"})
    (found,) = all_edits(lab.root)
    assert (found.edit.how, found.commit) == ("was removed", lab.git("rev-parse", "HEAD").strip())


def at_terminal(lab, script, *arguments):
    """Call `decide` with a terminal as its input, and a script for an editor."""
    parent, child = pty.openpty()
    try:
        env = lab.env(EDITOR=f"sh {script} -x", TMPDIR=str(script.parent))
        return subprocess.run([SCRIPT, "decide", *arguments], cwd=lab.root, env=env, stdin=child,
                              check=False, capture_output=True, text=True)  # fmt: skip
    finally:
        os.close(parent)
        os.close(child)


FILLED = (
    "sed -i -e 's/^Title:.*/Title: By form/' -e 's/^Context:.*/Context: asked\\nand more/' "
    "-e 's/^Decision:.*/Decision: done/' -e 's/^Consequence: P.*/Consequence: Positive: quick/' \"$2\"\n"
)


def test_an_editor_with_a_form_opens_on_a_terminal(lab, tmp_path):
    script = tmp_path / "editor.sh"
    script.write_text(FILLED)
    done = at_terminal(lab, script, "--supersedes", "lead this")
    assert (done.returncode, done.stderr) == (0, "")
    text = (lab.root / "DECISIONS.md").read_text()
    assert ": By form\n\n**Context:** asked and more\n\n**Decision:** done\n" in text
    assert "**Alternatives Considered:** none stated\n\n**Consequences:**\n- Positive: quick\n\n" in text
    assert "**Supersedes:** 2026-02-16: Lead this project" in text
    assert not list(tmp_path.glob("orchestrate-decide-*"))


@pytest.mark.parametrize(
    "case",
    [
        (":", 2, "the title is missing", False),
        ("exit 3", 1, "ended with exit code 3; nothing was recorded", False),
        ('rm "$2"', 2, "the title is missing", False),
        ("sed -i 's/^Title:.*/Title: Half/' \"$2\"", 2, "the context is missing", True),
        (FILLED + "echo 'Supersedes: no such' >> \"$2\"", 2, "no entry reads `no such`", True),
    ],
)
def test_a_form_that_is_refused_records_nothing_and_keeps_what_was_written(lab, tmp_path, case):
    script, code, words, kept = case
    path = tmp_path / "editor.sh"
    path.write_text(script)
    before = lab.everything()
    done = at_terminal(lab, path)
    assert done.returncode == code, done
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert lab.everything() == before
    left = list(tmp_path.glob("orchestrate-decide-*/decision.md"))
    assert len(left) == kept
    assert not kept or f"{left[0]}: holds what you wrote" in done.stderr


def test_without_a_terminal_nothing_given_is_refused_with_what_to_give(lab):
    called = lab.call("decide")
    assert called.code == 2
    for option in ("give TITLE", "`--context TEXT`", "`--decision TEXT`"):
        assert option in called.err
