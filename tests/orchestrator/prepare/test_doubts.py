"""Slips of the pen in templates: `plan` and `validate` name them, and nothing is stopped by one."""

import pytest
from support.plans import PLAN
from support.repository import shell, template

WRITE = {"mode": "write", "phase": "phase-2", "deliverable": None}


@pytest.fixture
def planned(lab):
    """Return a project whose current phase has deliverables, with folders to misspell."""
    lab.commit({"STATUS.md": PLAN, "tenacity/stop.py": "", "packages/api/x": "", "v1/x": "", "run.sh": ""})
    return lab


SLIPS = {
    "a deliverable that the phase does not have": (
        template(phase="phase-2", deliverable="Formater"),
        ":4: `deliverable`: Phase 2: Core has none called `Formater`; did you mean `Formatter`?",
    ),
    "a deliverable unlike all others": (
        template(phase="phase-2", deliverable="Zebra"),
        "has none called `Zebra`; `orchestrate deliverable add` adds it to the current phase",
    ),
    "a folder that is nearly there": (
        shell("true", owns=["tenasity/stop.py"], **WRITE),
        "`owns`: `tenasity/stop.py` is below a folder that is not there; did you mean `tenacity/stop.py`?",
    ),
    "such a folder further down": (
        shell("true", owns=["packages/apii/**"], **WRITE),
        "did you mean `packages/api/**`?",
    ),
    "a folder to start in": (
        template(phase="phase-2", cwd="no/where"),
        "`cwd`: there is no folder `no/where`, and the worker cannot start without it",
    ),
    "a program": (
        template(("no-such-program", "x"), phase="phase-2"),
        "`command`: there is no program `no-such-program` on PATH",
    ),
    "a script": (template(("./rum.sh",), phase="phase-2"), "`command`: there is no program `./rum.sh`"),
    "a budget of a command": (
        template(phase="phase-2", budget_usd=2.5),
        "`budget_usd`: what a command costs is not known, so it limits nothing; take it out",
    ),
    "a model of a command": (template(phase="phase-2", model="x"), "`model`: a command has no model"),
}


@pytest.mark.parametrize(("text", "said"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_a_warning_with_its_place(planned, text, said):
    planned.templates(command_1=text)
    for call in (("plan", "phase-2"), ("validate",)):
        called = planned.call(*call, "--json")
        assert called.code == 0
        (problem,) = [one for one in called.says() if said in one]
        assert problem.startswith("docs/worker-ticket-templates/command-1.md:")
        assert not [one for one in called.document["problems"] if one["severity"] == "error"]


def test_what_may_come_into_being_is_no_slip(planned):
    new = ["tests/new/test_x.py", "v2/**", "packages/web/**", "tenacity/stops.py"]
    planned.templates(
        command_1=shell("true", owns=new, **WRITE),
        command_2=template(
            ("./made.sh",), phase="phase-2", deliverable=None, cwd="made", depends_on=["command-1"]
        ),
        command_3=template(
            ("./made.sh",), phase="phase-2", deliverable=None, cwd="made", setup=["mkdir made"]
        ),
        command_4=template(("./run.sh",), phase="phase-2", deliverable="Formatter"),
        command_5=template(phase="phase-9", deliverable="What"),
    )
    for call in (("plan", "phase-2"), ("validate",)):
        places = ("command-1", "command-2", "command-3", "command-4")
        found = [one for one in planned.call(*call, "--json").says() if any(name in one for name in places)]
        assert found == []


def test_a_folder_of_the_checks_that_is_not_there_is_named(planned):
    planned.commit({"orchestrate.toml": '[checks]\ncwd = "nowhere"\n'})
    planned.templates(command_1=template(phase="phase-2"))
    for call in (("plan", "phase-2"), ("validate",)):
        assert any(
            "`[checks] cwd`: there is no folder" in one for one in planned.call(*call, "--json").says()
        )


def test_an_environment_that_no_tree_has_is_named_where_it_is_used_and_by_doctor(planned):
    planned.commit({".gitignore": ".venv\n"})
    planned.write(".venv/bin/python", "")
    planned.templates(command_1=shell("true", acceptance=[".venv/bin/python -m pytest"], phase="phase-2"))
    told = "environment: your checkout has `.venv`, and the trees of workers and checks have none"
    assert any(one.startswith(told) for one in planned.call("plan", "phase-2", "--json").says())
    assert any(one.startswith(told) for one in planned.call("doctor", "--json").says())
    planned.commit({"orchestrate.toml": '[worktree]\nlink = [".venv"]\n'})
    assert not any(told in one for one in planned.call("plan", "phase-2", "--json").says())
    planned.templates(command_1=shell("true", phase="phase-2"))
    planned.commit({"orchestrate.toml": "\n"})
    assert not any(told in one for one in planned.call("plan", "phase-2", "--json").says())


def test_a_ticket_of_another_phase_is_called_that_and_no_ticket_is_meant_to_wait_for_itself(lab):
    lab.templates(
        command_q1=template(phase="phase-7"),
        command_q2=template(depends_on=["command-q1"]),
        command_q4=template(depends_on=["command-q3"]),
    )
    said = lab.call("plan", "phase-1", "--json").says()
    assert "`command-q1` is a ticket of another phase, and nobody waits for one of those" in said[0]
    assert said[1].endswith("there is no ticket `command-q3` here; did you mean `command-q2`?")


def test_a_phase_that_is_spelled_otherwise_is_named_with_its_template(lab):
    lab.templates(command_1=template(phase="5"), command_2=template(phase="phase-1"))
    (said,) = lab.call("plan", "phase-5", "--json").says()
    path = "docs/worker-ticket-templates/command-1.md"
    assert said.endswith(f"no template is of `phase-5`; write `phase: phase-5` in {path}, where it is `5`")
