"""A run proposes to complete the deliverables of which all tickets are done."""

from support.judgement import integrate, message_of, run
from support.repository import shell


def test_a_run_proposes_what_is_finished_and_each_proposal_leads_to_the_next(lab):
    lab.templates(
        command_1=shell("true", deliverable="Code review"),
        command_2=shell("true", deliverable="Test gaps"),
        command_3=shell("test -e fixed", deliverable="Test gaps"),
        command_4=shell("true", deliverable="Checks"),
    )
    first = run(lab, 1)
    assert "all tickets are done of Code review, Checks" in message_of(first)
    lab.commit({"fixed": ""})
    second = run(lab)
    assert [one["ticket"] for one in second["workers"]] == ["command-3"]
    assert "all tickets are done of" not in message_of(second)
    assert second["next_action"] == "orchestrate deliverable done --finished --detach"
    lab.commit({"orchestrate.toml": '[checks]\ntest = "echo x >> ~/checked; echo 3 passed"\n'})
    called = lab.call("deliverable", "done", "--finished", "--json")
    assert called.code == 0, called
    assert called.document["progress"]["Current Phase"] == "60% (3/5 deliverables complete)"
    assert (lab.home / "checked").read_text() == "x\n"
    assert [one["name"] for one in called.document["deliverables"]] == ["Code review", "Test gaps", "Checks"]
    step = called.document["next_action"]
    assert step == "orchestrate deliverable start 'Design critique'"
    assert "deliverables" not in [one["place"] for one in run(lab, 0, "--again")["problems"]]


def test_all_that_is_finished_is_named(lab):
    lab.templates(
        command_1=shell("true", deliverable="Code review"), command_2=shell("true", deliverable="Checks")
    )
    run(lab)
    said = lab.call("deliverable", "done", "--finished", "--no-verify").out.splitlines()
    assert said[:2] == ["Deliverable complete: Code review", "Deliverable complete: Checks"]


def test_a_failed_worker_is_looked_at_before_a_deliverable_is_completed(lab):
    lab.templates(command_1=shell("true", deliverable="Checks"), command_2=shell("false"))
    document = run(lab, 1)
    assert "all tickets are done of Checks" in message_of(document)
    assert "deliverable done" not in (document["next_action"] or "")


def test_one_deliverable_is_proposed_by_name_and_finished_needs_some(lab):
    assert lab.call("deliverable", "done", "--finished").code == 2
    assert lab.call("deliverable", "done", "Checks", "--finished").code == 2
    assert lab.call("deliverable", "done").code == 2
    lab.templates(command_1=shell("true", deliverable="Checks"))
    assert run(lab)["next_action"] == "orchestrate deliverable done Checks --detach"


def test_only_what_a_template_names_is_finished_and_integrate_does_not_tick_the_plan(lab):
    lab.templates(
        command_1=shell("true", deliverable=None),
        command_2=shell("false", deliverable=None),
        command_3=shell("true", deliverable="Test gaps"),
    )
    document = run(lab, 1)
    assert "all tickets are done of Test gaps" in message_of(document)
    lab.templates(command_2=shell("true", deliverable=None))
    document = run(lab)
    assert document["next_action"] == "orchestrate deliverable done 'Test gaps' --detach"
    assert lab.call("deliverable", "done", "Test gaps", "--no-verify").code == 0
    for _ in range(2):
        assert integrate(lab, document)["next_action"] == "orchestrate status"
    listed = lab.call("deliverable", "list", "--json").document["deliverables"]
    assert [one["name"] for one in listed if one["done"]] == ["Test gaps"]


def test_after_a_detached_run_wait_and_status_name_the_finished_deliverable_until_it_is_done(lab):
    lab.templates(command_1=shell("true", deliverable="Checks"))
    started = lab.call("run", "phase-1", "--detach", "--json").document
    for form in ((), ("--since", "0")):
        waited = lab.call("wait", started["run"], *form, "--timeout", "60", "--json")
        assert (waited.code, waited.document["status"]) == (0, "integrated")
        assert waited.document["next_action"] == "orchestrate deliverable done Checks --detach"
    assert (
        lab.call("status", "--json").document["next_action"] == "orchestrate deliverable done Checks --detach"
    )
    assert lab.call("deliverable", "done", "Checks", "--no-verify").code == 0
    assert lab.call("status", "--json").document["next_action"] is None
    assert lab.call("wait", started["run"], "--json").document["next_action"] == "orchestrate status"


def test_a_deliverable_whose_tests_fail_waits_for_the_lead(lab):
    lab.templates(command_1=shell("true", deliverable="Checks"))
    lab.commit({"orchestrate.toml": '[checks]\ntest = "exit 3"\n'})
    run(lab)
    called = lab.call("deliverable", "done", "Checks", "--json")
    assert (called.code, called.document["waiting_for"]) == (1, "lead")
    assert "`exit 3` failed" in called.document["what"]
    nothing = lab.call("deliverable", "done", "--finished", "--phase", "1", "--json")
    assert nothing.document["waiting_for"] == "lead"
