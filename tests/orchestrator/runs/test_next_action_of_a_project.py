"""The next command that a command names, followed by a caller who knows nothing else."""

import json
import shlex
import time

import pytest
from support.repository import shell, template
from support.runtimes import PATIENCE


def test_a_phase_that_was_run_is_not_proposed_once_more(lab):
    lab.templates(command_1=template(deliverable=None))
    for command in ("status", "resume"):
        assert lab.call(command, "--json").document["next_action"] == "orchestrate plan phase-1"
    assert lab.call("run", "phase-1", "--json").code == 0
    for command in ("status", "resume"):
        told = lab.call(command, "--json").document
        assert (told["next_action"], told["waiting_for"]) == (None, "lead")


def test_a_phase_of_which_some_tickets_were_chosen_is_run_once_all_of_them_are(lab):
    lab.templates(command_1=template(), command_2=template(), command_3=template())
    item = "- [{}] Run the first phase"
    for name in ("command-1", "command-2"):
        assert lab.call("run", "phase-1", "--only", name, "--json").code == 0
        assert item.format(" ") in (lab.root / "STATUS.md").read_text()
    assert lab.call("run", "phase-1", "--only", "command-3", "--json").code == 0
    assert item.format("x") in (lab.root / "STATUS.md").read_text()


ASKED = (("status",), ("resume",), ("report",), ("handoff", "--check"))


def test_all_who_are_asked_name_the_same_step_and_no_phase_that_is_complete(lab):
    lab.templates(command_1=template())
    reason = ("phase", "complete", "--force", "--reason", "we stop here", "--no-verify", "--json")
    assert lab.call("phase", "add", "Core", "--milestone", "It works", "--json").code == 0
    blocked = lab.call(*reason)
    if blocked.code == 4:
        assert (
            lab.call("approve", blocked.document["when_approved"].split()[2], "--by", "Ada", "--json").code
            == 0
        )
        assert lab.call(*reason).code == 0
    assert {lab.call(*one, "--json").document["next_action"] for one in ASKED} == {None}
    assert "Run the first phase" not in lab.call("status").out
    lab.templates(command_2=template(phase="phase-2"))
    assert {lab.call(*one, "--json").document["next_action"] for one in ASKED} == {"orchestrate plan phase-2"}


def test_what_a_killed_command_had_decided_is_completed_before_anything_else(lab):
    lab.templates(command_1=template())
    intent = lab.root / ".git/orchestrate/intent.json"
    assert lab.call("todo", "add", "Look at it", "--json").code == 0
    intent.write_text(json.dumps({"moves": [], "commit": None}))
    for one in (("status",), ("report",), ("handoff", "--check")):
        told = lab.call(*one, "--json").document
        assert told["next_action"] == "orchestrate resume", one
        assert "intent.json" in [problem["place"] for problem in told["problems"]], one
    told = lab.call("resume", "--json").document
    assert (len(told["repaired"]), told["problems"], intent.exists()) == (1, [], False)
    assert {lab.call(*one, "--json").document["next_action"] for one in ASKED} == {"orchestrate plan phase-1"}


def test_a_run_of_another_phase_that_goes_on_is_waited_for_and_one_that_was_cancelled_is_settled(lab):
    lab.templates(
        command_1=shell("mkdir -p out; echo 1 > out/1", phase="phase-7", mode="write", owns=["out/**"]),
        command_2=shell("echo begun; sleep 60", phase="phase-7", timeout="60s"),
    )
    run = lab.call("deploy", "phase-7", "--detach", "--json").document["run"]
    try:
        for one in ASKED:
            told = lab.call(*one, "--json").document
            assert told["next_action"].startswith(f"orchestrate wait {run} --timeout 90 --since "), one
        journal = lab.root / ".taskers/runs" / run / "events.jsonl"
        deadline = time.monotonic() + PATIENCE
        while '"ended"' not in journal.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        cancelled = lab.call("cancel", run, "--json")
    assert cancelled.code == 0
    said = cancelled.document["next_action"]
    assert said == f"orchestrate integrate {run}"
    assert {lab.call(*one, "--json").document["next_action"] for one in ASKED} == {said}
    assert lab.call(*said.split()[1:], "--json").document["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "1\n"
    assert said not in {lab.call(*one, "--json").document["next_action"] for one in ASKED}


def test_who_failed_is_named_and_their_output_comes_next(lab):
    lab.templates(command_1=template(), command_2=shell("echo broken >&2; exit 3"))
    called = lab.call("run", "phase-1", "--json")
    run = called.document["run"]
    assert f"`orchestrate logs {run} Command-Worker-2` shows why" in called.document["what"]
    assert lab.call("status", "--json").document["what"] == called.document["what"]
    assert "1 failed (Command-Worker-2)" in " ".join(lab.call("status").out.split())
    logs = lab.call("logs", run, "Command-Worker-2")
    assert (logs.code, logs.out) == (0, "")
    assert "--stderr" in logs.err
    assert lab.call("logs", run, "Command-Worker-2", "--stderr").out == "broken\n"


def test_who_waits_for_a_gate_that_was_red_before_is_not_to_be_accepted_once_more(lab):
    lab.commit({"orchestrate.toml": '[integration]\ngate = ["test -e mended"]\n'})
    lab.templates(command_1=shell("mkdir -p out; echo 1 > out/1", mode="write", owns=["out/**"]))
    called = lab.call("run", "phase-1")
    assert called.code == 1
    assert "--accept" not in called.out
    told = lab.call("status", "--json").document
    run = told["runs"][0]["run"]
    assert told["next_action"] is None
    assert told["what"].endswith(f"fix that, then `orchestrate integrate {run}` (or `--reject`)")
    assert "pending: Command-Worker-1" in " ".join(lab.call("status").out.split())
    lab.commit({"mended": "yes\n"})
    assert lab.call("integrate", run, "--json").document["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "1\n"
    subjects = lab.git("log", "--format=%s").splitlines()
    assert (subjects[0], subjects.count(f"Integrated run {run} (phase-1)")) == (
        f"Settled run {run} (phase-1)", 1,
    )  # fmt: skip


def test_the_roster_is_not_active_once_its_workers_have_ended(lab):
    lab.templates(command_1=template())
    assert lab.call("deploy", "phase-1", "--json").code == 0
    assert lab.call("status", "--json").document["active_workers"]
    assert "active " not in lab.call("status").out


def test_what_an_agent_said_is_read_line_by_line_and_told_once(lab, tmp_path):
    lab.have_fake_claude(tmp_path / "fakes")
    told = '<<fake {"do": "answer", "text": "First.\\n\\n  Second."}>>'
    lab.templates(claude_1=template(None, agent="claude") + told + "\n")
    run = lab.call("run", "phase-1", "--json").document["run"]
    lines = lab.call("logs", run, "claude-1").out.splitlines()
    first = lines.index("First.")
    assert lines[first : first + 3] == ["First.", "", "  Second."]
    assert lines[-1] == "end"
    records = [json.loads(line) for line in lab.call("logs", run, "claude-1", "--json").out.splitlines()]
    assert [one["kind"] for one in records if "Second." in one["text"]] == ["text", "end"]


def test_logs_of_a_fan_out_name_one_that_can_be_asked_for(lab):
    lab.templates(command_1=shell("echo {{ matrix.n }}", matrix={"n": ["a b", "c"]}))
    run = lab.call("run", "phase-1", "--json").document["run"]
    refused = lab.call("logs", run, "command-1", "--json")
    assert refused.code == 2
    again = lab.call(*shlex.split(refused.document["next_action"])[1:])
    assert (again.code, again.out) == (0, "a b\n")


def test_plan_says_once_that_a_ticket_is_skipped(lab):
    lab.templates(gemini_1=template(None, agent="gemini"), command_1=template())
    told = lab.call("plan", "phase-1")
    assert told.code == 0
    assert told.out.count("gemini is disabled") == 1
    document = lab.call("plan", "phase-1", "--json").document
    assert [one["place"] for one in document["problems"] if "skipped" in one["what"]] == ["gemini-1"]


@pytest.mark.parametrize("name", ["Phase 2: Core", "phase 2 - Core", "Core"])
def test_a_phase_is_given_its_number_once(lab, name):
    called = lab.call("phase", "add", name, "--milestone", "It works", "--json")
    assert called.document["added"]["title"] == "Phase 2: Core"


def test_ps_counts_apart_who_is_between_two_attempts(lab, tmp_path):
    lab.have_fake_claude(tmp_path / "fakes")
    limited = '<<fake {"do": "limit", "kind": "quota", "seconds": 600}>>'
    lab.templates(claude_1=template(None, agent="claude") + limited + "\n")
    run = lab.call("deploy", "phase-1", "--detach", "--json").document["run"]
    try:
        deadline = time.monotonic() + PATIENCE
        while "to retry" not in (said := lab.call("ps").out):
            assert time.monotonic() < deadline, said
        assert f"run {run} (phase-1) running: 0 running, 1 to be tried again" in " ".join(said.split())
        told = lab.call("ps", "--json").document["runs"][0]
        assert (told["running"], told["retrying"]) == (0, 1)
        assert lab.call("status", "--json").document["runs"][0]["outcomes"] == {"retrying": 1}
    finally:
        assert lab.call("cancel", run).code == 0
    waited = lab.call("wait", run, "--timeout", "30", "--json")
    assert waited.document["status"] in ("finished", "cancelled")


def test_a_template_of_a_phase_that_nobody_planned_is_found_before_it_is_missed(lab):
    lab.templates(command_1=template(), command_2=template(phase="phase-22"))
    called = lab.call("validate", "--json")
    assert called.code == 0
    assert [said for said in called.says() if "no phase" in said] == [
        (
            "docs/worker-ticket-templates/command-2.md: STATUS.md has no phase that `phase-22` names; "
            "correct it, or add it to the plan: `orchestrate phase add`"
        )
    ]


def test_a_ticket_that_was_done_and_fails_when_run_again_is_named_with_the_option_and_hides_nothing(lab):
    lab.templates(command_1=shell("test ! -e broken"), command_2=shell("test ! -e broken"))
    assert lab.call("run", "phase-1", "--json").code == 0
    assert lab.call("deliverable", "done", "Code review", "--no-verify").code == 0
    lab.commit({"broken": ""})
    told = lab.call("run", "phase-1", "--again", "--json")
    call = "orchestrate run phase-1 --only command-1 command-2 --again"
    assert told.code == 1
    assert f"`{call} --detach` runs it again" in told.document["what"]
    said = lab.call("status", "--json").document["what"]
    assert said.startswith("nothing is under way; Phase 1: Review has ")
    run = told.document["run"]
    assert (
        f"; run again, Command-Worker-1 and 1 more failed: `orchestrate logs {run} Command-Worker-1`" in said
    )
    told = lab.call(*call.split()[1:], "--json")
    assert [one["ticket"] for one in told.document["workers"]] == ["command-1", "command-2"]
    plan = (lab.root / "STATUS.md").read_text().replace("- [ ] ", "- [x] ")
    lab.commit({"STATUS.md": plan})
    assert "`orchestrate phase complete --detach`" in lab.call("status", "--json").document["what"]
    lab.git("rm", "--quiet", "broken")
    lab.git("commit", "--quiet", "--message=mended")
    assert lab.call(*call.split()[1:], "--json").code == 0
    assert "failed" not in lab.call("status", "--json").document["what"]
