"""DECISIONS.md: newest first, added to and never changed."""

from datetime import UTC, datetime, timedelta

import pytest
from support.status import LITERAL

from orchestrator.errors import StateError
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.decisions.read import phases_run
from orchestrator.state.canonical.status import status
from orchestrator.state.events import Completion, RunClosed, RunIntegrated
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
FACTS = Facts("Demo", "Ada", AT)
RUN = "20260216_142834"
HEAD = b"# Log\n\n**Project:** x\n**Started:** x\n\n"
START = decisions.initial(FACTS).encode()


def completion(worker="Codex-Worker-1", verdict="partial", said="the writer is needed now", **more):
    """Return a worker that the lead decided about."""
    facts = {"finding": "changed outside its scope: notes.txt", "left_out": ("notes.txt",)}
    one = Completion(
        worker, "Port the parser", "complete", verdict, said, ("src/a.py",), "lead", said, **facts
    )
    return one._replace(**more)


def rejected(worker="Codex-Worker-2", **more):
    facts = {"verdict": "rejected", "files": (), "left_out": ("src/b.py",), "finding": ""}
    return completion(worker, **{**facts, **more})


def broken(worker="Codex-Worker-3", **more):
    reason = f"the gate fails with {worker}"
    return rejected(worker, **{"decider": "gate", "said": "", "reason": reason, **more})


def ruled(worker="Codex-Worker-9", verdict="accepted", files=("src/z.py",)):
    return Completion(worker, "Port the rest", "complete", verdict, "", files)


def integrated(*workers, run=RUN, at=AT):
    return RunIntegrated(run, "phase-2", at, "Ada", workers, "072157cb0f072157cb0f")


def settled(*workers, **more):
    return integrated(*workers, **more)._replace(is_settled=True)


def after(text, *events):
    """Return the log after some events; STATUS.md goes along, as in the store."""
    tree = {"DECISIONS.md": text, "STATUS.md": LITERAL.encode()}
    for event in events:
        new = [module.changes(tree, event) for module in (status, decisions)]
        tree |= {**new[0], **new[1]}
    return tree["DECISIONS.md"]


def titles(text):
    return [entry.title for entry in decisions.read(text)]


def newest(text):
    return text.replace(b"\r\n", b"\n").decode().split("\n---\n\n")[1]


def test_the_first_log_has_no_findings_and_one_entry():
    assert decisions.problems(START) == []
    assert [entry.date for entry in decisions.read(START)] == ["2026-02-16"]
    assert START.decode().startswith(
        "# Architectural Decision Log\n\n**Project:** Demo\n**Started:** 2026-02-16\n\n---\n\n## "
    )
    assert START.endswith(b"\n\n---\n\n**Decision Log End**\n")


ENTRY = f"""## 2026-02-16: Integrated run {RUN} (phase-2)

**Context:** Codex-Worker-1 (Port the parser): changed outside its scope: notes.txt

**Decision:** Ada accepted Codex-Worker-1 in part: the writer is needed now.

**Alternatives Considered:**
1. Reject Codex-Worker-1 - Rejected because the writer is needed now

**Consequences:**
- Positive: landed src/a.py (commit 072157cb0f)
- Negative: not landed: notes.txt

**Status:** Accepted
**Supersedes:** none
"""


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_what_the_lead_decided_is_the_newest_entry_word_for_word_and_the_rest_stays(end):
    before = START.replace(b"\n", end)
    text = after(before, integrated(completion(), ruled()))
    assert newest(text) == ENTRY
    at = before.index(b"## ")
    assert text.startswith(before[:at])
    assert text.endswith(before[at:])
    assert decisions.problems(text) == []


def test_what_rules_accept_or_reject_has_no_entry_and_needs_no_log():
    rules = (ruled(), ruled("B-1", "rejected", ()), ruled("C-1", "pending", ()), ruled("D-1", None, ()))
    event = integrated(*rules, completion("E-1", "accepted", finding="", left_out=()))
    assert after(START, event) == START
    for log in (None, b"\xff"):
        assert decisions.changes({"DECISIONS.md": log}, event) == {}


def test_a_rejection_and_who_was_left_out_are_told_with_the_alternatives_that_there_were():
    text = newest(after(START, integrated(completion(), rejected(), broken(), ruled())))
    lines = text.splitlines()
    lead = "Ada accepted Codex-Worker-1 in part and rejected Codex-Worker-2: the writer is needed now."
    gate = "Left out Codex-Worker-3: the gate fails with that work."
    assert f"**Decision:** {lead} {gate}" in lines
    assert lines[lines.index("**Alternatives Considered:**") + 1 :][:3] == [
        "1. Reject Codex-Worker-1; Accept Codex-Worker-2 - Rejected because the writer is needed now",
        "2. Land nothing - Rejected because the others pass without it",
        "",
    ]
    assert "- Negative: not landed: notes.txt, src/b.py" in lines
    assert "Codex-Worker-9" not in text


@pytest.mark.parametrize(
    ("worker", "alternative"),
    [
        (broken(), "Accept Codex-Worker-3 - Rejected because the gate fails with that work"),
        (
            broken(verdict="pending", decider="conflict", reason="conflict: a has changed on main since"),
            "Land Codex-Worker-3 all the same - Rejected because what the branch has would be lost",
        ),
        (rejected(said=""), "Accept Codex-Worker-2 - Rejected because the lead decided otherwise"),
    ],
)
def test_where_nothing_landed_that_was_no_alternative(worker, alternative):
    text = after(START, integrated(worker))
    assert f"\n1. {alternative}\n\n" in newest(text)
    assert decisions.problems(text) == []
    # A further path that it collides with is no further decision.
    assert after(text, integrated(worker)) == text


def test_an_entry_of_a_large_run_has_eight_lines_beside_its_headings():
    workers = [
        make(f"{name}-Worker-{number}", left_out=tuple(f"out/{name}/{number}/{n}" for n in range(9)))
        for name, make in (("A", completion), ("B", rejected), ("C", broken))
        for number in range(1, 16)
    ]
    text = newest(after(START, integrated(*workers, ruled())))
    labels = ("## ", "**Alternatives Considered:**", "**Consequences:**")
    assert len([line for line in text.splitlines() if line and not line.startswith(labels)]) == 8
    assert "A-Worker-1, A-Worker-2, A-Worker-3 and 12 more in part and rejected B-Worker-1" in text
    assert "not landed: out/A/1/0, out/A/1/1, out/A/1/2 and 402 more" in text


def test_the_same_integration_adds_nothing_on_another_day_either():
    once, twice = integrated(completion()), integrated(completion(), at=AT + timedelta(days=2))
    text = after(START, once)
    assert after(START, once, once, twice) == text
    # Nor where the list of STATUS.md is too short to show it.
    assert decisions.changes({"DECISIONS.md": text, "STATUS.md": LITERAL.encode()}, twice) == {}


def test_what_an_old_version_recorded_is_not_recorded_again():
    tree = {"DECISIONS.md": START, "STATUS.md": LITERAL.encode()}
    tree |= status.changes(tree, integrated(completion()))
    old = {**tree, "STATUS.md": tree["STATUS.md"].replace(b", phase-2)", b")")}
    assert decisions.changes(old, integrated(completion())) == {}


def test_settled_verdicts_are_an_entry_of_their_own():
    first = integrated(completion(), ruled("B-1", "pending", ()))
    second = settled(completion("B-1"), completion(), at=AT + timedelta(days=1))
    text = after(START, first, second)
    assert titles(text)[:2] == [f"Settled run {RUN} (phase-2)", f"Integrated run {RUN} (phase-2)"]
    assert "Codex-Worker-1" not in newest(text)
    assert after(START, first, second, second) == text
    assert decisions.problems(text) == []


def test_a_decision_that_is_taken_back_is_one_as_well():
    text = after(START, integrated(rejected()),
                 integrated(rejected(verdict="accepted", files=("b",), was_rejected=True)))  # fmt: skip
    assert "Codex-Worker-2 (Port the parser): rejected before\n" in newest(text)


def settled_three_times():
    one, two = ruled("B-1", "pending", ()), ruled("C-1", "pending", ())
    yield integrated(rejected("A-1"), one, two)
    yield settled(completion("B-1"))
    yield settled(rejected("C-1"))
    yield settled(completion("C-1"))


def test_a_run_that_is_settled_again_and_again_on_a_day_has_headings_that_differ():
    text = after(START, *settled_three_times())
    title = f"Settled run {RUN} (phase-2)"
    assert titles(text)[:3] == [f"{title} (3)", f"{title} (2)", title]
    assert decisions.problems(text) == []
    assert after(START, *settled_three_times(), *list(settled_three_times())[-1:]) == text


OLD = f"""## 2026-02-16: Settled run {RUN} (phase-2)

**Context:** Verdicts of run {RUN} changed since it was integrated: B-1 (Port it).

**Decision:** 1 partial, recorded by Ada.
- B-1: partial (complete) \u2014 NOTE

**Consequences:**
- Positive: landed src/a.py (commit abc123)
- Neutral: gate passed: make test

**Status:** Accepted
**Supersedes:** none

---

"""


def test_headings_that_we_gave_twice_are_no_finding_and_an_entry_that_somebody_copied_is_one():
    entries = "".join(OLD.replace("NOTE", word) for word in ("one", "two", "three")).encode()
    text = START.replace(b"---\n\n## ", b"---\n\n" + entries + b"## ", 1)
    assert titles(text)[0] == titles(text)[1] == titles(text)[2]
    assert decisions.problems(text) == []
    copied = text.replace(b"---\n\n## ", b"---\n\n" + OLD.replace("NOTE", "one").encode() + b"## ", 1)
    assert len(titles(copied)) == len(titles(text)) + 1
    (problem,) = decisions.problems(copied)
    assert "is there already" in problem.what
    by_hand = (
        b"## 2026-02-16: Keep one parser\n\nA.\n\n---\n\n## 2026-02-16: Keep one parser\n\nB.\n\n---\n\n"
    )
    (problem,) = decisions.problems(text.replace(b"---\n\n## ", b"---\n\n" + by_hand + b"## ", 1))
    assert "Keep one parser" in problem.what


def test_an_old_log_tells_which_phases_were_run():
    log = OLD.replace("Settled", "Integrated").encode()
    assert phases_run(log + log.replace(b"phase-2", b"core")) == {"phase-2", "core"}
    assert phases_run(OLD.encode()) == phases_run(None) == frozenset()


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
    hostile = "x\n## 2030-01-01: Fake\n<!--"
    worker = completion(said=hostile, finding=hostile, files=("a\n## b",))._replace(title="```\n# t")
    text = after(START, integrated(worker))
    assert len(titles(text)) == 2
    assert decisions.problems(text) == []
    assert decisions.changes({"DECISIONS.md": text}, integrated(worker)) == {}


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
