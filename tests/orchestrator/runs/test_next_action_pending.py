"""What settles the pending workers of a run: one command for all of them, and one that helps."""

import shlex
from types import SimpleNamespace

import pytest
from support.gates import call, gate, out, verdicts
from support.repository import shell
from support.runtimes import journal, wait_until
from support.worker_states import worker_state

from orchestrator.runs.next_action import MOST_NAMED, pending_of, settles


def straying(name, **more):
    """Write a template whose worker makes its own file, and one that is not its own."""
    script = f"mkdir -p out; echo 1 > out/{name}; echo 1 > stray-{name}"
    return shell(script, mode="write", owns=[f"out/{name}"], **more)


def outside(name):
    """Write a template whose worker makes nothing but a file that is not its own."""
    return shell(f"echo 1 > stray-{name}", mode="write", owns=[f"out/{name}"])


def follow(lab, command, code):
    """Call the next command that a document names."""
    called = lab.call(*shlex.split(command)[1:], "--json")
    assert called.code == code, called
    return called.document


def waiting(ticket, files=("a",), **more):
    """Return a worker that waits for the lead's decision."""
    return worker_state("W", ticket, verdict="pending", files=tuple(files), **more)


def of_run(workers):
    """Return what is known of a run with these workers."""
    return SimpleNamespace(run=SimpleNamespace(id="R"), workers=workers)


@pytest.mark.parametrize("command", ["run", "status", "wait"])
def test_one_command_settles_all_that_are_pending_whoever_is_asked(lab, command):
    lab.templates(**{f"command_{n}": straying(n) for n in (1, 2, 3)})
    told = call(lab, "run", "phase-1", code=1)
    if command != "run":
        told = lab.call(command, *(["last"] if command == "wait" else []), "--json").document
    assert told["next_action"].endswith(" --accept Command-Worker-1 Command-Worker-2 Command-Worker-3")
    assert follow(lab, told["next_action"], 0)["status"] == "integrated"
    assert out(lab) == {"1", "2", "3"}


def test_a_narrow_terminal_is_told_all_names_too(lab):
    lab.templates(**{f"command_{n}": straying(n) for n in (1, 2, 3, 4)})
    said = lab.call("run", "phase-1", env={"COLUMNS": "60"}).out
    names = " ".join(f"Command-Worker-{n}" for n in (1, 2, 3, 4))
    assert f"--accept {names}\n" in said
    assert f'--reject {names} --reason "..."\n' in said


def test_a_fan_out_of_which_all_is_pending_goes_by_its_name(lab):
    numbered = straying("{{ matrix.n }}", matrix={"n": ["a", "b", "c", "d"]})
    lab.templates(command_1=numbered, command_2=straying(2))
    told = call(lab, "run", "phase-1", code=1)
    assert told["next_action"].endswith(" --accept command-1 Command-Worker-2")
    assert set(verdicts(follow(lab, told["next_action"], 0)).values()) == {"partial"}


def test_of_a_fan_out_of_which_some_would_land_nothing_each_is_named():
    workers = {f"W-{n}": waiting(f"c-1[n={n}]", patch="p", files=["a"] * (n > 1)) for n in range(1, 7)}
    assert pending_of(workers).outside == ("W-1",)
    assert settles(of_run(workers)) == "orchestrate integrate R --accept W-2 W-3 W-4 W-5 W-6 --reject W-1"


def test_more_than_a_command_names_are_settled_by_the_next_ones(lab):
    workers = {f"W-{n}": waiting(f"c-{n}") for n in range(1, 2 * MOST_NAMED + 2)}
    seen = []
    for size in (MOST_NAMED, MOST_NAMED, 1):
        names = settles(of_run(workers)).split()[4:]
        assert len(names) == size
        seen += names
        for name in names:
            workers[name].verdict = "partial"
    assert seen == list(workers)
    lab.templates(**{f"command_{n}": straying(n) for n in range(1, MOST_NAMED + 2)})
    said = lab.call("run", "phase-1").out
    assert f"more than {MOST_NAMED} wait: each such command settles the next ones" in said


def test_a_red_gate_is_to_be_mended_before_anybody_else_is_accepted(lab):
    gate(lab, "test -e mended")
    lab.templates(command_1=shell("echo 1 > one", mode="write", owns=["one"]), command_2=straying(2))
    told = call(lab, "run", "phase-1", code=1)
    run = told["run"]
    assert verdicts(told) == {"command-1": "pending", "command-2": "pending"}
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    said = lab.call("integrate", run).out
    assert said.index("what is held up") < said.index("settle what is pending")
    lab.commit({"mended": "yes\n"})
    landed = follow(lab, f"orchestrate integrate {run}", 1)
    assert verdicts(landed) == {"command-1": "accepted", "command-2": "pending"}
    assert landed["next_action"] == f"orchestrate integrate {run} --accept Command-Worker-2"
    assert follow(lab, landed["next_action"], 0)["status"] == "integrated"


def test_what_conflicts_with_the_branch_is_rejected_and_done_again(lab):
    change = "echo worker >> src/app.py"
    lab.templates(
        command_1=shell(change, mode="write", owns=["src/app.py"]),
        command_2=shell(f"{change}; echo 2 > two", mode="write", owns=["two", "src/app.py"],
                        depends_on=["command-1"]),
        command_3=shell("echo 3 > three", mode="write", owns=["three"]),
    )  # fmt: skip
    run = call(lab, "deploy", "phase-1", code=0)["run"]
    lab.commit({"src/app.py": "user\n"})
    told = call(lab, "integrate", run, code=1)
    why = '--reason "done again on the branch as it is now"'
    first = f"orchestrate integrate {run} --reject Command-Worker-1 {why}"
    again = "orchestrate run phase-1 --only command-1 command-2"
    assert told["what"].endswith(
        f"has changed on main since; `{first}`, then `{again} --detach` does it again"
    )
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    assert lab.call("status", "--json").document["what"] == told["what"]
    assert lab.call("run", "phase-1", "--json").document["what"] == told["what"]
    assert set(verdicts(follow(lab, first, 1)).values()) == {"rejected", "accepted"}
    log = (lab.root / "DECISIONS.md").read_text()
    entry = log[log.index(": Settled run ") :].partition("\n---\n")[0]
    assert "Command-Worker-1 (Look around): conflict: src/app.py has changed on main since\n" in entry
    assert " rejected Command-Worker-1: done again on the branch as it is now.\n" in entry
    assert set(verdicts(follow(lab, again, 0))) == {"command-1", "command-2"}
    assert (lab.root / "src/app.py").read_text() == "user\nworker\nworker\n"


def test_what_lies_all_outside_its_scope_is_offered_a_reject_and_another_run(lab):
    lab.templates(command_1=straying(1), command_2=outside(2))
    told = call(lab, "run", "phase-1", code=1)
    run = told["run"]
    assert told["next_action"] == (
        f"orchestrate integrate {run} --accept Command-Worker-1 --reject Command-Worker-2"
    )
    (problem,) = told["problems"]
    assert (problem["place"], problem["severity"]) == ("Command-Worker-2", "warning")
    again = "orchestrate run phase-1 --only command-2"
    assert problem["do"].endswith(again)
    said = lab.call("integrate", run).out
    assert f'--reject Command-Worker-2 --reason "..."\n  {again}\n' in said
    assert "--accept Command-Worker-1 Command-Worker-2" not in said
    settled = follow(lab, told["next_action"], 1)
    assert verdicts(settled) == {"command-1": "partial", "command-2": "rejected"}
    assert (settled["status"], settled["problems"]) == ("integrated", [])
    lab.templates(command_2=straying(2))
    assert set(verdicts(follow(lab, again, 1))) == {"command-2"}


def test_who_was_to_write_nothing_is_accepted_for_what_it_found():
    violations = [("read_only_wrote", "notes")]
    workers = {"W-1": waiting("c-1", patch="p", files=[], violations=violations)}
    assert settles(of_run(workers)) == "orchestrate integrate R --accept W-1"


def test_a_cancelled_run_names_who_still_waits_for_a_word(lives):
    lives.lab.templates(command_1=straying(1), command_2=shell(f"{lives.waits}; true", timeout="5m"))
    run, _ = lives.detached()
    wait_until(lambda: [one for one in journal(run) if one["event"] == "ended"])
    call(lives, "cancel", run.name, code=0)
    told = call(lives, "integrate", run.name, code=1)
    assert told["next_action"] == f"orchestrate integrate {run.name} --accept Command-Worker-1"
    assert follow(lives.lab, told["next_action"], 1)["status"] == "integrated"
    assert out(lives.lab) == {"1"}
    assert lives.living() == []
