"""Tickets that another run helps (cancelled, broke the gate, skipped too early): the named command."""

import shlex

from support.gates import call, gate, out, verdicts, writer
from support.repository import TEMPLATES, shell
from support.runtimes import journal, wait_until


def follow(lab, command):
    """Call the next command that a document names; return the outcome of each ticket."""
    called = lab.call(*shlex.split(command)[1:], "--json")
    return {one["ticket"]: one["verdict"] for one in called.document["workers"]}


def test_who_breaks_the_gate_is_run_again_with_those_who_fell_with_it(lab):
    gate(lab, "! grep -qs bad out/1")
    lab.templates(
        command_1=writer(1, text="bad"), command_2=writer(2, depends_on=["command-1"]), command_3=writer(3)
    )
    document = call(lab, "run", "phase-1", code=1)
    again = "orchestrate run phase-1 --only command-1 command-2"
    assert document["next_action"] is None
    assert f"`{again} --detach`" in document["what"]
    (problem,) = document["problems"]
    assert problem["do"].startswith(f"run it again: {again}; or, where the gate or the branch is at fault, ")
    lab.templates(command_1=writer(1))
    assert follow(lab, again) == {"command-1": "accepted", "command-2": "accepted"}
    assert out(lab) == {"1", "2", "3"}


def test_who_was_cancelled_is_run_again_with_those_that_were_skipped_for_it(lives):
    lives.lab.templates(
        command_1=shell("true"), command_2=shell(f"{lives.waits}; true", timeout="5m"),
        command_3=shell("true", depends_on=["command-2"]),
    )  # fmt: skip
    run, _ = lives.detached()
    wait_until(lambda: [one for one in journal(run) if one["event"] == "ended"])
    assert lives.call("cancel", run.name, "Command-Worker-2", "--json").code == 0
    call(lives, "wait", run.name, code=1)
    document = call(lives, "integrate", run.name, code=1)
    assert verdicts(document) == {"command-1": "accepted", "command-2": "rejected", "command-3": None}
    again = "orchestrate run phase-1 --only command-2 command-3"
    assert (document["next_action"], document["waiting_for"]) == (None, "lead")
    assert f"`{again} --detach`" in lives.call("wait", run.name).out.splitlines()[-1]
    lives.lab.templates(command_2=shell("true"))
    assert follow(lives, again) == {"command-2": "accepted", "command-3": "accepted"}
    assert lives.living() == []


def test_who_was_skipped_for_a_worker_that_the_lead_accepts_later_can_be_run_now(lab):
    red = {"acceptance": ["test -e mended"]}
    lab.templates(
        command_1=writer(1, **red), command_2=writer(2, depends_on=["command-1"]),
        command_3=writer(3, depends_on=["command-2"]),
    )  # fmt: skip
    document = call(lab, "run", "phase-1", code=1)
    assert f"`orchestrate logs {document['run']} Command-Worker-1`" in document["what"]
    accepted = call(lab, "integrate", document["run"], "--accept", "Command-Worker-1", code=1)
    again = "orchestrate run phase-1 --only command-2 command-3"
    assert accepted["next_action"] == f"{again} --detach"
    freed = {one["place"]: (one["what"], one["do"], one["severity"]) for one in accepted["problems"]}
    assert freed["Command-Worker-2"] == (
        "was skipped before command-1, which it depends on, was accepted",
        f"run it now: {again}", "warning",
    )  # fmt: skip
    waited = lab.call("wait", "last", "--json").document
    assert [one["place"] for one in waited["problems"]] == ["Command-Worker-2"]
    lab.commit({"mended": ""})
    assert follow(lab, again) == {"command-2": "accepted", "command-3": "accepted"}
    assert out(lab) == {"1", "2", "3"}


def test_an_old_run_names_no_ticket_that_a_later_run_has_had_or_that_is_no_more(lab):
    lab.templates(command_1=shell("test -e fixed"), command_2=shell("exit 3"), command_3=shell("exit 3"))
    old = call(lab, "run", "phase-1", code=1)["run"]
    lab.git("rm", "--quiet", f"{TEMPLATES}/command-2.md")
    lab.commit({"fixed": ""})
    call(lab, "run", "phase-1", "--only", "command-1", code=0)
    for command in ("integrate", "wait"):
        told = call(lab, command, old, code=1)
        assert told["what"].endswith("`orchestrate run phase-1 --only command-3 --detach` runs it again")
    lab.git("rm", "--quiet", f"{TEMPLATES}/command-3.md")
    told = call(lab, "integrate", old, code=1)
    assert told["next_action"] == "orchestrate deliverable done 'Code review' --detach"


def test_a_run_that_is_cancelled_after_a_later_one_proposes_nothing_of_what_that_has_done(lives):
    lives.lab.templates(command_1=shell(f"test -e {lives.outside}/go || {lives.waits}"))
    old = lives.stopped()
    (lives.outside / "go").touch()
    call(lives.lab, "run", "phase-1", "--new", code=0)
    assert call(lives.lab, "cancel", old, code=0)["next_action"] == "orchestrate status"
