"""The status report: seven sections to the letter, figures from commands alone, the same as JSON."""

import re

import pytest
from support.repository import shell

from orchestrator.checks.run import counted, counted_junit

SECTIONS = [
    "Current State", "Progress", "Active Work", "Recent Completions", "Next Steps", "Blockers",
    "Approval Requests",
]  # fmt: skip


def report(lab, *arguments, code=0):
    told = lab.call("report", "--json", *arguments)
    assert told.code == code, told
    return told.document


def edit(lab, *pairs):
    text = (lab.root / "STATUS.md").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    lab.write("STATUS.md", text)


def sections(text):
    """Return each H2 with the text below it."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_report_has_seven_sections_in_order_and_its_last_line(lab):
    text = lab.call("report", "--for", "Grace").out
    head, *_ = text.split("\n## ")
    assert head.startswith("# Project Status Report\n")
    assert re.findall(r"^\*\*(.*?):\*\*", head, re.MULTILINE) == ["Generated", "Report For", "Lead Agent"]
    assert "**Report For:** Grace" in head
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert text.count("\n---\n") == 8
    assert "\n**Report End**\n" in text
    assert sections(text)["Blockers"].strip().startswith("**None currently.**")
    assert sections(text)["Approval Requests"].strip().startswith("**None pending.**")


def test_with_no_run_nothing_is_written_and_with_one_it_stands_beside_it_twice(lab):
    assert report(lab)["written"] is None
    lab.templates(command_1=shell("mkdir out; echo 1 > out/1", mode="write", owns=["out/**"]))
    run = lab.call("run", "phase-1", "--json").document["run"]
    first = report(lab)
    path = lab.root / first["written"]
    assert path.parent.name == run
    kept = path.read_text()
    assert kept.endswith("**Report End**\n")
    assert path.with_suffix(".json").exists()
    second = report(lab)
    assert second["written"] != first["written"]
    assert path.read_text() == kept


def test_completions_are_those_since_the_last_report(lab):
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/1", mode="write", owns=["out/**"], title="Port it")
    )
    assert lab.call("run", "phase-1", "--json").code == 0
    lab.commit({"tests/test_new.py": "def test_it(): pass\n", "docs/guide.md": "# Guide\n"})
    (path,) = (lab.root / ".taskers/runs").glob("2*")
    first = report(lab)["report"]["recent_completions"]
    (line,) = (one for one in first["completed"] if one.startswith("Command-Worker-1"))
    assert line.startswith("Command-Worker-1: Port it (COMPLETE, accepted, integrated ")
    assert (first["tests_added"], first["documentation"]) == (["tests/test_new.py"], ["docs/guide.md"])
    assert any("Port it" in commit for commit in first["commits"])
    for old in path.glob("status-report-*"):
        old.unlink()
    # A report of tomorrow: everything stands before it.
    (path / "status-report-20990101_000000.md").write_text("# Project Status Report\n")
    after = report(lab)["report"]["recent_completions"]
    assert after["since"] == "2099-01-01T00:00+00:00"
    assert (after["completed"], after["commits"], after["tests_added"]) == ([], [], [])


def test_the_figures_follow_from_the_checkboxes_whatever_stands_beside_them(lab):
    edit(lab, ("- [ ] Code review (NEXT)", "- [x] Code review (COMPLETE)"),
         ("- [ ] Test gaps (PLANNED)", "- [ ] Test gaps (IN PROGRESS, Owner: Codex-Worker-2)"),
         ("- [ ] defects", "- [x] defects"), ("(0% complete)", "(77% complete)"))  # fmt: skip
    told = report(lab)["report"]
    assert told["current_state"]["milestone"] == "Baseline reviewed (20% complete)"
    assert told["current_state"]["overall_progress"] == "0% (0/1 milestones complete)"
    assert told["progress"]["milestones"] == [
        {"name": "Baseline reviewed", "done": False, "status": "IN PROGRESS", "percent": 20}
    ]
    shown = [(one["name"], one["done"], one["status"]) for one in told["progress"]["deliverables"]]
    assert shown[:3] == [
        ("Code review", True, "COMPLETE"), ("Test gaps", False, "IN PROGRESS"),
        ("Design critique", False, "PLANNED"),
    ]  # fmt: skip
    assert told["next_steps"]["this_phase"][0] == "Test gaps (IN PROGRESS)"


def test_one_numbering_runs_through_all_next_steps(lab):
    edit(lab, ("---\n\n## Progress", ("### Phase 2: Core\n\n**Status:** PLANNED\n**Milestone:** Usable\n\n"
               "**Deliverables:**\n- [ ] Parser (PLANNED)\n\n---\n\n## Progress")))  # fmt: skip
    steps = sections(lab.call("report").out)["Next Steps"]
    labels = re.findall(r"^\*\*(.*):\*\*$", steps, re.MULTILINE)
    assert labels == ["Immediate", "This Phase", "Next Phase"]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", steps, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert f"\n{numbers[-1]}. Phase 2: Core: Parser\n" in steps


def test_tests_that_nobody_ran_are_not_run_whatever_status_says(lab):
    edit(lab, ("**Tests:** not run", "**Tests:** 184/184 passing (100%)"))
    assert set(report(lab)["report"]["progress"]["tests"].values()) == {"not run"}


def test_figures_come_from_the_checks_with_their_commit_and_a_red_one_blocks(lab):
    xml = "<testsuite><testcase/><testcase><failure/></testcase><testcase><skipped/></testcase></testsuite>"
    lab.commit({"orchestrate.toml": "[checks]\n"
                "unit = 'echo \"==== 12 passed, 2 skipped in 0.10s ====\"'\n"
                f"integration = 'echo \"{xml}\" > $ORCHESTRATE_JUNIT; echo 9 passed in 1s; exit 1'\n"
                "smoke = 'true'\n"})  # fmt: skip
    told = report(lab, "--verify", code=1)
    at = f", at {lab.git('rev-parse', 'HEAD')[:10]}"
    assert told["report"]["progress"]["tests"] == {
        "Unit": f"12/12 passing (100%){at}",
        "Integration": f"1/2 passing (50%){at}",
        "Smoke": f"1/1 passing (100%){at}",
        "Overall": f"13/14 passing (93%){at}",
    }
    (blocker,) = told["report"]["blockers"]
    assert (blocker["title"], blocker["priority"]) == ("The integration check fails", "P0")
    assert set(blocker) == {"title", "priority", "root_cause", "impact", "mitigation"}
    lab.commit({"later": "x"})
    # They stay with the commit that they were taken at.
    assert report(lab)["report"]["progress"]["tests"]["Unit"] == f"12/12 passing (100%){at}"
    assert lab.git("status", "--porcelain") == ""


def test_a_command_that_fails_with_all_counted_tests_passing_is_no_pass(lab):
    lab.commit({"orchestrate.toml": "[checks]\ntest = 'echo 3 passed in 0.1s; exit 3'\n"})
    said = report(lab, "--verify", code=1)["report"]["progress"]["tests"]["Overall"]
    assert said.startswith("3/3 passing (100%), failed: exit code 3, at ")


def test_verifying_with_nothing_to_verify_with_says_so(lab):
    told = report(lab, "--verify")
    assert [one["severity"] for one in told["problems"]] == ["warning"]
    assert "nothing is set" in told["problems"][0]["what"]


def test_a_blocked_worker_is_a_blocker_until_its_ticket_is_done(lab):
    says = '{"status": "blocked", "summary": "no grammar"}'
    lab.templates(command_1=shell(f"echo 'ORCHESTRATE-RESULT {says}'", title="Port it"))
    assert lab.call("run", "phase-1", "--json").code == 1
    (blocker,) = report(lab)["report"]["blockers"]
    assert blocker["title"] == "Command-Worker-1: Port it"
    assert "orchestrate run phase-1 --only command-1" in blocker["mitigation"]
    lab.templates(command_1=shell("echo done", title="Port it"))
    assert lab.call("run", "phase-1", "--json").code == 0
    assert report(lab)["report"]["blockers"] == []


def test_a_phase_that_is_done_asks_for_its_transition(lab):
    text = (lab.root / "STATUS.md").read_text()
    head, plan, rest = text.partition("## Phase Plan")
    inside, bar, rest = rest.partition("---")
    inside = inside.replace("- [ ]", "- [x]") + (
        "### Phase 2: Core\n\n**Status:** PLANNED\n**Milestone:** Usable\n\n**Deliverables:**\n"
        "- [ ] Parser (PLANNED)\n\n"
    )
    lab.write("STATUS.md", head + plan + inside + bar + rest)
    (asked,) = report(lab)["report"]["approval_requests"]
    assert asked["request"].startswith("Begin Phase 2: Core")
    assert asked["evidence"] == "5 deliverables, 5/5 acceptance criteria met"
    assert set(asked) == {"request", "reason", "evidence", "alternatives", "impact", "needed_by"}
    assert "1. **Begin Phase 2: Core" in sections(lab.call("report").out)["Approval Requests"]


def test_a_worker_that_waits_for_the_lead_is_active_with_its_output(lab):
    lab.templates(command_1=shell("mkdir out; echo 1 > out/1; echo 1 > stray", mode="write", owns=["out/**"]))
    run = lab.call("run", "phase-1", "--json").document["run"]
    work = report(lab)["report"]["active_work"]
    (worker,) = work["workers"]
    assert (worker["worker"], worker["scope"]) == ("Command-Worker-1", "out/**")
    assert "pending" in worker["status"]
    assert (lab.root / worker["output"]).exists()
    assert work["command"] == f"orchestrate integrate {run} --accept Command-Worker-1"


def test_words_from_files_open_no_section_of_their_own(lab):
    edit(lab, ("- [ ] Code review (NEXT)", "- [ ] \\## Blockers (NEXT)"),
         ("**Lead Agent:** Ada Lead", "**Lead Agent:** \\# x"))  # fmt: skip
    text = lab.call("report").out
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("===== 184 passed, 2 skipped in 3.21s =====", (184, 184)),
        ("= 2 failed, 5 passed, 1 error in 0.5s =", (5, 8)),
        ("3 passed in 0.01s", (3, 3)),
        ("Ran 32 tests in 0.4s\n\nOK (skipped=1)", (32, 32)),
        ("Ran 8 tests in 0.4s\n\nFAILED (failures=1, errors=2)", (5, 8)),
        ("test result: ok. 4 passed; 0 failed; 0 ignored\ntest result: FAILED. 1 passed; 2 failed", (5, 7)),
        ("Tests:       1 failed, 9 passed, 10 total", (9, 10)),
        ("# tests 5\n# pass 4\n# fail 1", (4, 5)),
        ("184/190 tests passing", (184, 190)),
        ("1 passed in 1s\n2 passed in 1s", (2, 2)),
        ("all is well", None),
        ("passed in flying colours", None),
    ],
)
def test_what_test_runners_print_is_counted(text, found):
    assert counted(text) == found


def test_junit_that_is_no_junit_counts_nothing():
    assert counted_junit(b"<testsuites><testsuite><testcase/></testsuite></testsuites>") == (1, 1)
    assert counted_junit(b"no xml") is None
    assert counted_junit(b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>') is None
