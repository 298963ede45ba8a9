"""What is not landed is kept, and lands when nothing stands in its way any more."""

import json

import pytest
from support.gates import call, folder_of, gate, out, reasons, verdicts, writer
from support.repository import shell

from orchestrator.integrate._conflicts import BranchTree
from workers.worktree.change import ABSENT, Change


def fits(entries, *changes):
    return BranchTree({path: ("100644", digit * 40) for path, digit in entries.items()}).clash(changes)


def change(path, old=None, new=None):
    sides = ("100644" if side else ABSENT for side in (old, new))
    return Change(path, next(sides), (old or "0") * 40, next(sides), (new or "0") * 40)


@pytest.mark.parametrize(
    ("entries", "changes", "path"),
    [
        ({"a": "1"}, [change("a", "1", "2")], None),
        ({"a": "2"}, [change("a", "1", "2")], None),
        ({"a": "3"}, [change("a", "1", "2")], "a"),
        ({}, [change("a", "1", "2")], "a"),
        ({"a": "3"}, [change("a", "1")], "a"),
        ({}, [change("a", "1")], None),
        ({}, [change("d/e/f", None, "1")], None),
        ({"d/e": "1"}, [change("d/e/f", None, "1")], "d/e/f"),
        ({"d": "1"}, [change("d/e/f", None, "1")], "d/e/f"),
        ({"d": "1"}, [change("d", "1"), change("d/e/f", None, "1")], None),
        ({"d/e/f": "1"}, [change("d", None, "1")], "d"),
        ({"d/e/f": "1"}, [change("d/e", None, "1")], "d/e"),
        ({"d/e/f": "1"}, [change("d/e/f", "1"), change("d", None, "1")], None),
        ({"d/e/f": "1", "d/g": "1"}, [change("d/e/f", "1"), change("d", None, "1")], "d"),
        ({"ab/c": "1"}, [change("a", None, "1")], None),
    ],
)  # fmt: skip
def test_what_the_branch_has_gained_meanwhile_is_in_the_way_or_is_not(entries, changes, path):
    assert fits(entries, *changes) == path


def test_what_lands_first_stands_in_the_way_of_what_comes_after():
    standing = BranchTree({"a": ("100644", "1" * 40)})
    standing.take([change("a", "1"), change("b/c/d", None, "2")])
    assert standing.clash([change("b/c", None, "3")]) == "b/c"
    assert standing.clash([change("a/b", None, "3")]) is None
    assert standing.clash([change("a", "1", "3")]) == "a"


COMMIT = "git -c user.name=u -c user.email=u@v commit -qm user"


@pytest.mark.hardening
def test_a_conflict_is_kept_through_every_clean_up_and_so_is_what_builds_on_it_at_any_remove(lab):
    """T28: what cannot land stays pending, its patch in the run's folder."""
    gate(lab, fence="off")
    # The worker acts for the user meanwhile, as no clock of the test's could be as exact.
    script = f"echo worker > src/app.py; cd {lab.root} && echo user > src/app.py && git add src && {COMMIT}"
    lab.templates(
        command_1=shell(script, mode="write", owns=["src/**"]),
        command_2=shell("true", depends_on=["command-1"]),
        command_3=writer(3, depends_on=["command-2"]),
        command_4=writer(4),
    )
    document = call(lab, "run", "phase-1", code=1)
    run = document["run"]
    kept = {name: folder_of(lab, document) / f"Command-Worker-{name}.patch" for name in (1, 3)}
    patches = {name: path.read_bytes() for name, path in kept.items()}
    assert b"+worker" in patches[1]
    for command in ("integrate", "resume", "integrate"):
        document = call(lab, command, run, code=1)
        assert document["status"] == "finished"
        why = reasons(document)
        assert why["command-1"] == "conflict: src/app.py has changed on main since"
        assert why["command-3"] == "command-1, which it builds on, did not land"
        assert [verdicts(document)[f"command-{n}"] for n in (1, 3, 4)] == ["pending", "pending", "accepted"]
        assert {name: path.read_bytes() for name, path in kept.items()} == patches
    assert (lab.root / "src/app.py").read_text() == "user\n"
    assert out(lab) == {"4"}
    lab.git("revert", "--no-edit", lab.git("log", "--format=%H", "--grep=^user$").split()[0])
    assert set(verdicts(call(lab, "integrate", run, code=0)).values()) == {"accepted"}
    assert (lab.root / "src/app.py").read_text() == "worker\n"
    assert out(lab) == {"3", "4"}


def test_a_gate_that_stays_red_is_told_once_however_often_it_is_asked(lab):
    gate(lab, "false", fence="off")
    lab.templates(command_1=writer(1))
    run = call(lab, "run", "phase-1", code=1)["run"]
    told = lab.git("rev-parse", "HEAD")
    for _ in range(2):
        assert verdicts(call(lab, "integrate", run, code=1)) == {"command-1": "pending"}
    assert lab.git("rev-parse", "HEAD") == told


def test_a_tree_stays_until_its_patch_is_on_the_disk(lab):
    gate(lab, fence="off")
    runs, trees = lab.root / ".taskers/runs", lab.root / ".taskers/worktrees"
    # A link that leads nowhere is in the way of a file that is only ever created.
    blocks = f"ln -s nowhere $(ls -d {runs}/2*)/Command-Worker-1.patch"
    lab.templates(command_1=shell(f"mkdir out; echo 1 > out/1; {blocks}", mode="write", owns=["out/**"]))
    document = call(lab, "run", "phase-1", code=1)
    (worker,) = document["workers"]
    assert worker["outcome"] == "failed"
    assert "Command-Worker-1.patch" in worker["reason"]
    for _ in range(2):
        assert (trees / document["run"] / "Command-Worker-1/out/1").read_text() == "1\n"
        document = call(lab, "integrate", document["run"], code=1)
    record = json.loads((runs / document["run"] / "Command-Worker-1.json").read_text())
    assert (lab.root / record["worktree"] / "out/1").read_text() == "1\n"
