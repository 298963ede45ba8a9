"""What a command says comes next, followed as somebody would who knows nothing else."""

import runpy
from pathlib import Path

LAB = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
template, shell = LAB["template"], LAB["shell"]
lab, _pattern = LAB["lab"], LAB["_pattern"]


def test_a_phase_that_was_run_is_not_proposed_once_more(lab):
    lab.templates(command_1=template())
    for command in ("status", "resume"):
        assert lab.call(command, "--json").document["next_action"] == "orchestrate plan phase-1"
    assert lab.call("run", "phase-1", "--json").code == 0
    for command in ("status", "resume"):
        assert lab.call(command, "--json").document["next_action"] == "orchestrate todo list"


def test_who_failed_is_named_and_their_output_comes_next(lab):
    lab.templates(command_1=template(), command_2=shell("echo broken >&2; exit 3"))
    called = lab.call("run", "phase-1", "--json")
    run = called.document["run"]
    assert called.document["next_action"] == f"orchestrate logs {run} Command-Worker-2"
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
    assert told["next_action"] == f"orchestrate integrate {run}"
    assert "pending: Command-Worker-1" in " ".join(lab.call("status").out.split())
    lab.commit({"mended": "yes\n"})
    assert lab.call(*told["next_action"].split()[1:], "--json").document["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "1\n"


def test_the_roster_is_not_active_once_its_workers_have_ended(lab):
    lab.templates(command_1=template())
    assert lab.call("deploy", "phase-1", "--json").code == 0
    assert lab.call("status", "--json").document["active_workers"]
    assert "active " not in lab.call("status").out
