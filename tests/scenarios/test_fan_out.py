"""A sweep over packages as a user runs it: one template, many workers, named one by one or all at once."""

from pathlib import Path

import pytest
from support.repository import shell, template
from support.runtimes import wait_until

PACKAGES = ["api", "db", "web"]
ODD = ["a/b", "c d", "hä", "x=y", 1.5, True]


def sweep(script="true", **front):
    said = {
        "title": "Sweep {{ matrix.package }}",
        "mode": "write",
        "matrix": {"package": PACKAGES},
        "owns": ["packages/{{ matrix.package }}/**"],
        **front,
    }
    return shell(script, **said)


def ids(*values, stem="command-3", key="package"):
    return [f"{stem}[{key}={value}]" for value in values]


def workers(called):
    return {one["ticket"]: one for one in called.document["workers"]}


def note(text):
    return f"mkdir -p packages/{{{{ matrix.package }}}}; echo {text} > packages/{{{{ matrix.package }}}}/note"


def test_a_sweep_lands_and_its_dependents_are_told_what_each_package_said(lab):
    gather = template(("cat",), depends_on=["command-3"], mode="read-only")
    one = template(("cat",), depends_on=ids("db"), mode="read-only")
    lab.templates(
        command_3=sweep(f"{note('new')}; echo did {{{{ matrix.package }}}}"),
        command_4=f'{gather}\n{{{{ outputs["command-3"] }}}}\n',
        command_5=f'{one}\n{{{{ outputs["command-3[package=db]"] }}}}\n',
    )
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 0, called.out
    found = workers(called)
    assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
        [*ids(*PACKAGES), "command-4", "command-5"], "accepted"
    )
    assert lab.git("ls-files", "packages").split() == [f"packages/{name}/note" for name in PACKAGES]
    said = (lab.root / found["command-4"]["output"]).read_text()
    for name in PACKAGES:
        assert f"command-3[package={name}]:\n\n```text\ndid {name}\n```" in said
    said = (lab.root / found["command-5"]["output"]).read_text()
    assert "did db" in said
    assert "did api" not in said


def test_odd_values_make_workers_that_run_and_can_be_asked_for(lab):
    lab.templates(
        command_3=sweep("echo 'did {{ matrix.package }}'", mode="read-only", owns=[], matrix={"package": ODD})
    )
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 0, called.out
    spelled = ["a/b", "c d", "hä", "x=y", "1.5", "true"]
    found = workers(called)
    assert list(found) == ids(*spelled)
    for value, (name, facts) in zip(spelled, found.items(), strict=True):
        assert lab.call("logs", "last", name).out == f"did {value}\n"
        assert Path(facts["output"]).name == f"{facts['worker']}.txt"


def test_serialize_lets_each_start_from_the_work_of_the_one_before(lab):
    lab.commit({"CHANGES": "first\n"})
    lab.templates(command_3=sweep("echo {{ matrix.package }} >> CHANGES", owns=["CHANGES"]))
    refused = lab.call("run", "phase-1", "--json")
    assert (refused.code, len(refused.document["problems"])) == (2, 1)
    called = lab.call("run", "phase-1", "--on-overlap", "serialize", "--json")
    assert called.code == 0, called.out
    assert (lab.root / "CHANGES").read_text().split() == ["first", *PACKAGES]


def test_a_verdict_goes_to_one_of_a_fan_out_or_to_all_that_wait_for_one(lab):
    stray = "test {{ matrix.package }} = api || echo 1 > stray-{{ matrix.package }}"
    lab.templates(command_3=sweep(f"{note('new')}; {stray}", matrix={"package": [*PACKAGES, "cli"]}))
    waiting = lab.call("run", "phase-1", "--json")
    assert [one["verdict"] for one in waiting.document["workers"]] == ["accepted", *["pending"] * 3]
    one = lab.call("integrate", "last", "--reject", *ids("db"), "--reason", "no", "--json")
    assert workers(one)[ids("db")[0]]["verdict"] == "rejected"
    rest = lab.call("integrate", "last", "--accept", "command-3", "--json")
    assert [one["verdict"] for one in rest.document["workers"]] == [
        "accepted",
        "rejected",
        "partial",
        "partial",
    ]
    assert lab.git("ls-files", "packages").split() == [
        f"packages/{name}/note" for name in ("api", "cli", "web")
    ]


def test_logs_of_a_whole_fan_out_name_those_that_can_be_asked_for(lab):
    lab.templates(command_3=sweep("true", mode="read-only", owns=[]))
    lab.call("run", "phase-1")
    called = lab.call("logs", "last", "command-3")
    assert called.code == 2
    assert (
        f"command-3: is a fan-out of 3 workers; name one of them: {', '.join(ids(*PACKAGES))}" in called.err
    )


def test_cancel_stops_all_of_a_fan_out_and_nobody_else(lab):
    lab.templates(command_3=sweep("sleep 600", mode="read-only", owns=[]), command_9=shell("sleep 600"))
    assert lab.call("deploy", "phase-1", "--detach", "--json").code == 0
    try:
        # One that has not begun would be skipped.
        wait_until(
            lambda: len(list(lab.root.glob(".taskers/runs/*/shims/*.started.json"))) == len(PACKAGES) + 1
        )
        called = lab.call("cancel", "last", "command-3", "--json")
        assert {one["ticket"]: one["state"] for one in called.document["workers"]} == dict.fromkeys(
            ids(*PACKAGES), "cancelled"
        )
        assert called.document["status"] == "running"
    finally:
        lab.call("cancel", "last", "--json")
    ended = workers(lab.call("wait", "last", "--json"))
    assert {one["outcome"] for one in ended.values()} == {"cancelled"}


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        (["command-3"], ids(*PACKAGES)),
        (ids("api"), ids("api")),
        ([*ids("web"), "command-1"], ["command-1", *ids("web")]),
        (["Command-Worker-2"], ids("api")),
        (["command-3", "command-4"], [*ids(*PACKAGES), "command-4"]),
    ],
)
def test_only_takes_a_fan_out_or_some_of_it_and_renames_nobody(lab, only, chosen):
    lab.templates(
        command_1=shell("true"), command_3=sweep(), command_4=shell("true", depends_on=["command-3"])
    )
    whole = {
        one["ticket"]: one["worker"] for one in lab.call("plan", "phase-1", "--json").document["tickets"]
    }
    told = lab.call("plan", "phase-1", "--only", *only, "--json")
    assert told.code == 0, told.out
    assert {one["ticket"]: one["worker"] for one in told.document["tickets"]} == {
        id_: whole[id_] for id_ in chosen
    }


@pytest.mark.parametrize(
    ("only", "said"),
    [
        (
            ["command-4"],
            "--only: `command-4` depends on `command-3`, which is left out; name `command-3` too",
        ),
        (
            ["command-4", *ids("api", "db")],
            "--only: `command-4` depends on `{0}`, which is left out; name `{0}` too".format(*ids("web")),
        ),
        (["comand-3"], "--only: there is no ticket `comand-3` in this phase; did you mean `command-3`?"),
        (["x"], "--only: there is no ticket `x` in this phase; there are: command-3 (3 tickets), command-4"),
    ],
)
def test_only_says_what_it_leaves_out_once(lab, only, said):
    lab.templates(command_3=sweep(), command_4=shell("true", depends_on=["command-3"]))
    told = lab.call("plan", "phase-1", "--only", *only, "--json")
    assert told.code == 2
    assert said in told.says()
    assert sum(one.startswith("--only: ") for one in told.says()) == len(told.says())


def test_a_large_fan_out_is_planned_in_a_few_lines_and_listed_in_full_for_a_machine(lab):
    names = [f"p{number:03}" for number in range(500)]
    lab.templates(
        command_3=sweep(matrix={"package": names}), command_4=shell("true", depends_on=["command-3"])
    )
    lab.commit({f"packages/{name}/a": "" for name in names[:20]})
    said = lab.call("plan", "phase-1").out
    assert "     and 495 more of command-3: Command-Worker-7 to Command-Worker-501 (15 files)\n" in said
    assert "     waits for command-3 (500 tickets)\n" in said
    assert len(said.splitlines()) < 30
    assert len(lab.call("plan", "phase-1", "--json").document["tickets"]) == 501


def test_five_hundred_that_own_one_path_are_one_problem(lab):
    names = [f"p{number:03}" for number in range(500)]
    lab.templates(command_3=sweep(owns=["src/**"], matrix={"package": names}))
    told = lab.call("plan", "phase-1", "--json")
    (problem,) = told.says()
    assert "500 of 500 tickets of `command-3` collide" in problem
    assert "use `{{ matrix.package }}` in `owns`" in problem
    assert (len(told.document["overlaps"]), told.document["overlap_count"]) == (1000, 500 * 499 // 2)


def test_a_fan_out_that_cannot_start_says_so_once(lab):
    matrix = {"package": PACKAGES}
    lab.templates(gemini_3=template(None, agent="gemini", matrix=matrix), command_1=shell("true"))
    told = lab.call("plan", "phase-1", "--json")
    assert [one["place"] for one in told.document["problems"] if one["what"].startswith("skipped")] == [
        "gemini-3"
    ]
    assert [bool(one["skipped"]) for one in told.document["tickets"]] == [False, True, True, True]
