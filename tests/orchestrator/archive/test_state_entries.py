"""Old entries are moved out of the state files whole, in one commit, to the place that the files name."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.archive.state_entries import KEPT, MOST, archived, targets
from orchestrator.report.decision_history import all_edits
from orchestrator.state.canonical.decisions import read as decision_reading
from orchestrator.state.canonical.status import status
from orchestrator.state.canonical.status.read import read
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
DONE = """### Phase 0: Foundation

**Status:** COMPLETE
**Milestone:** It builds

**Deliverables:**
- [x] Makefile (COMPLETE)

**Acceptance Criteria:**
- [x] `make` passes

"""


def entry(number, date, title=""):
    name = title or f"Decision {number}"
    return (
        f"## {date}: {name}\n\n**Context:** C{number}.\n\n**Decision:** D{number}.\n\n**Status:** Accepted\n"
    )


def log(count, *, first="2026-02-16", mark=None):
    """Write a log of so many entries, newest first, a day between two; `mark` gives titles by number."""
    start = datetime.fromisoformat(first)
    entries = [
        entry(number, (start - timedelta(days=5 * at)).date(), (mark or {}).get(number, ""))
        for at, number in enumerate(range(count, 0, -1))
    ]
    head = "# Architectural Decision Log\n\n**Project:** shop\n**Started:** 2024-01-01\n"
    return "\n---\n\n".join([head, *entries, "**Decision Log End**\n"])


def texts_of(decisions, plan=""):
    text = status.initial(Facts("shop", "Ada", AT))
    if plan:
        text = text.replace("### Phase 1", f"{plan}### Phase 1", 1)
    texts = {"STATUS.md": text.encode(), "DECISIONS.md": decisions.encode(), "docs/backlog.md": None}
    return {**dict.fromkeys(targets(texts)), **texts}


def titles(text):
    return [found.title for found in decision_reading.read(text)]


def archive(lab, *arguments, code=0):
    told = lab.call("archive", "--json", *arguments)
    assert told.code == code, told
    return told.document


def test_nothing_old_moves_nothing_and_makes_no_commit(lab):
    before = lab.everything()
    told = archive(lab)
    assert (told["moved"], told["changed"], told["commit"]) == ([], [], None)
    assert {path: seen for path, seen in lab.everything().items() if ".git/" not in path} == {
        path: seen for path, seen in before.items() if ".git/" not in path
    }


def test_a_dry_run_says_what_the_run_then_does_and_writes_nothing(lab):
    lab.commit({"DECISIONS.md": log(120)})
    before = lab.everything()
    dry = archive(lab, "--dry-run")
    assert lab.everything() == before
    assert (dry["dry_run"], dry["next_action"], dry["changed"]) == (True, "orchestrate archive", [])
    assert archive(lab)["moved"] == dry["moved"] != []


def test_old_decisions_leave_by_year_linked_in_the_header_in_one_commit(lab):
    lab.commit({"DECISIONS.md": log(120)})
    known = all_edits(lab.root)  # the first entry of the project, which this log has not
    whole = titles((lab.root / "DECISIONS.md").read_bytes())
    told = archive(lab)
    left = (lab.root / "DECISIONS.md").read_bytes()
    assert len(titles(left)) == KEPT
    years = sorted((lab.root / "docs/decisions").iterdir(), reverse=True)
    assert titles(left) + [title for year in years for title in titles(year.read_bytes())] == whole
    for year in years:
        assert all(one.date.startswith(year.stem) for one in decision_reading.read(year.read_bytes()))
        assert f"[{year.stem}](docs/decisions/{year.name})" in left.decode().partition("\n---")[0]
    assert left.endswith(b"\n---\n\n**Decision Log End**\n")
    assert b"---\n\n---" not in left
    assert lab.git("show", "--name-only", "--format=", "HEAD").split() == [
        "DECISIONS.md", *sorted(f"docs/decisions/{year.name}" for year in years),
    ]  # fmt: skip
    assert told["commit"] == lab.git("rev-parse", "HEAD").strip()
    assert lab.git("status", "--porcelain") == ""
    # The log is append-only: a move is neither an edit nor a removal.
    assert all_edits(lab.root) == known
    assert archive(lab)["moved"] == []


def test_later_decisions_join_an_archive_above_the_older_ones(lab):
    lab.commit({"DECISIONS.md": log(120)})
    known = all_edits(lab.root)
    archive(lab)
    first = titles((lab.root / "docs/decisions/2025.md").read_bytes())
    text = (lab.root / "DECISIONS.md").read_text()
    more = "\n---\n\n".join(entry(1000 - at, "2026-03-01") for at in range(60))
    top = text.index("## 20")
    lab.commit({"DECISIONS.md": f"{text[:top]}{more}\n---\n\n{text[top:]}"})
    archive(lab)
    dates = [one.date for one in decision_reading.read((lab.root / "docs/decisions/2025.md").read_bytes())]
    assert dates == sorted(dates, reverse=True)
    assert titles((lab.root / "docs/decisions/2025.md").read_bytes())[-len(first) :] == first
    head = (lab.root / "DECISIONS.md").read_text().partition("\n---")[0]
    assert head.count("docs/decisions/2025.md") == 1
    assert all_edits(lab.root) == known


def test_an_approval_in_force_stays_in_the_log():
    gate = "Gate phase-2: approved by Grace"
    texts = texts_of(log(120, mark={5: gate}))
    made = archived(texts, AT).texts
    assert titles(made["DECISIONS.md"])[KEPT:] == [gate]


@settings(max_examples=20, deadline=None)
@given(count=st.integers(95, 130), ending=st.sampled_from(["\n", "\r\n"]), trailer=st.booleans())
def test_no_entry_is_lost_doubled_or_changed(count, ending, trailer):
    text = log(count) if trailer else log(count).removesuffix("\n---\n\n**Decision Log End**\n")
    texts = texts_of(text.replace("\n", ending))
    made = archived(texts, AT).texts
    if count <= MOST:
        assert made == {}
        return
    parts = [made["DECISIONS.md"], *(made[path] for path in sorted(made, reverse=True) if "/20" in path)]
    found = [(title, body) for part in parts for title, body in decision_reading.spans(part)]
    before = decision_reading.spans(texts["DECISIONS.md"])

    def bare(body):
        return re.sub(
            r"(?:\s|^---$|^\*\*Decision Log End\*\*$)+\Z", "", body.replace("\r\n", "\n"), flags=re.MULTILINE
        )

    assert [(title, bare(body)) for title, body in found] == [(title, bare(body)) for title, body in before]


def test_a_completed_phase_leaves_its_heading_and_status_and_still_counts(lab):
    text = (lab.root / "STATUS.md").read_text().replace("### Phase 1", f"{DONE}### Phase 1", 1)
    lab.commit({"STATUS.md": text})
    told = archive(lab)
    assert told["moved"] == [
        {"kind": "phase", "what": "Phase 0: Foundation", "to": "docs/history/phase-0.md"}
    ]
    after = (lab.root / "STATUS.md").read_text()
    state = "**Status:** COMPLETE (archived: docs/history/phase-0.md)\n**Milestone:** It builds"
    assert f"### Phase 0: Foundation\n\n{state}\n\n### Phase 1" in after
    assert read(after.encode()).milestones == (1, 2)
    kept = (lab.root / "docs/history/phase-0.md").read_text()
    assert kept.startswith("# Phase 0: Foundation\n")
    assert DONE.partition("\n\n")[2].strip() in kept
    assert archive(lab)["moved"] == []
    assert lab.git("status", "--porcelain") == ""


def test_a_phase_that_was_left_open_counts_no_more_once_it_is_archived(lab):
    left = DONE.replace("- [x]", "- [ ]")
    text = (lab.root / "STATUS.md").read_text().replace("### Phase 1", f"{left}### Phase 1", 1)
    lab.commit({"STATUS.md": text})
    before = read(text.encode()).milestones
    archive(lab)
    after = (lab.root / "STATUS.md").read_text()
    assert "**Milestone:** It builds (not reached)\n" in after
    assert read(after.encode()).milestones == before == (0, 2)
    shown = {"phase": "Phase 0: Foundation", "milestone": "It builds", "percent": 0, "reached": False}
    assert shown in lab.call("milestone", "list", "--json").document["milestones"]


def test_the_current_phase_stays_also_when_it_is_complete(lab):
    text = (lab.root / "STATUS.md").read_text().replace("**Status:** IN PROGRESS", "**Status:** COMPLETE", 1)
    lab.commit({"STATUS.md": text})
    assert archive(lab)["moved"] == []


def test_done_items_and_old_ideas_go_to_the_backlog_and_p0_never(lab):
    lab.commit({"STATUS.md": (lab.root / "STATUS.md").read_text().replace("- [ ] Run the", "- [x] Run the")})
    (told, later) = (archive(lab, "--dry-run", "--older-than", days) for days in ("30", "-1"))
    assert [one["what"][:7] for one in told["moved"]] == ["Run the"]
    assert len(later["moved"]) == 2
    archive(lab, "--older-than", "-1")
    backlog = (lab.root / "docs/backlog.md").read_text()
    assert re.search(r"^- \[x\] Run the first phase.* \(P0, \d{4}-\d\d-\d\d\)$", backlog, re.MULTILINE)
    assert re.search(r"^- \[ \] Replace .* \(P2, ", backlog, re.MULTILINE)
    todo = read((lab.root / "STATUS.md").read_bytes()).todo
    assert (len(todo["P0"]), len(todo["P1"]), len(todo["P2"])) == (1, 2, 0)


@pytest.mark.parametrize("broken", [b"", b"\xff\xfe"])
def test_a_log_that_cannot_be_read_moves_nothing(lab, broken):
    (lab.root / "DECISIONS.md").write_bytes(broken)
    before = (lab.root / "STATUS.md").read_bytes()
    archive(lab, code=2)
    assert (lab.root / "STATUS.md").read_bytes() == before
    assert not (lab.root / "docs/decisions").exists()
