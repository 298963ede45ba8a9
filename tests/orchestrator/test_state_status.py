"""STATUS.md: read tolerantly, changed where an event says so, completed without a lost byte."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.events import Completion, RosterEntry, RunClosed, RunDeployed, RunIntegrated
from orchestrator.state.canonical import status
from orchestrator.state.errors import StateError
from orchestrator.state.facts import Facts
from orchestrator.state.figures import percent
from tickets.markdown import parse

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
LATER = AT + timedelta(days=1)
FACTS = Facts("Demo", "Ada", AT)
RUN = "20260216_142834"
LITERAL = """# Project Status

**Last Updated:** 2026-02-16 09:00
**Lead Agent:** Ada
**Phase:** Phase 2 - Core
**Milestone:** Reach 90% coverage (0% complete)

---

## Current Deliverable

Formatter
**Status:** IN PROGRESS
**Owner:** Codex-Worker-2

---

## Phase Plan

### Phase 1: Foundation

**Status:** COMPLETE (archived: docs/history/phase-1.md)

### Phase 2: Core

**Status:** IN PROGRESS
**Milestone:** Reach 90% coverage

**Deliverables:**
- [x] Parser (COMPLETE)
- [ ] Formatter (IN PROGRESS, Owner: Codex-Worker-2)
- [ ] Command line (NEXT)

**Acceptance Criteria:**
- [x] reads all fixtures
- [ ] formats all fixtures

### Phase 3: Polish

**Status:** PLANNED

---

## Progress

**Overall:** 0% (0/1 milestones complete) and a note
**Current Phase:** 0% (0/1 deliverables complete)
**Tests:** 184/184 passing (100%)

---

## TODO (Prioritized)

### P0 (Critical)
- [ ] Next immediate action
- [x] Done already

### P1 (High Priority)

### P2 (Nice to Have)
- [ ] Future improvement

---

## Worker Roster

**Active Workers:**

**Recent Completions:**
- Codex-Worker-3: Old task (COMPLETE, integrated 2026-02-15)

---

## Resume Checklist

1. Read STATUS.md

---

## Acceptance Checklists

- [ ] one

---

**Status File End**
"""


def entry(worker="Codex-Worker-1", title="Port the parser", scope=("src/parser/**",)):
    return RosterEntry(worker, title, scope)


def completion(worker="Codex-Worker-1", outcome="complete", verdict="accepted", reason="checks passed"):
    return Completion(worker, "Port the parser", outcome, verdict, reason, ("src/parser/lex.py",))


def deployed(*entries, run=RUN, at=AT):
    return RunDeployed(run, "phase-2", at, "Ada", entries or (entry(),))


def integrated(*workers, run=RUN, at=LATER):
    return RunIntegrated(run, "phase-2", at, "Grace", workers or (completion(),), "abc", "none")


def after(text, *events):
    for event in events:
        text = status.changes({"STATUS.md": text}, event).get("STATUS.md", text)
    return text


def roster(text):
    return text.decode().split("## Worker Roster\n\n")[1].split("\n\n---")[0]


@pytest.fixture(params=["lf", "crlf", "mark"])
def start(request):
    text = LITERAL.replace("\n", "\r\n") if request.param == "crlf" else LITERAL
    return (b"\xef\xbb\xbf" if request.param == "mark" else b"") + text.encode()


def test_all_that_the_file_says_is_read(start):
    found = status.read(start)
    assert (found.last_updated, found.lead, found.phase) == ("2026-02-16 09:00", "Ada", "Phase 2 - Core")
    assert (found.phase_slug, found.milestone) == ("phase-2", "Reach 90% coverage (0% complete)")
    assert found.deliverable[:5] == ("Formatter", "IN PROGRESS", "Codex-Worker-2", False, "")
    first, second, third = found.phases
    assert (first.number, first.name, first.complete, third.status) == ("1", "Foundation", True, "PLANNED")
    assert tuple(one[:5] for one in second.deliverables[:2]) == (
        ("Parser", "COMPLETE", "", True, ""),
        ("Formatter", "IN PROGRESS", "Codex-Worker-2", False, ""),
    )
    assert second.criteria == ((True, "reads all fixtures"), (False, "formats all fixtures"))
    assert found.current == second
    assert found.todo["P0"] == ((False, "Next immediate action"), (True, "Done already"))
    assert found.todo["P1"] == ()
    assert dict(found.progress)["Tests"] == "184/184 passing (100%)"
    assert [(one.worker, one.outcome, one.date) for one in found.completions] == [
        ("Codex-Worker-3", "COMPLETE", "2026-02-15")
    ]


def test_a_file_without_our_sections_reads_as_nothing_and_is_reported():
    found = status.read(b"hello\n\n## Notes\n\n- a\n")
    assert (found.phase, found.phases, found.active, found.todo["P0"]) == ("", (), (), ())
    missing = {problem.what for problem in status.problems(b"hello\n\n## Notes\n")}
    assert {"section `Worker Roster` is missing", "field `Last Updated` is missing"} <= missing


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\0" * 400, b"\xef\xbb\xbf"])
def test_an_empty_file_is_never_read_as_no_work(text):
    with pytest.raises(StateError, match="the file is empty"):
        status.read(text)
    with pytest.raises(StateError, match="the file is empty"):
        status.changes({"STATUS.md": text}, deployed())


def test_a_file_that_is_not_utf8_is_never_written():
    with pytest.raises(StateError, match="not UTF-8"):
        status.changes({"STATUS.md": LITERAL.encode() + b"\xff"}, deployed())
    assert "not UTF-8" in status.problems(b"# T\n\xff")[0].what


@pytest.mark.parametrize(
    ("phase", "title"),
    [("phase-2", "Phase 2 - Core"), ("phase-02", "Phase 2 - Core"), ("core", "Phase 2 - Core"),
     ("phase-1", "Phase 1 - Foundation"), ("phase-4", None), ("phase-2-core", "Phase 2 - Core"), ("", None)],
)  # fmt: skip
def test_a_phase_is_found_by_number_then_by_slug(phase, title):
    assert status.phase_matches(status.read(LITERAL.encode()), phase) == title


def test_a_deployed_run_stands_on_the_roster_word_for_word(start):
    text = after(start, deployed(entry(), entry("Claude-Worker-1", "Judge it", ())))
    assert roster(text.replace(b"\r\n", b"\n")).startswith(
        "**Active Workers:**\n"
        "- Codex-Worker-1: Port the parser (Scope: src/parser/**, run 20260216_142834)\n"
        "- Claude-Worker-1: Judge it (Scope: none, run 20260216_142834)\n"
        "\n**Recent Completions:**\n"
    )
    found = status.read(text)
    assert (found.last_updated, found.lead) == ("2026-02-16 14:28", "Ada")
    assert found.active[0][:5] == ("Codex-Worker-1", "Port the parser", "src/parser/**", RUN, "")


def test_an_event_changes_only_the_lines_it_is_about(start):
    text = after(start, deployed())
    gone = set(start.splitlines(keepends=True)) - set(text.splitlines(keepends=True))
    assert {line.split(b":**")[0] for line in gone} == {b"**Last Updated"}
    assert len(text.splitlines()) == len(start.splitlines()) + 1


def test_an_integrated_run_moves_to_the_top_of_the_completions(start):
    text = after(start, deployed(), integrated())
    assert roster(text.replace(b"\r\n", b"\n")) == (
        "**Active Workers:**\n\n**Recent Completions:**\n"
        f"- Codex-Worker-1: Port the parser (COMPLETE, accepted, integrated 2026-02-17, run {RUN})\n"
        "- Codex-Worker-3: Old task (COMPLETE, integrated 2026-02-15)"
    )
    assert status.read(text).lead == "Grace"


def test_other_outcomes_say_so_in_capitals():
    text = after(
        LITERAL.encode(),
        integrated(completion(outcome="timed_out", verdict="rejected"), completion("B-1", "skipped", None)),
    )
    found = [(one.worker, one.outcome, one.verdict) for one in status.read(text).completions]
    assert found[:2] == [("Codex-Worker-1", "TIMED_OUT", "rejected"), ("B-1", "SKIPPED", "no verdict")]


@pytest.mark.parametrize(
    "events",
    [
        (deployed(),),
        (deployed(), integrated()),
        (deployed(), integrated(completion(verdict="pending"))),
        (integrated(completion(verdict="pending")),),
        (deployed(), integrated(*(completion(f"Codex-Worker-{n}") for n in range(1, 30)))),
        (deployed(), RunClosed(RUN, LATER, "Ada", "cancelled")),
    ],
)
def test_an_event_recorded_twice_changes_nothing(start, events):
    once = after(start, *events)
    again = events[-1]._replace(at=LATER + timedelta(days=3))
    assert status.changes({"STATUS.md": once}, events[-1]) == {}
    assert status.changes({"STATUS.md": once}, again) == {}


def test_a_deployment_recorded_after_its_integration_changes_nothing():
    once = after(LITERAL.encode(), deployed(), integrated())
    assert status.changes({"STATUS.md": once}, deployed()) == {}


def test_a_pending_worker_stays_active_until_it_is_settled():
    text = after(
        LITERAL.encode(), deployed(), integrated(completion(verdict="pending", reason="wrote\n# a.py"))
    )
    line = f"- Codex-Worker-1: Port the parser (Scope: src/parser/**, run {RUN}) — pending: wrote # a.py"
    assert line in roster(text).splitlines()
    assert status.read(text).active[0].pending == "wrote # a.py"
    text = after(text, integrated(completion(verdict="rejected")))
    assert status.read(text).active == ()
    assert status.read(text).completions[0].verdict == "rejected"


def test_a_closed_run_leaves_the_roster_and_others_stay():
    text = after(
        LITERAL.encode(),
        deployed(),
        deployed(run="20260216_150000"),
        RunClosed(RUN, LATER, "Ada", "cancelled"),
    )
    assert [one.run for one in status.read(text).active] == ["20260216_150000"]


def test_an_interrupted_runs_workers_wait_on_the_roster_until_it_goes_on():
    sent = after(LITERAL.encode(), deployed())
    waiting = after(sent, RunClosed(RUN, LATER, "Ada", "interrupted"))
    said = f"interrupted, `orchestrate resume {RUN}` goes on"
    assert [one.pending for one in status.read(waiting).active if one.run == RUN] == [said]
    assert status.changes({"STATUS.md": waiting}, RunClosed(RUN, LATER, "Ada", "interrupted")) == {}
    assert roster(after(waiting, deployed())) == roster(sent)


def test_a_long_queue_stops_and_goes_on_by_as_many_reads_of_the_file_as_a_short_one():
    spent = []
    for count in (3, 60):
        entries = tuple(RosterEntry(f"Codex-Worker-{n}", f"T{n}", (f"src/{n}/",)) for n in range(count))
        begun = deployed()._replace(workers=entries)
        sent = after(LITERAL.encode(), begun)
        waiting, stop = parses(lambda sent=sent: after(sent, RunClosed(RUN, LATER, "Ada", "interrupted")))
        again, resume = parses(lambda waiting=waiting, begun=begun: after(waiting, begun))
        assert sum(one.pending.startswith("interrupted") for one in status.read(waiting).active) == count
        assert roster(again) == roster(sent)
        spent.append((stop, resume))
    assert spent[0] == spent[1]


def parses(act):
    """Give what an act gives, and how often it read a file."""
    calls = []

    def seen(frame, event, _):
        if event == "call" and frame.f_code is parse.__code__:
            calls.append(event)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        return act(), len(calls)
    finally:
        sys.setprofile(before)


def test_the_same_worker_name_in_another_run_is_another_worker():
    text = after(LITERAL.encode(), deployed(), deployed(run=f"{RUN}_2"), integrated(run=f"{RUN}_2"))
    assert [one.run for one in status.read(text).active] == [RUN]


def test_the_newest_twenty_completions_stay_and_a_line_by_hand_too():
    text = LITERAL.replace("integrated 2026-02-15)", "integrated 2026-02-15)\n- by hand").encode()
    for n in range(25):
        text = after(text, integrated(run=f"20260216_1428{n:02}"))
    runs = [one.run for one in status.read(text).completions]
    assert runs == [f"20260216_1428{n:02}" for n in range(24, 4, -1)]
    assert "- by hand" in roster(text)
    assert status.changes({"STATUS.md": text}, integrated(run="20260216_142800")) == {}


def test_a_placeholder_gives_way_to_the_first_worker():
    text = LITERAL.replace("**Active Workers:**\n", "**Active Workers:**\n- None\n").encode()
    text = after(text, deployed())
    assert roster(text).startswith("**Active Workers:**\n- Codex-Worker-1:")


def test_a_paragraph_below_the_label_is_not_drawn_into_the_list():
    before = LITERAL.replace("**Active Workers:**\n", "**Active Workers:**\nnobody, ask Ada\n").encode()
    text = after(before, deployed())
    assert [one.run for one in status.read(text).active] == [RUN]
    assert b"\nnobody, ask Ada\n" in after(text, integrated())


def test_figures_follow_the_checkboxes_and_notes_stay(start):
    found = status.read(after(start, integrated()))
    assert found.progress[0] == ("Overall", "33% (1/3 milestones complete) and a note")
    assert found.progress[1] == ("Current Phase", "33% (1/3 deliverables complete)")
    assert found.progress[2] == ("Tests", "184/184 passing (100%)")
    assert found.milestone == "Reach 90% coverage (50% complete)"


def test_stale_figures_are_a_warning_with_their_line():
    found = {problem.place: problem.do for problem in status.problems(LITERAL.encode())}
    line = LITERAL.partition("**Overall")[0].count("\n") + 1
    assert found[f"STATUS.md:{line}"] == "**Overall:** 33% (1/3 milestones complete) and a note"
    assert not any(problem.severity == "error" for problem in status.problems(LITERAL.encode()))


def test_a_doubtful_date_or_phase_is_a_warning_on_its_own_line():
    text = LITERAL.replace("2026-02-16 09:00", "yesterday").replace(
        "**Phase:** Phase 2", "**Phase:** Phase 9"
    )
    found = {problem.place: problem.what for problem in status.problems(text.encode())}
    assert "yesterday" in found["STATUS.md:3"]
    assert "Phase 9" in found["STATUS.md:5"]


@pytest.mark.hardening
@pytest.mark.parametrize(
    ("done", "total", "shown"), [(6, 8, 75), (1, 3, 33), (0, 0, 0), (199, 200, 99), (1, 900, 1)]
)
def test_one_percentage_for_all_who_show_it(done, total, shown):
    """T33: one number, whoever shows it."""
    assert percent(done, total) == shown


@pytest.mark.hardening
@given(st.integers(0, 500), st.integers(1, 500))
def test_a_percentage_is_whole_only_at_both_ends(done, total):
    """T33: 199 of 200 are not 100%."""
    done = min(done, total)
    assert (percent(done, total) == 100) is (done == total)
    assert (percent(done, total) == 0) is (done == 0)
    if 1 < percent(done, total) < 99:
        assert abs(percent(done, total) - 100 * done / total) <= 0.5


HOSTILE = st.text(alphabet=st.sampled_from(list("#`<!->[x]:()., \n\x1b*_|ab\u2028")), min_size=1, max_size=16)


@settings(max_examples=60, deadline=None)
@given(HOSTILE, HOSTILE)
def test_no_title_or_reason_breaks_the_file(title, reason):
    worker = completion(verdict="pending", reason=reason)._replace(title=title)
    text = after(LITERAL.encode(), deployed(entry(title=title)), integrated(worker))
    found = status.read(text)
    assert [(one.worker, one.run) for one in found.active] == [("Codex-Worker-1", RUN)]
    assert [one.title for one in found.phases] == [one.title for one in status.read(LITERAL.encode()).phases]
    text = after(text, integrated(worker._replace(verdict="accepted")))
    assert status.read(text).active == ()
    assert status.read(text).completions[0].run == RUN


def test_a_file_that_lacks_the_roster_says_what_to_do():
    text = LITERAL.replace("## Worker Roster", "## Something").encode()
    with pytest.raises(
        StateError, match=r"STATUS\.md: section `Worker Roster` is missing; `orchestrate init`"
    ):
        status.changes({"STATUS.md": text}, deployed())
    with pytest.raises(StateError, match="the file is missing"):
        status.changes({"STATUS.md": None}, deployed())


def test_two_rosters_are_an_error_that_lists_both():
    text = LITERAL.replace("## Resume Checklist", "## Worker Roster").encode()
    with pytest.raises(StateError, match=r"2 times \(line 65 and line 74\)"):
        status.changes({"STATUS.md": text}, deployed())


@pytest.mark.hardening
def test_unknown_things_stay_as_they_are():
    """T35: sections, comments, columns and blank lines that nobody knows."""
    extra = "## Mine\n\n<!-- ## Progress -->\n\n| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 | 4 |\n\n\n\n"
    before = LITERAL.replace("## Phase Plan", f"{extra}## Phase Plan").encode() + b"\n\n\n"
    text = after(before, deployed())
    assert extra.encode() in text
    assert text.endswith(b"**Status File End**\n\n\n\n")


def test_the_first_file_has_no_findings_and_the_seeds_order():
    text = status.initial(FACTS).encode()
    assert status.problems(text) == []
    heads = [line[3:] for line in text.decode().splitlines() if line.startswith("## ")]
    assert heads == ["Current Deliverable", "Phase Plan", "Progress", "TODO (Prioritized)", "Worker Roster",
                     "Resume Checklist", "Acceptance Checklists"]  # fmt: skip
    assert text.endswith(b"\n\n---\n\n**Status File End**\n")
    assert status.read(text).phase == "Phase 1 - Review"
    assert len(status.read(text).current.deliverables) == 5
    assert status.problems(after(text, deployed(), integrated())) == []


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"# Mine\n\ntext right here\n\n## TODO\n\n- [ ] x\n",
        b"no heading, no final end",
        b"# Mine\r\n\r\nLast Updated: never\r\n\r\n## Worker Roster\r\n\r\nnobody\r\n",
        b"---\ntitle: x\n---\n\n## Progress\n\n**Status File End**\n\n\n",
        b"\xef\xbb\xbf# Mine\n",
    ],
)
def test_a_completed_file_keeps_every_line_and_takes_events(before):
    text = status.complete(before, FACTS)
    assert status.complete(text, FACTS) == text
    rest = iter(text.splitlines())
    assert all(line in rest for line in before.splitlines())
    assert [one for one in status.problems(text) if "missing" in one.what] == []
    assert status.read(after(text, deployed())).active[0].run == RUN


def test_reading_imports_neither_pydantic_nor_yaml():
    code = (
        "import sys; from orchestrator.state.canonical import status; status.read(b'# T\\n');"
        "sys.exit(bool({'pydantic', 'yaml', 'structlog', 'git'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
