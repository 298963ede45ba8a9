"""A handoff: eight points that make it work, and a document that a new lead goes on from."""

import re
from datetime import UTC, datetime

import pytest
from support.repository import shell

from orchestrator.report.handoff import path_of
from orchestrator.store.store import Store
from workers.git.run import find_repository

POINTS = [
    "STATUS.md has current deliverable", "Next P0 is clear and actionable",
    "Active workers listed with scopes", "Progress percentages calculated", "Resume checklist present",
    "Phase plan exists", "Acceptance criteria defined", "Tests status shown",
]  # fmt: skip


def status_with(lab, pattern, new):
    text = (lab.root / "STATUS.md").read_text()
    changed = re.sub(pattern, new, text, count=1, flags=re.DOTALL)
    assert changed != text
    lab.write("STATUS.md", changed)


def test_a_fresh_project_can_be_handed_over(lab):
    told = lab.call("handoff", "--check", "--json")
    assert told.code == 0
    assert [one["point"] for one in told.document["points"]] == POINTS
    assert {one["ok"] for one in told.document["points"]} == {True}
    assert told.document["written"] is None
    assert lab.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("pattern", "new", "point", "missing"),
    [
        (r"\nCode review\n", "\n\n", 0, "no deliverable is named"),
        (r"(### P0 \(Critical\)\n).*?(### P1)", r"\1\n\2", 1, "no P0 is open"),
        (
            r"(### P0 \(Critical\)\n).*?(### P1)",
            r"\1- [ ] TBD\n\n\2",
            1,
            "`TBD` does not say what is to be done",
        ),
        (
            r"(\*\*Active Workers:\*\*\n)",
            r"\1- Codex-Worker-1: Port it\n",
            2,
            "Codex-Worker-1 without a scope",
        ),
        (r"0% \(0/5", "40% (2/5", 3, "the figure does not follow"),
        (r"\*\*Overall:\*\*[^\n]*\n", "", 3, "no percentage for Overall"),
        (r"## Resume Checklist.*?(## Acceptance)", r"\1", 4, "no section `Resume Checklist`"),
        (r"### Phase 1.*?(---)", r"\1", 5, "the Phase Plan names no phase"),
        (r"- \[ \] defects.*?(\n---)", r"\1", 6, "Phase 1: Review has no acceptance criteria"),
        (r"\*\*Tests:\*\*[^\n]*\n", "", 7, "Progress has no `Tests`"),
    ],
)
def test_each_point_says_what_is_missing(lab, pattern, new, point, missing):
    status_with(lab, pattern, new)
    before = lab.everything()
    told = lab.call("handoff", "--check", "--json")
    assert told.code == 1
    wrong = {one["point"]: one["missing"] for one in told.document["points"] if not one["ok"]}
    assert missing in wrong[POINTS[point]]
    assert any(
        POINTS[point] in one["what"] and one["severity"] == "error" for one in told.document["problems"]
    )
    assert set(lab.everything()) == set(before)


def test_a_worker_that_runs_and_is_not_on_the_roster_is_missing(lab):
    lab.templates(command_1=shell("mkdir out; echo 1 > out/1; echo 1 > stray", mode="write", owns=["out/**"]))
    assert lab.call("run", "phase-1", "--json").code == 1
    told = lab.call("handoff", "--check", "--json")
    assert (told.code, told.document["points"][2]["ok"]) == (0, True)
    assert "--accept" in told.document["next_action"]


def test_a_handoff_is_committed_with_the_state_that_was_not_and_nothing_else(lab):
    lab.commit({"orchestrate.toml": "[checks]\ntest = 'echo 12 passed in 0.1s'\n"})
    at = lab.git("rev-parse", "HEAD").strip()[:10]
    lab.write("DECISIONS.md", (lab.root / "DECISIONS.md").read_text() + "\nby hand\n")
    lab.write("docs/backlog.md", "# Backlog\n\n- [ ] by hand (P2, 2026-02-16)\n")
    lab.write("src/app.py", "print('mine')\n")
    told = lab.call("handoff", "--verify", "--json")
    assert told.code == 0, told
    written = told.document["written"]
    assert re.fullmatch(r"docs/history/handoff-\d{8}_\d{6}\.md", written)
    assert lab.git("show", "--name-only", "--format=", "HEAD").split() == [
        "DECISIONS.md",
        "STATUS.md",
        "docs/backlog.md",
        written,
    ]
    assert lab.git("status", "--porcelain") == " M src/app.py\n"
    status = (lab.root / "STATUS.md").read_text()
    assert f"**Tests:** 12/12 passing (100%), at {at} with changes\n" in status
    text = (lab.root / written).read_text()
    assert text.rstrip().endswith("**Handoff End**")
    assert text.count("- [x] ") == len(POINTS)
    assert "- src/app.py" in text
    assert "- docs/backlog.md" not in text


def test_a_second_handoff_in_one_second_has_a_name_of_its_own(lab):
    at = datetime(2026, 2, 16, 14, 28, 34, tzinfo=UTC)
    names = []
    for _ in range(3):
        names.append(path_of(lab.root, at))
        lab.write(names[-1], "a handoff\n")
    stem = "docs/history/handoff-20260216_142834"
    assert names == [f"{stem}.md", f"{stem}_2.md", f"{stem}_3.md"]


def test_with_nothing_but_the_handoff_to_write_a_hand_edited_state_is_still_committed(lab):
    found = find_repository(lab.root)
    lab.write("DECISIONS.md", (lab.root / "DECISIONS.md").read_text() + "\nby hand\n")
    done = Store(found).change(lambda _: {}, also=["DECISIONS.md"], message="Keep it\n", commit=True)
    assert (done.changed, done.problems) == ((), ())
    assert done.commit == lab.git("rev-parse", "HEAD").strip()
    assert lab.git("status", "--porcelain") == ""


def test_a_change_is_made_from_what_stands_there_when_it_is_made(lab):
    store = Store(find_repository(lab.root))
    seen = []

    def stamped(texts):
        seen.append(texts["docs/history/x.md"])
        if len(seen) == 1:
            lab.write("docs/history/x.md", "by hand\n")
        return {"docs/history/x.md": (texts["docs/history/x.md"] or b"") + b"by us\n"}

    store.change(stamped, paths=("docs/history/x.md",), message="Add\n", commit=True)
    assert seen == [None, b"by hand\n"]
    assert (lab.root / "docs/history/x.md").read_text() == "by hand\nby us\n"


def test_a_full_context_loses_nothing_the_next_process_has_the_same_next_action(lab):
    """Seed 000, scenario 2: the state is written and committed, a new session reads it and goes on."""
    lab.templates(command_1=shell("mkdir out; echo 1 > out/1; echo 1 > stray", mode="write", owns=["out/**"]))
    assert lab.call("run", "phase-1", "--json").code == 1
    status_with(lab, r"(### P0 \(Critical\)\n)", r"\1- [ ] Settle the stray file\n")
    handed = lab.call("handoff", "--json")
    assert handed.code == 0, handed
    told = lab.call("resume", "--json").document
    assert told["next_action"] == handed.document["next_action"]
    assert told["next"] == handed.document["next"]
    assert told["next"]["p0"] == "Settle the stray file"
    assert told["stale"] == []
    text = (lab.root / handed.document["written"]).read_text()
    assert f"`{told['next_action']}`" in text
    assert (lab.root / handed.document["report"]).exists()


def test_a_handoff_with_gaps_is_written_and_says_what_is_missing(lab):
    status_with(lab, r"\*\*Tests:\*\*[^\n]*\n", "")
    told = lab.call("handoff", "--json", "--no-commit")
    assert told.code == 0
    assert [one["severity"] for one in told.document["problems"]] == ["warning"]
    assert (
        "- [ ] Tests status shown: Progress has no `Tests`"
        in (lab.root / told.document["written"]).read_text()
    )
    assert told.document["commit"] is None


def test_no_handoff_of_a_project_without_status(lab):
    (lab.root / "STATUS.md").unlink()
    told = lab.call("handoff", "--json")
    assert told.code == 2
    assert not (lab.root / "docs/history").exists()
