"""A run proposes to complete the deliverables of which all tickets are done."""

import shlex

from support.judgement import message_of, run
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
    assert "all tickets are done of Code review, Test gaps, Checks" in message_of(second)
    step, done = second["next_action"], []
    while " deliverable done " in step:
        done.append(shlex.split(step)[3])
        step = lab.call(*shlex.split(step)[1:], "--json").document["next_action"]
    assert done == ["Code review", "Test gaps", "Checks"]
    assert step == "orchestrate deliverable start 'Design critique'"
    assert "deliverables" not in [one["place"] for one in run(lab, 0, "--again")["problems"]]


def test_a_failed_worker_is_looked_at_before_a_deliverable_is_completed(lab):
    lab.templates(command_1=shell("true", deliverable="Checks"), command_2=shell("false"))
    document = run(lab, 1)
    assert "all tickets are done of Checks" in message_of(document)
    assert "deliverable done" not in (document["next_action"] or "")
