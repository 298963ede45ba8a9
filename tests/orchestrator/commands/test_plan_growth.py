"""The plan grows by command: lossless, once, counted, and past an agreed plan only with the user's word."""

import pytest
from support.plans import AT, PLAN, TWO, after, all_after, changed, finish
from support.repository import shell, template

from orchestrator.errors import StateError
from orchestrator.state.canonical.status import status
from orchestrator.state.events import (
    CriterionAdded,
    DeliverableAdded,
    DeliverableChanged,
    PhaseAdded,
    PhaseMoved,
)

BARE = PLAN[: PLAN.index("### Phase 1")] + PLAN[PLAN.index("## Progress") - len("---\n\n") :]


def phase(number="4", name="Release", gate=""):
    return PhaseAdded(number, name, "Released", ("it installs",), ("Package", "Notes"), gate, AT, "Ada")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_further_phase_stands_behind_the_last_and_all_else_stays(end):
    new = after(PLAN, phase(), end=end)
    lost, won = changed(new)
    assert lost == ["**Overall:** 33% (1/3 milestones complete)"]
    assert won == [
        "### Phase 4: Release", "**Status:** PLANNED", "**Milestone:** Released",
        "- [ ] Package (PLANNED)", "- [ ] Notes (PLANNED)", "- [ ] it installs",
        "**Overall:** 25% (1/4 milestones complete)",
    ]  # fmt: skip
    assert after(new, phase()) == new
    assert status.problems(new.encode()) == []
    added = status.read(new.encode()).phases[-1]
    assert (added.number, added.milestone, added.criteria) == ("4", "Released", ((False, "it installs"),))


def test_the_first_phase_of_an_empty_plan_is_phase_1_and_a_plan_that_moved_on_is_refused():
    assert [one.title for one in status.read(after(BARE, phase("1")).encode()).phases] == ["Phase 1: Release"]
    with pytest.raises(StateError, match="Phase 3 is not the next one any more"):
        after(PLAN, phase("3"))
    with pytest.raises(StateError, match="`Phase Plan` is missing"):
        after(PLAN.replace("## Phase Plan", "## Roadmap"), phase())


def test_a_deliverable_goes_to_the_end_of_its_phase():
    new = after(PLAN, DeliverableAdded(TWO, "Manual page", False, AT, "Ada"))
    assert changed(new) == (
        ["**Current Phase:** 33% (1/3 deliverables complete)"],
        ["- [ ] Manual page (PLANNED)", "**Current Phase:** 25% (1/4 deliverables complete)"],
    )
    assert after(new, DeliverableAdded(TWO, "Manual page", False, AT, "Ada")) == new
    assert new.index("Manual page") < new.index("**Acceptance Criteria:**")


def test_what_is_to_be_next_is_the_only_next_and_does_not_push_out_what_is_in_progress():
    before = after(PLAN, DeliverableAdded(TWO, "First", True, AT, "Ada"))
    new = after(before, DeliverableAdded(TWO, "Second", True, AT, "Ada"))
    assert "- [ ] First (PLANNED)\n- [ ] Second (NEXT)\n" in new
    assert status.read(new.encode()).deliverable.name == "Formatter"


def test_a_phase_with_nothing_open_goes_on_with_what_is_added():
    done = [
        DeliverableChanged(TWO, name, "COMPLETE", "", "", "", AT, "Ada")
        for name in ("Command line", "Formatter")
    ]
    read = status.read(after(PLAN, *done, DeliverableAdded(TWO, "Manual", False, AT, "Ada")).encode())
    assert read.deliverable[:3] == ("Manual", "NEXT", "Lead")
    assert read.current.deliverables[-1].status == "NEXT"


def test_a_phase_without_a_list_gains_it():
    thin = PLAN.replace("Some words.\n\n**Deliverables:**\n- [ ] Manual\n", "Some words.\n")
    three = "Phase 3: Polish"
    new = after(
        thin,
        CriterionAdded(three, "it reads well", AT, "Ada"),
        DeliverableAdded(three, "Manual", False, AT, "Ada"),
        DeliverableAdded(three, "Index", False, AT, "Ada"),
        CriterionAdded(three, "it is short", AT, "Ada"),
    )
    assert "Some words.\n\n**Deliverables:**\n- [ ] Manual (PLANNED)\n- [ ] Index (PLANNED)\n\n" in new
    assert "**Acceptance Criteria:**\n- [ ] it reads well\n- [ ] it is short\n\n---" in new
    assert status.problems(new.encode()) == []


def test_a_criterion_goes_to_its_phase_or_its_checklist():
    new = after(PLAN, CriterionAdded(TWO, "is fast", AT, "Ada"))
    assert changed(new)[1] == ["**Milestone:** Parser usable (33% complete)", "- [ ] is fast"]
    listed = after(PLAN, CriterionAdded("v1 Done Criteria", "is fast", AT, "Ada"))
    assert listed.replace("- [ ] is documented\n- [ ] is fast\n", "- [ ] is documented\n").count("fast") == 0


@pytest.mark.parametrize(
    "words",
    ["# x", "- [ ] y", "a\n## b", "---", "|", "x (NEXT)", "a (b", "```", "\u202eabc", "**Status:** Z"],
)
def test_hostile_words_are_read_back(words):
    new = after(PLAN, DeliverableAdded(TWO, words, False, AT, "Ada"), CriterionAdded(TWO, words, AT, "Ada"))
    read = status.read(new.encode())
    assert len(read.current.deliverables) == 4
    assert len(read.current.criteria) == 3
    assert [one.title for one in read.phases] == [one.title for one in status.read(PLAN.encode()).phases]
    grown = after(PLAN, phase(name=words))
    assert len(status.read(grown.encode()).phases) == 4
    assert after(grown, phase(name=words)) == grown


def test_a_plan_is_drafted_freely_and_changes_its_scope_with_the_users_word(planned):
    add = ("phase", "add", "Release", "--milestone", "Released", "--deliverable", "Package")
    called = planned.call(*add, "--criterion", "it installs", "--json")
    assert (called.code, called.document["changed"]) == (0, ["STATUS.md"]), called
    assert called.document["added"]["title"] == "Phase 4: Release"
    assert planned.git("show", "-s", "--format=%s").strip() == "Phase added: Phase 4: Release"
    assert planned.call("approve", "first-plan", "--by", "Ada").code == 0
    before = planned.everything()
    more = ("phase", "add", "Support", "--milestone", "Supported", "--json")
    called = planned.call(*more)
    assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (4, None, "user")
    assert called.document["when_approved"].startswith("orchestrate approve scope-phase-5 --by NAME --then ")
    assert planned.everything() == before
    assert planned.call("approve", "scope-phase-5", "--by", "Ada").code == 0
    called = planned.call(*more)
    assert (called.code, called.document["changed"]) == (0, ["DECISIONS.md", "STATUS.md"])
    assert "Scope: Phase 5: Support is added to the plan" in (planned.root / "DECISIONS.md").read_text()
    assert planned.git("status", "--porcelain") == ""


def test_what_the_plan_has_is_not_added_again(planned):
    before = planned.everything()
    for arguments in (
        ("phase", "add", "polish", "--milestone", "x"),
        ("phase", "add", "New", "--milestone", "parser USABLE"),
        ("phase", "add", "New", "--milestone", "x", "--deliverable", "a", "--deliverable", "A"),
        ("deliverable", "add", "formatter"),
        ("deliverable", "add", "X", "--phase", "1"),
        ("deliverable", "add", "X", "--phase", "9"),
        ("criterion", "add", "Reads  all fixtures"),
        ("criterion", "add", "is documented", "--list", "v1"),
        ("criterion", "add", "new", "--list", "v7"),
        ("criterion", "add", "new", "--list", "v1", "--phase", "2"),
    ):
        called = planned.call(*arguments, "--json")
        assert (called.code, called.document["ok"]) == (2, False), called
    assert planned.everything() == before


def test_deliverables_and_criteria_are_the_leads_own(planned):
    planned.call("approve", "first-plan", "--by", "Ada")
    called = planned.call("deliverable", "add", "Manual page", "--next", "--json")
    assert (called.code, called.document["deliverable"]["status"]) == (0, "NEXT")
    called = planned.call("criterion", "add", "--list", "v1", "is", "fast", "--json")
    assert (called.code, called.document["criterion"]["in"]) == (0, "v1 Done Criteria")
    assert planned.call("criterion", "add", "is fast", "--json").document["criterion"]["in"] == TWO
    assert planned.call("milestone", "complete").code == 2


def test_a_phase_ends_with_work_open_only_by_force_with_a_reason_on_record(planned):
    planned.call("approve", "phase-3", "--by", "Ada")
    before = planned.everything()
    for arguments in ((), ("--force",), ("--reason", "we ship"), ("--force", "--reason", "  ")):
        assert planned.call("phase", "complete", *arguments, "--json").code == 2
    assert planned.everything() == before
    called = planned.call("phase", "complete", "--force", "--reason", "we ship as it is", "--json")
    assert called.code == 0, called
    assert len(called.document["left_open"]) == 3
    body = planned.git("log", "-1", "--format=%B")
    assert "Left open: 2 deliverables and 1 criterion (reason: we ship as it is)" in body
    log = (planned.root / "DECISIONS.md").read_text()
    assert "It ends all the same: we ship as it is" in log
    assert "- Negative: left open: deliverable not complete: Formatter; deliverable not complete: " in log
    assert log.count("not complete: Formatter") == 1
    assert "(Phase 2: Core)" not in log
    assert "its acceptance criteria are met" not in log
    report = planned.call("report", "--json").document["report"]
    assert [one["done"] for one in report["progress"]["milestones"]] == [True, False, False]


def test_a_transition_that_leaves_nothing_open_says_so():
    texts = all_after(PLAN, PhaseMoved(TWO, "Phase 3: Polish", "phase-3", "", AT, "Ada"))
    assert b"its acceptance criteria are met" in texts["DECISIONS.md"]
    assert b"left open" not in texts["DECISIONS.md"]


def test_a_blocked_deliverable_says_what_that_means_in_the_plan_and_the_report(planned):
    called = planned.call(
        "deliverable", "block", "2", "--reason", "no (good) parser", "--impact", "no release",
        "--mitigation", "ask Grace", "--priority", "P0", "--json",
    )  # fmt: skip
    assert called.code == 0, called
    text = (planned.root / "STATUS.md").read_text()
    assert (
        "- [ ] Formatter (BLOCKED: no [good] parser, Owner: Codex-Worker-2)\n"
        "  - Priority: P0\n  - Impact: no release\n  - Mitigation: ask Grace\n- [ ] Command line\n"
    ) in text
    (blocker,) = planned.call("report", "--json").document["report"]["blockers"]
    assert blocker == {
        "title": "Formatter", "priority": "P0", "root_cause": "no [good] parser", "impact": "no release",
        "mitigation": "ask Grace",
    }  # fmt: skip
    again = planned.call("deliverable", "block", "2", "--reason", "no [good] parser", "--json").document
    assert (again["changed"], again["deliverable"]["impact"]) == ([], "no release")
    assert planned.call("deliverable", "start", "2").code == 0
    assert "Impact" not in (planned.root / "STATUS.md").read_text()


def test_a_major_blocker_leaves_a_status_report_with_the_newest_run(planned):
    planned.templates(command_1=template(phase="phase-2"))
    assert planned.call("run", "phase-2").code == 0
    called = planned.call("deliverable", "block", "2", "--reason", "x", "--priority", "P0", "--json").document
    assert "## Blockers\n\n1. **Formatter**" in (planned.root / called["report"]).read_text()


def test_a_milestone_that_is_reached_is_the_same_figure_everywhere(planned):
    finish(planned)
    assert planned.call("approve", "milestone-2", "--by", "Ada").code == 0
    called = planned.call("milestone", "complete", "--json").document
    assert called["progress"]["Overall"] == "67% (2/3 milestones complete)"
    report = planned.call("report", "--json").document["report"]
    assert report["current_state"]["overall_progress"] == "67% (2/3 milestones complete)"
    assert [one["status"] for one in report["progress"]["milestones"]] == ["COMPLETE", "COMPLETE", "PLANNED"]
    assert planned.call("status", "--json").document["progress"]["Overall"] == "67% (2/3 milestones complete)"
    assert "(2/3 milestones complete)" in planned.git("log", "-1", "--format=%B")


CHECKS = "[checks]\nunit = 'echo 3 passed in 0.1s'\nintegration = 'echo 2 passed in 0.1s'\n"


def test_tests_run_by_default_where_a_step_is_done_and_their_figure_stands_everywhere(planned):
    planned.commit({"orchestrate.toml": CHECKS, ".gitignore": ".taskers/\n"})
    finish(planned)
    line = "5/5 passing (100%)"
    assert "Deliverable complete: Command line\n\n- Updated STATUS.md (Phase 2 now 100% complete" in (
        planned.git("log", "--format=%B", "-3")
    )
    assert planned.git("log", "--format=%B").count(f"Tests: {line}") == 2
    assert f"**Tests:** {line}, at " in (planned.root / "STATUS.md").read_text()
    planned.commit({"orchestrate.toml": "[checks]\ntest = 'echo 9 passed in 1s'\n"})
    assert planned.call("criterion", "undo", "formats").code == 0
    assert planned.call("criterion", "done", "formats", "--verify").code == 0
    assert "**Tests:** 9/9 passing (100%), at " in (planned.root / "STATUS.md").read_text()
    planned.commit({"orchestrate.toml": "[checks]\nsmoke = 'echo 1 failed, 1 passed in 1s; exit 1'\n"})
    planned.call("approve", "milestone-2", "--by", "Ada")
    planned.call("approve", "phase-3", "--by", "Ada")
    before = (planned.root / "STATUS.md").read_text()
    for arguments in (("milestone", "complete"), ("phase", "complete")):
        called = planned.call(*arguments, "--json")
        assert called.code == 1
        assert "nothing was recorded" in called.says()[0]
        assert "`--no-verify`" in called.says()[0]
        assert (planned.root / "STATUS.md").read_text() == before
        assert planned.call(*arguments, "--no-verify").code == 0
        before = (planned.root / "STATUS.md").read_text()
    assert "**Tests:** 9/9 passing (100%), at " in before


def test_verifying_with_no_tests_at_all_is_refused_only_where_it_was_asked_for(planned):
    assert planned.call("deliverable", "done", "2", "--verify", "--json").code == 2
    assert planned.call("deliverable", "done", "2", "--verify", "--no-verify").code == 2
    assert planned.call("deliverable", "done", "2", "--timeout", "0").code == 2
    assert planned.call("deliverable", "done", "2").code == 0


@pytest.mark.parametrize(
    ("gate", "line"),
    [
        ("echo 4 passed in 0.1s", "4/4 passing (100%)"),
        ("test -e out", "passed (test -e out)"),
        ("", "not run"),
    ],
)
def test_the_commit_of_an_integration_says_what_the_gate_counted_on_what_landed(lab, gate, line):
    lab.commit({"orchestrate.toml": f"[integration]\ngate = {[gate] if gate else []}\n"})
    script = "mkdir out; echo 1 > out/a"
    lab.templates(command_1=shell(script, mode="write", owns=["out/**"]))
    assert lab.call("run", "phase-1").code == 0
    message = lab.git("show", "-s", "--format=%B")
    assert "\n- Command-Worker-1: complete, accepted\n\nGate: " in message
    assert f"\nTests: {line}\n\nOrchestrate-State: " in message


def test_a_phase_without_deliverables_does_not_show_those_of_the_phase_before():
    text = PLAN.replace("**Deliverables:**\n- [ ] Manual\n", "")
    new = after(text, PhaseMoved(None, "Phase 3: Polish", "phase-3", "", AT, "Ada"))
    read = status.read(new.encode())
    assert (read.phase, read.deliverable[:2]) == ("Phase 3 - Polish", ("", "PLANNED"))
    assert status.problems(new.encode()) == []
    again = after(new, DeliverableAdded("Phase 3: Polish", "Manual", False, AT, "Ada"))
    assert status.read(again.encode()).deliverable[:2] == ("Manual", "NEXT")


def test_a_phase_that_starts_beside_an_open_one_is_warned_of(planned):
    assert planned.call("approve", "phase-3", "--by", "Ada").code == 0
    called = planned.call("phase", "start", "3", "--json")
    assert called.code == 0
    (warned,) = called.document["problems"]
    assert (warned["severity"], warned["what"]) == (
        "warning",
        "Phase 2: Core is not complete, and stays IN PROGRESS",
    )
    assert planned.call("phase", "start", "3", "--json").document["problems"] == []


def test_a_criterion_names_the_milestone_of_its_own_phase(planned):
    assert planned.call("approve", "phase-3", "--by", "Ada").code == 0
    assert planned.call("phase", "start", "3").code == 0
    called = planned.call("criterion", "done", "formats all", "--json")
    assert called.document["milestone"] == "Parser usable (100% complete)"
    added = planned.call("criterion", "add", "is short", "--phase", "2", "--json")
    assert added.document["milestone"] == "Parser usable (67% complete)"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), "Phase 2: Core has 2 deliverables left, and no template is of `phase-2`"),
        (
            (("- [ ] Formatter", "- [x] Formatter"), ("- [ ] Command", "- [x] Command")),
            "Phase 2: Core has 1 criterion left: `orchestrate criterion list`, and no template is",
        ),
        (
            (
                ("- [ ] Formatter", "- [x] Formatter"),
                ("- [ ] Command", "- [x] Command"),
                ("- [ ] formats", "- [x] formats"),
            ),
            "all of Phase 2: Core is done: `orchestrate phase complete --detach`, then comes Phase 3: Polish",
        ),
        (
            (("**Status:** IN PROGRESS\n**Milestone", "**Status:** COMPLETE\n**Milestone"),),
            "next in the plan is Phase 3: Polish: `orchestrate phase start phase-3`",
        ),
        (
            (
                ("**Status:** IN PROGRESS\n**Milestone", "**Status:** COMPLETE\n**Milestone"),
                ("Some words.", "**Status:** COMPLETE"),
            ),
            "all phases are complete",
        ),
        (
            (("Phase 2 - Core", "Phase 3 - Polish"), ("**Deliverables:**\n- [ ] Manual\n", "")),
            "Phase 3: Polish has no deliverables yet: `orchestrate deliverable add`",
        ),
    ],
)
def test_status_says_what_is_left_of_the_plan(planned, changes, said):
    text = (planned.root / "STATUS.md").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    planned.write("STATUS.md", text)
    document = planned.call("status", "--json").document
    assert document["waiting_for"] == "lead"
    assert document["what"].startswith(f"nothing is under way; {said}")
    assert document["what"].endswith("; the first open P0 item: New thing")


def test_the_approval_of_a_milestone_with_open_work_is_recorded_and_says_what_is_open(planned):
    called = planned.call("approve", "milestone-2", "--by", "Ada", "--json")
    assert called.code == 0
    (said,) = called.says()
    open_work = "deliverable not complete: Formatter; deliverable not complete: Command line"
    assert said.startswith(
        f"STATUS.md: Phase 2: Core has work left open ({open_work}; criterion not met: formats all"
    )
    assert (
        planned.call("approve", "milestone-2", "--by", "Ada", "--reject", "--json").document["problems"] == []
    )
    assert planned.call("approve", "phase-3", "--by", "Ada", "--json").document["problems"] == []


def test_the_list_of_phases_shows_how_far_each_is(planned):
    line = next(one for one in planned.call("phase", "list").out.splitlines() if TWO in one)
    assert line.endswith(f"{TWO} (1/3 deliverables, 1/2 criteria)")
