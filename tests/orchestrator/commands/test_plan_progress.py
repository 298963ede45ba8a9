"""Deliverables, criteria, milestones and phases: ticked by command, counted by rule, gated by the user."""

import shlex

import pytest
from support.plans import AT, PLAN, TWO, after, all_after, changed, finish
from support.repository import template

from orchestrator.errors import StateError
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.status import status
from orchestrator.state.events import CriterionMet, DeliverableChanged, MilestoneReached, PhaseMoved


def deliverable(name, word, *, owner="", reason="", tests=""):
    return DeliverableChanged(TWO, name, word, owner, reason, tests, AT, "Ada")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_complete_deliverable_is_ticked_counted_and_followed_by_the_next(end):
    texts = all_after(PLAN, deliverable("Formatter", "COMPLETE", tests="9/9 passing (100%)"), end=end)
    new = texts["STATUS.md"].decode().replace(end, "\n")
    assert changed(new)[1] == [
        "Command line", "**Status:** NEXT", "**Owner:** Lead", "- [x] Formatter (COMPLETE)",
        "- [ ] Command line (NEXT)", "**Current Phase:** 67% (2/3 deliverables complete)",
        "**Tests:** 9/9 passing (100%)",
    ]  # fmt: skip
    assert texts["docs/backlog.md"].endswith(b"- [x] Old thing (P0, 2026-02-17)\n")
    assert status.problems(texts["STATUS.md"]) == []


def test_completing_another_deliverable_leaves_the_current_one():
    new = after(PLAN, deliverable("Command line", "COMPLETE"))
    assert status.read(new.encode()).deliverable.name == "Formatter"


def test_the_last_deliverable_stays_current_and_says_complete():
    new = status.read(
        after(PLAN, deliverable("Command line", "COMPLETE"), deliverable("Formatter", "COMPLETE")).encode()
    )
    assert (new.deliverable.name, new.deliverable.status) == ("Formatter", "COMPLETE")
    assert dict(new.progress)["Current Phase"] == "100% (3/3 deliverables complete)"


def test_a_blocked_deliverable_says_why_and_is_read_back():
    new = after(PLAN, deliverable("Formatter", "BLOCKED", reason="no parser (yet), so"))
    assert "- [ ] Formatter (BLOCKED: no parser [yet], so, Owner: Codex-Worker-2)" in new
    made = status.read(new.encode()).current.deliverables[1]
    assert (made.status, made.reason, made.owner) == ("BLOCKED", "no parser [yet], so", "Codex-Worker-2")
    again = after(new, deliverable("Formatter", "IN PROGRESS", owner="Lead"))
    assert "- [ ] Formatter (IN PROGRESS, Owner: Lead)" in again


@pytest.mark.parametrize("word", ["IN PROGRESS", "COMPLETE", "BLOCKED"])
def test_the_same_event_twice_is_one(word):
    event = deliverable("Formatter", word, reason="x" if word == "BLOCKED" else "")
    once = after(PLAN, event)
    assert after(once, event) == once


def test_a_current_deliverable_that_lacks_its_lines_gains_them():
    bare = PLAN.replace("Formatter\n**Status:** IN PROGRESS\n**Owner:** Codex-Worker-2\n", "", 1)
    new = status.read(after(bare, deliverable("Command line", "IN PROGRESS", owner="Grace")).encode())
    assert new.deliverable[:3] == ("Command line", "IN PROGRESS", "Grace")


def test_a_criterion_is_ticked_where_it_stands_and_moves_the_milestone():
    new = after(PLAN, CriterionMet(TWO, "formats all fixtures", True, AT, "Ada"))
    assert changed(new)[1] == ["**Milestone:** Parser usable (100% complete)", "- [x] formats all fixtures"]
    listed = after(PLAN, CriterionMet("v1 Done Criteria", "reads all fixtures", True, AT, "Ada"))
    assert listed.count("- [x] reads all fixtures") == 2
    back = after(new, CriterionMet(TWO, "formats all fixtures", False, AT, "Ada"))
    assert changed(back) == ([], [])


def test_a_milestone_that_is_reached_counts_and_is_logged():
    texts = all_after(PLAN, MilestoneReached(TWO, "Parser usable", AT, "Ada"))
    read = status.read(texts["STATUS.md"])
    assert (read.current.milestone, read.current.reached, read.milestones) == ("Parser usable", True, (2, 3))
    assert b"## 2026-02-17: Milestone reached: Parser usable" in texts["DECISIONS.md"]


def test_a_phase_that_ends_hands_over_to_the_next_in_both_files():
    texts = all_after(PLAN, PhaseMoved(TWO, "Phase 3: Polish", "phase-3", "", AT, "Ada"))
    read = status.read(texts["STATUS.md"])
    assert (read.phase, read.current.status) == ("Phase 3 - Polish", "IN PROGRESS")
    assert [phase.complete for phase in read.phases] == [True, True, False]
    assert read.deliverable[:3] == ("Manual", "NEXT", "Lead")
    assert dict(read.progress)["Overall"] == "33% (1/3 milestones complete)"  # work of the second is open
    assert dict(read.progress)["Current Phase"] == "0% (0/1 deliverables complete)"
    assert b"Phase transition: Phase 2: Core is complete, Phase 3: Polish begins" in texts["DECISIONS.md"]
    assert status.problems(texts["STATUS.md"]) == decisions.problems(texts["DECISIONS.md"]) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAN.replace("- [ ] Formatter", "- [ ] Printer"), "`Formatter` is 0 times"),
        (PLAN.replace("- [ ] Command line", "- [ ] Formatter"), "`Formatter` is 2 times"),
        (PLAN.replace("## Phase Plan", "## Plan"), "`Phase Plan` is missing"),
        (PLAN.replace("## Current Deliverable", "## Now"), "`Current Deliverable` is missing"),
        (PLAN.replace("### Phase 3", "### Phase 2: Core\n\n### Phase 3"), "is there 2 times"),
        (PLAN.replace("**Acceptance", "```\n**Acceptance"), "never closed"),
    ],
)
def test_a_plan_that_cannot_be_edited_is_refused(text, words):
    with pytest.raises(StateError, match=words):
        after(text, deliverable("Formatter", "COMPLETE"))


def test_a_deliverable_is_committed_with_subject_bullets_and_the_tests(planned):
    called = planned.call("deliverable", "done", "format", "--json")
    assert called.code == 0, called
    assert called.document["changed"] == ["STATUS.md", "docs/backlog.md"]
    assert called.document["next"]["name"] == "Command line"
    assert called.document["next_action"] == "orchestrate deliverable start 'Command line'"
    assert planned.git("show", "-s", "--format=%B").strip() == (
        "Deliverable complete: Formatter\n\n"
        "- Updated STATUS.md (Phase 2 now 67% complete, 2/3 deliverables)\n"
        "- Next: Command line\n\n"
        "Tests: not run"
    )
    assert planned.git("status", "--porcelain") == ""
    assert planned.call("deliverable", "block", "2", "--json").code == 2
    assert planned.call("deliverable", "start", "nothing", "--json").code == 2
    listed = planned.call("deliverable", "list", "--json").document["deliverables"]
    assert [one["done"] for one in listed] == [True, True, False]


def test_tests_that_fail_keep_a_deliverable_open_and_tests_that_pass_are_its_figure(planned):
    planned.commit({"orchestrate.toml": "[checks]\ntest = 'echo 3 passed, 1 failed in 0.1s; exit 1'\n",
                    ".gitignore": ".taskers/\n"})  # fmt: skip
    text = (planned.root / "STATUS.md").read_text()
    called = planned.call("deliverable", "done", "format", "--verify", "--json")
    assert called.code == 1
    assert "nothing was recorded" in called.says()[0]
    assert "check test: exit code 1 in " in called.err
    assert (planned.root / "STATUS.md").read_text() == text
    planned.commit({"orchestrate.toml": "[checks]\ntest = 'echo 4 passed in 0.1s'\n"})
    tested = planned.git("rev-parse", "--short=10", "HEAD").strip()
    done = planned.call("deliverable", "done", "format", "--verify", "--timeout", "60")
    assert done.code == 0
    begun, ended = done.err.splitlines()
    assert begun == "check test: `echo 4 passed in 0.1s` runs, 60 s at most (--timeout)"
    assert ended.startswith("check test: passed in ")
    assert f"**Tests:** 4/4 passing (100%), at {tested}\n" in (planned.root / "STATUS.md").read_text()
    assert planned.git("show", "-s", "--format=%B").strip().endswith("Tests: 4/4 passing (100%)")


def test_a_criterion_that_stands_twice_is_chosen_by_its_heading(planned):
    called = planned.call("criterion", "done", "reads all", "--json")
    assert called.code == 2
    assert planned.call("criterion", "done", "reads all", "--in", "v1").code == 0
    assert planned.call("criterion", "done", "formats").code == 0
    listed = planned.call("criterion", "list", "--json").document["criteria"]
    assert [one["met"] for one in listed] == [True, True, True, False]
    assert planned.call("criterion", "undo", "formats", "--json").document["criterion"]["met"] is False


def test_a_phase_with_work_left_is_not_complete(planned):
    before = planned.everything()
    called = planned.call("phase", "complete", "--json")
    assert called.code == 2
    assert [one.split(": ", 1)[1].split(";")[0] for one in called.says()] == [
        "deliverable not complete: Formatter (Phase 2: Core)",
        "deliverable not complete: Command line (Phase 2: Core)",
        "criterion not met: formats all fixtures (Phase 2: Core)",
        "Core: 2 deliverables and 1 criterion left open",
    ]
    assert called.says()[-1].endswith("`orchestrate phase complete --force --reason TEXT`")
    assert planned.everything() == before


def test_a_phase_waits_for_the_users_approval(planned):
    finish(planned)
    before = planned.everything()
    called = planned.call("phase", "complete", "--json")
    assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (4, None, "user")
    assert called.document["when_approved"].startswith("orchestrate approve phase-3 --by NAME --then ")
    assert planned.everything() == before
    assert planned.call("approve", "phase-3", "--by", "Ada", "--reject").code == 0
    told = planned.call("status", "--json").document
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    assert "gate phase-3 was rejected by Ada on " in told["what"]
    called = planned.call("phase", "complete", "--json")
    assert called.code == 4
    assert "was rejected by Ada" in called.says()[0]
    assert planned.call("approve", "phase-3", "--by", "Ada", "--condition", "by Friday").code == 0
    assert "rejected" not in planned.call("status", "--json").document["what"]
    called = planned.call("phase", "complete", "--json")
    assert called.code == 0, called
    assert called.document["changed"] == ["DECISIONS.md", "STATUS.md"]
    assert called.document["phase"] == "Phase 3 - Polish"
    assert called.document["report"] is None
    head = planned.git("rev-parse", "HEAD")
    again = planned.call("phase", "complete", "2", "--json")
    assert (again.code, again.document["changed"]) == (0, [])
    assert planned.git("rev-parse", "HEAD") == head
    assert planned.git("status", "--porcelain") == ""
    assert "on the condition: by Friday" in (planned.root / "DECISIONS.md").read_text()


def test_a_phase_is_started_only_through_its_gate(planned):
    assert planned.call("phase", "start", "3").code == 4
    assert planned.call("approve", "phase 3", "--by", "Ada").code == 0
    assert planned.call("phase", "start", "polish", "--json").document["begun"] == "Phase 3: Polish"
    assert planned.call("phase", "start", "1", "--json").code == 2
    assert planned.call("phase", "start", "9", "--json").code == 2
    names = [one["name"] for one in planned.call("phase", "list", "--json").document["phases"]]
    assert names == ["phase-1", "phase-2", "phase-3"]


def test_the_first_phase_needs_the_first_plan_approved_and_phase_0_nothing(lab):
    plan = PLAN.replace("**Status:** IN PROGRESS\n**Milestone:** P", "**Status:** PLANNED\n**Milestone:** P")
    plan = plan.replace("**Status:** COMPLETE (archived: docs/history/phase-1.md)", "**Status:** PLANNED")
    lab.commit({"STATUS.md": plan})
    called = lab.call("phase", "start", "1", "--json")
    assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (4, None, "user")
    assert called.document["when_approved"].startswith("orchestrate approve first-plan --by NAME --then ")
    lab.commit({"STATUS.md": plan.replace("Phase 1: Foundation", "Phase 0: Foundation")})
    assert lab.call("phase", "start", "0").code == 0


def test_a_milestone_needs_its_deliverables_its_criteria_and_its_gate(planned):
    assert planned.call("criterion", "done", "formats").code == 0
    refused = planned.call("milestone", "complete", "--json")
    assert (refused.code, refused.document["next_action"]) == (2, "orchestrate deliverable list")
    assert [one["what"] for one in refused.document["problems"]] == [
        "deliverable not complete: Formatter (Phase 2: Core)",
        "deliverable not complete: Command line (Phase 2: Core)",
    ]
    finish(planned)
    called = planned.call("milestone", "complete", "--json")
    assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (4, None, "user")
    assert called.document["when_approved"].startswith("orchestrate approve milestone-2 --by NAME --then ")
    assert planned.call("approve", "milestone-2", "--by", "Ada").code == 0
    called = planned.call("milestone", "complete", "--json")
    assert called.document["milestone"] == {
        "phase": TWO, "milestone": "Parser usable", "percent": 100, "reached": True,
    }  # fmt: skip
    assert planned.call("milestone", "complete", "--json").document["changed"] == []


def test_a_phase_that_ends_leaves_a_status_report_with_the_newest_run(planned):
    planned.templates(command_1=template(phase="phase-2"))
    assert planned.call("run", "phase-2").code == 0
    finish(planned)
    planned.call("approve", "phase-3", "--by", "Ada")
    written = planned.call("phase", "complete", "--json").document["report"]
    assert "Phase 3 - Polish" in (planned.root / written).read_text()
    assert planned.git("status", "--porcelain") == ""


def test_a_deliverable_that_is_complete_is_neither_tested_nor_committed_again(planned):
    planned.commit(
        {"orchestrate.toml": f"[checks]\ntest = 'echo x >> {planned.home}/ran; echo 4 passed in 1s'\n"}
    )
    assert planned.call("deliverable", "done", "Formatter").code == 0
    assert planned.call("deliverable", "start", "Command").code == 0
    again = planned.call("deliverable", "done", "Formatter", "--json")
    assert (again.code, again.document["changed"], again.document["commit"]) == (0, [], None)
    assert (planned.home / "ran").read_text() == "x\n"
    assert planned.call("deliverable", "done", "Formatter", "--verify").code == 0
    assert (planned.home / "ran").read_text() == "x\nx\n"


READING = "Read the reports under `.taskers/runs/` and settle what is pending"
RUN = "Run the second phase: `orchestrate run phase-2`"


def force(planned):
    """Complete the current phase as it is, with the user's word; it is the last one."""
    items = PLAN.replace("- [ ] New thing", f"- [ ] New thing\n- [ ] {RUN}\n- [ ] {READING}")
    items = items.replace("- [ ] Command line\n", "- [ ] Command line (NEXT)\n")
    planned.commit({"STATUS.md": items[: items.index("### Phase 3")] + items[items.index("## Progress") :]})
    options = ("--force", "--reason", "we stop here", "--no-verify", "--json")
    asked = planned.call("phase", "complete", *options).document["when_approved"]
    planned.call(*shlex.split(asked.replace("NAME", "Ada"))[1:])
    called = planned.call("phase", "complete", *options)
    assert called.code == 0, called
    return called.document


def test_the_last_phase_that_is_left_so_says_what_it_ticked_and_not_that_the_plan_is_done(planned):
    force(planned)
    entry = (planned.root / "DECISIONS.md").read_text().partition("Phase 2: Core is complete")[2]
    assert "- Neutral: it was the last phase of the plan\n- Negative: left open: deliverable" in entry
    assert "the plan is done" not in entry
    said = planned.git("show", "-s", "--format=%B")
    assert f"\n- Ticked: {RUN}\n" in said
    # Whoever leaves work open has not read every report for that.
    assert READING not in said
    assert f"- [ ] {READING}\n" in (planned.root / "STATUS.md").read_text()


def test_a_phase_that_is_left_so_has_not_reached_its_milestone_in_any_place(planned):
    document = force(planned)
    assert document["progress"]["Overall"] == "50% (1/2 milestones complete)"
    assert "(1/2 milestones complete)" in planned.git("show", "-s", "--format=%B")
    text = (planned.root / "STATUS.md").read_text()
    assert "- [ ] Command line (PLANNED)\n" in text
    report = planned.call("report", "--json").document["report"]["progress"]
    (mark,) = [one for one in report["milestones"] if one["name"] == "Parser usable"]
    assert (mark["done"], mark["status"]) == (False, "IN PROGRESS")
    shown = {"phase": TWO, "milestone": "Parser usable", "percent": 50, "reached": False}
    assert shown in planned.call("milestone", "list", "--json").document["milestones"]
    assert not [
        one for one in planned.call("validate", "--json").document["problems"] if "figure" in one["what"]
    ]


def test_an_answer_is_written_once_and_the_newest_counts(planned):
    assert planned.call("approve", "technology-database", "--by", "Ada").code == 0
    again = planned.call("approve", "technology-database", "--by", "Ada", "--json").document
    assert (again["changed"], again["commit"]) == ([], None)
    assert planned.call("approve", "technology-database", "--by", "Ada", "--reject").code == 0
    third = planned.call("approve", "technology-database", "--by", "Ada", "--json").document
    assert third["changed"] == ["DECISIONS.md"]
    for gate in ("techology", "phase-9", "pool", "pool-9", "pool-many", "first-plan-2", "--json"):
        assert planned.call("approve", gate, "--by", "Ada", "--json").code == 2
    assert planned.call("approve", "scope", "--json").code == 2
    assert (
        planned.call("approve", "pool-20", "--by", "Ada", "--json").document["approval"]["gate"] == "pool-20"
    )


def test_a_worker_cannot_approve(planned):
    before = (planned.root / "DECISIONS.md").read_text()
    done = planned.call("approve", "phase-3", "--by", "Ada", env={"ORCHESTRATE_WORKER": "Codex-Worker-1"})
    assert done.code == 2
    assert "this is a worker" in done.err
    assert (planned.root / "DECISIONS.md").read_text() == before


@pytest.mark.parametrize("name", ["NAME", "name", "<name>", "USER", "your name", "the user", "..."])
def test_a_placeholder_approves_nothing(planned, name):
    before = planned.everything()
    called = planned.call("approve", "phase-3", "--by", name, "--json")
    assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (2, None, "user")
    assert "is no name" in called.says()[0]
    assert planned.everything() == before


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "AI_AGENT"])
def test_an_approval_from_inside_an_agents_environment_is_marked(planned, variable):
    told = planned.call("approve", "phase-3", "--by", "Ada", "--json", env={variable: "1"})
    assert (told.code, told.document["approval"]["inside"]) == (0, variable)
    assert "the entry says so" in told.says()[0]
    entry = (planned.root / "DECISIONS.md").read_text().partition("Gate phase-3: approved by Ada")[2]
    mark = f"- Negative: entered from inside an agent's environment ({variable}), perhaps without them\n"
    assert mark in entry
    assert planned.call("approve", "phase-2", "--by", "Ada", "--json").document["approval"]["inside"] is None


def test_after_an_approval_comes_the_command_that_waited_with_its_options(planned):
    options = ("--force", "--reason", "we stop here", "--no-verify")
    asked = planned.call("phase", "complete", *options, "--lead", "Grace", "--json").document
    call = shlex.split(asked["when_approved"].replace("NAME", "Ada"))
    told = planned.call(*call[1:], "--json")
    assert told.code == 0
    words = shlex.split(told.document["next_action"])
    assert words[:3] == ["orchestrate", "phase", "complete"]
    assert words[3:7] == list(options)
    assert words[7:9] == ["--lead", "Grace"]
    assert planned.call(*words[1:], "--json").document["ended"] == TWO
