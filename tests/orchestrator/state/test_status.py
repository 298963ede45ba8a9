"""STATUS.md: read tolerantly, changed by events, completed without a lost byte."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.status import FACTS, LITERAL, RUN, after, deployed, integrated

from orchestrator.errors import StateError
from orchestrator.state.canonical.status import status
from orchestrator.state.facts import percent


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
    """T33: one number in every place that shows it."""
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


@pytest.mark.hardening
def test_unknown_things_stay_as_they_are():
    """T35: unknown sections, comments, columns and blank lines."""
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
        "import sys; from orchestrator.state.canonical.status import status; status.read(b'# T\\n');"
        "sys.exit(bool({'pydantic', 'yaml', 'structlog', 'git'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
