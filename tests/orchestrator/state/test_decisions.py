"""DECISIONS.md: newest first, added to and never changed."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.errors import StateError
from orchestrator.state.events import Completion, RunClosed, RunIntegrated
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
FACTS = Facts("Demo", "Ada", AT)
RUN = "20260216_142834"
HEAD = b"# Log\n\n**Project:** x\n**Started:** x\n\n"
START = decisions.initial(FACTS).encode()


def completion(worker="Codex-Worker-1", verdict="accepted", reason="checks passed", files=("src/a.py",)):
    return Completion(worker, "Port the parser", "complete", verdict, reason, files)


def integrated(*workers, run=RUN, at=AT):
    return RunIntegrated(run, "phase-2", at, "Ada", workers, "abc123", "passed: make test")


def after(text, *events):
    for event in events:
        text = decisions.changes({"DECISIONS.md": text}, event).get("DECISIONS.md", text)
    return text


def titles(text):
    return [entry.title for entry in decisions.read(text)]


def test_the_first_log_has_no_findings_and_one_entry():
    assert decisions.problems(START) == []
    assert [entry.date for entry in decisions.read(START)] == ["2026-02-16"]
    assert START.decode().startswith(
        "# Architectural Decision Log\n\n**Project:** Demo\n**Started:** 2026-02-16\n\n---\n\n## "
    )
    assert START.endswith(b"\n\n---\n\n**Decision Log End**\n")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_integration_is_the_newest_entry_and_the_rest_stays(end):
    before = START.replace(b"\n", end)
    text = after(before, integrated(completion(), completion("Claude-Worker-1", "rejected", "no report", ())))
    assert titles(text)[0] == f"Integrated run {RUN} (phase-2)"
    at = before.index(b"## ")
    assert text.startswith(before[:at])
    assert text.endswith(before[at:])
    new = text[at : len(text) - len(before[at:])].replace(end, b"\n").decode()
    for line in (
        f"## 2026-02-16: Integrated run {RUN} (phase-2)",
        "- Codex-Worker-1: accepted (complete) — checks passed",
        "- Claude-Worker-1: rejected (complete) — no report",
        "- Positive: landed src/a.py (commit abc123)",
        "- Neutral: gate passed: make test",
        "**Status:** Accepted",
    ):
        assert line in new.splitlines()
    for field in ("Context", "Decision", "Alternatives Considered", "Consequences", "Status", "Supersedes"):
        assert f"**{field}:**" in new
    assert decisions.problems(text) == []


def test_the_same_integration_adds_nothing_on_another_day_either():
    event = integrated(completion())
    once = after(START, event)
    assert decisions.changes({"DECISIONS.md": once}, event) == {}
    assert decisions.changes({"DECISIONS.md": once}, event._replace(at=AT + timedelta(days=2))) == {}


def test_settled_verdicts_are_an_entry_of_their_own():
    first = integrated(completion(), completion("B-1", "pending"))
    second = integrated(completion(), completion("B-1", "partial"), at=AT + timedelta(days=1))
    text = after(START, first, second)
    assert titles(text)[:2] == [f"Settled run {RUN} (phase-2)", f"Integrated run {RUN} (phase-2)"]
    assert text.count(b"- Codex-Worker-1: accepted") == 1
    assert decisions.changes({"DECISIONS.md": text}, second) == {}
    assert decisions.problems(text) == []


def settled_three_times():
    one, two = completion("B-1", "pending"), completion("C-1", "pending")
    yield integrated(one, two)
    yield integrated(one._replace(verdict="partial"), two)
    yield integrated(two._replace(verdict="rejected"))
    yield integrated(two._replace(verdict="partial"))


def test_a_run_that_is_settled_again_and_again_on_a_day_has_headings_that_differ():
    text = after(START, *settled_three_times())
    settled = f"Settled run {RUN} (phase-2)"
    assert titles(text)[:3] == [f"{settled} (3)", f"{settled} (2)", settled]
    assert decisions.problems(text) == []
    assert after(text, *list(settled_three_times())[-1:]) == text


def test_headings_that_we_gave_twice_are_no_finding_and_an_entry_that_somebody_copied_is_one():
    text = re.sub(rb" \(\d\)\n", b"\n", after(START, *settled_three_times()))
    assert titles(text)[0] == titles(text)[1] == titles(text)[2]
    assert decisions.problems(text) == []
    entry = text[text.index(b"## 2026-02-16: Settled") : text.index(b"## 2026-02-16: Integrated")]
    oldest = entry[entry.rindex(b"## 2026-02-16: Settled") :]
    copied = text.replace(b"---\n\n## ", b"---\n\n" + oldest + b"## ", 1)
    assert len(titles(copied)) == len(titles(text)) + 1
    (problem,) = decisions.problems(copied)
    assert "is there already" in problem.what
    by_hand = (
        b"## 2026-02-16: Keep one parser\n\nA.\n\n---\n\n## 2026-02-16: Keep one parser\n\nB.\n\n---\n\n"
    )
    (problem,) = decisions.problems(text.replace(b"---\n\n## ", b"---\n\n" + by_hand + b"## ", 1))
    assert "Keep one parser" in problem.what


def test_harm_that_was_accepted_is_among_the_consequences():
    harm = "Codex-Worker-1 accepted in spite of what changed while the gate ran: .git/config"
    text = after(START, integrated(completion())._replace(harm=harm))
    assert f"- Negative: {harm}\n- Neutral: gate passed: make test\n".encode() in text
    assert b"none known" not in text
    assert decisions.problems(text) == []


def test_a_run_whose_id_begins_like_another_is_another_run():
    text = after(START, integrated(completion(), run=f"{RUN}_2"), integrated(completion()))
    assert titles(text)[:2] == [f"Integrated run {RUN} (phase-2)", f"Integrated run {RUN}_2 (phase-2)"]


def test_other_events_and_missing_files():
    assert decisions.changes({"DECISIONS.md": START}, RunClosed(RUN, AT, "Ada", "cancelled")) == {}
    with pytest.raises(StateError, match="the file is missing"):
        decisions.changes({}, integrated(completion()))
    with pytest.raises(StateError, match="not UTF-8"):
        decisions.changes({"DECISIONS.md": b"\xff"}, integrated(completion()))


def test_hostile_words_stay_on_their_line():
    worker = completion(reason="x\n## 2030-01-01: Fake\n<!--", files=("a\n## b",))._replace(title="```\n# t")
    text = after(START, integrated(worker))
    assert len(titles(text)) == 2
    assert decisions.problems(text) == []
    assert decisions.changes({"DECISIONS.md": text}, integrated(worker)) == {}


def test_a_long_list_of_files_is_cut_and_says_so():
    text = after(START, integrated(completion(files=tuple(f"src/{n}.py" for n in range(45)))))
    assert b"src/29.py and 15 more (commit abc123)" in text


def test_examples_in_a_comment_are_no_entries():
    note = b"<!--\n## 2026-03-01: Example\n\n**Context:** x\n-->\n"
    before = START.replace(b"---\n\n## ", b"---\n\n" + note + b"\n## ", 1)
    text = after(before, integrated(completion()))
    assert text.index(note) < text.index(b"## 2026-02-16: Integrated")
    assert len(titles(text)) == 2


def test_entries_at_another_level_get_company_at_that_level():
    before = HEAD + b"## Decisions\n\n### 2026-01-01 - First\n\ntext\n\n## Other\n"
    text = after(before, integrated(completion()))
    assert decisions.read(text)[0].line == 8
    assert b"\n### 2026-02-16: Integrated run" in text
    assert decisions.changes({"DECISIONS.md": text}, integrated(completion())) == {}


def test_what_is_out_of_order_or_no_date_is_a_warning_with_its_line():
    text = HEAD + b"## 2026-01-01: a\n\n## 2026-02-01: b\n\n## 2026-02-30: c\n\n## 2026-01-01: a\n"
    found = {problem.place: problem for problem in decisions.problems(text)}
    assert set(found) == {"DECISIONS.md:8", "DECISIONS.md:10", "DECISIONS.md:12"}
    assert {problem.severity for problem in found.values()} == {"warning"}


@pytest.mark.parametrize(
    "before", [b"", b"# Mine\n\nwords\n", b"words", b"# M\r\n\r\n## 2026-01-01: x\r\n\r\nwhy\r\n"]
)
def test_a_completed_log_keeps_every_line(before):
    text = decisions.complete(before, FACTS)
    assert decisions.complete(text, FACTS) == text
    rest = iter(text.splitlines())
    assert all(line in rest for line in before.splitlines())
    assert decisions.problems(text) == []
    assert len(titles(text)) == 1
