"""What packed runs have done stays done: nobody is paid for it twice, and dependents see its output."""

import pytest
from support.old_runs import ARCHIVE, RUNS, archive, archives, listed
from support.repository import shell, template


@pytest.fixture
def done(lab):
    """Return a project whose ticket that only reads is done by a packed run, and that run's id."""
    lab.templates(
        command_1=shell("echo four faults; test ! -e fails"), command_2=shell("echo no; echo in vain; exit 3")
    )
    run = lab.call("run", "phase-1", "--json").document["run"]
    lab.templates(command_9=template(("true",), phase="phase-2"))
    assert lab.call("run", "phase-2", "--json").code == 0
    archive(lab, "--keep", "1")
    assert run not in listed(lab.root / RUNS)
    return lab, run


def test_a_ticket_that_a_packed_run_has_done_is_not_run_again(done):
    lab, run = done
    plan = lab.call("plan", "phase-1", "--json").document
    assert {one["ticket"]: one["done"] and one["done"]["run"] for one in plan["tickets"]} == {
        "command-1": run,
        "command-2": None,
    }


def test_a_dependent_of_packed_work_sees_its_output_and_a_rejected_ticket_its_reason(done):
    lab, _ = done
    body = '---\nagent: command\nphase: phase-1\ntitle: Next\ndeliverable: Code review\ncommand: ["cat"]\n'
    body += 'depends_on: [command-1]\n---\n# {{ worker }}\n\nIt said {{ outputs["command-1"] }}.\n'
    lab.commit({"docs/worker-ticket-templates/command-3.md": body})
    document = lab.call("run", "phase-1", "--json").document
    said = {one["ticket"]: one for one in document["workers"]}
    assert set(said) == {"command-2", "command-3"}
    assert "\nfour faults\n" in (lab.root / said["command-3"]["output"]).read_text()

    ticket = lab.root / RUNS / document["run"] / "tickets" / f"{said['command-2']['worker']}.md"
    assert "in vain" in ticket.read_text()


def test_a_packed_run_that_is_deleted_has_done_nothing(done):
    lab, run = done
    assert listed(lab.root / ARCHIVE) == archives(run)
    archive(lab, "--delete-packed", "--older-than", "0h")
    assert listed(lab.root / ARCHIVE) == []
    plan = lab.call("plan", "phase-1", "--json").document
    assert [one["done"] for one in plan["tickets"]] == [None, None]


def test_what_a_run_has_done_is_forgotten_with_an_archive_that_somebody_took_away(done):
    lab, run = done
    (lab.root / ARCHIVE / f"{run}.tar.gz").unlink()
    plan = lab.call("plan", "phase-1", "--json").document
    assert [one["done"] for one in plan["tickets"]] == [None, None]
    archive(lab)
    assert listed(lab.root / ARCHIVE) == []
