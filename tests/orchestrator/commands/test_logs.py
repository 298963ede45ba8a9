"""What `logs` shows a reader who asks why a worker's work was not accepted."""

import json

from support.repository import shell, template

WRITES = {"mode": "write", "owns": ["out/**"]}
WRITE = "mkdir -p out; echo 1 > out/1"


def run(lab, *more):
    """Run the phase, as far as it goes."""
    return lab.call("run", "phase-1", "--json", *more).document


def test_a_silent_worker_that_failed_its_acceptance_is_explained(lab):
    lab.templates(command_1=shell(WRITE, acceptance=["echo one thing is missing; exit 3"], **WRITES))
    told = run(lab)
    assert f"`orchestrate logs {told['run']} Command-Worker-1` shows why" in told["what"]
    logs = lab.call("logs", told["run"], "Command-Worker-1")
    assert (logs.code, logs.out) == (0, "")
    assert "Command-Worker-1 printed nothing" in logs.err
    assert "ended as failed, rejected: acceptance failed: `echo one thing is missing; exit 3`" in logs.err
    assert "checks/Command-Worker-1.acceptance-1.stdout ends with:\n    one thing is missing\n" in logs.err
    as_json = lab.call("logs", told["run"], "command-1", "--json").out.splitlines()
    assert {"kind": "check", "text": "one thing is missing"} in [json.loads(line) for line in as_json]


def test_a_worker_whom_the_gate_rejects_is_shown_what_the_gate_printed(lab):
    lab.commit(
        {"orchestrate.toml": '[integration]\ngate = ["if test -e out/1; then echo broken >&2; false; fi"]\n'}
    )
    lab.templates(command_1=shell(WRITE, **WRITES))
    logs = lab.call("logs", run(lab)["run"], "Command-Worker-1")
    assert "ended as complete, rejected" in logs.err
    assert "    broken\n" in logs.err


def test_a_worker_that_failed_is_shown_with_the_size_of_what_it_printed_on_the_other_stream(lab):
    lab.templates(command_1=shell("echo 2 tests; echo why >&2; exit 3"))
    logs = lab.call("logs", run(lab)["run"], "command-1")
    assert "`--stderr` shows 4 bytes more" in logs.err


def test_nothing_is_added_to_the_words_of_a_worker_that_ended_well(lab):
    lab.templates(command_1=shell("echo fine"))
    logs = lab.call("logs", run(lab)["run"], "command-1")
    assert (logs.code, logs.out, logs.err) == (0, "fine\n", "")


def test_logs_without_a_worker_list_those_there_are_and_a_wrong_name_leads_there(lab):
    lab.templates(command_1=template(), command_2=shell("exit 3"))
    name = run(lab)["run"]
    refused = lab.call("logs", name, "nobody", "--json")
    assert "its workers: Command-Worker-1, Command-Worker-2" in refused.says()[0]
    called = lab.call(*refused.document["next_action"].split()[1:], "--json")
    assert called.code == 0
    assert [(one["worker"], one["outcome"]) for one in called.document["workers"]] == [
        ("Command-Worker-1", "complete"), ("Command-Worker-2", "failed"),
    ]  # fmt: skip
    assert called.document["next_action"] == "orchestrate status"


def test_a_later_attempt_says_that_there_was_one_before(lab, tmp_path):
    lab.have_fake_claude(tmp_path / "fakes")
    lacks = '<<fake {"do": "unreported", "lacks": "Status"}>>'
    lab.templates(claude_1=template(None, agent="claude") + lacks + "\n")
    name = run(lab)["run"]
    assert (
        "this is attempt 2 of 2; `--attempt 1` shows the one before" in lab.call("logs", name, "claude-1").err
    )
    assert "attempt 2" not in lab.call("logs", name, "claude-1", "--attempt", "1").err
