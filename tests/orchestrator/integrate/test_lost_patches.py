"""A patch that was accepted and is lost, or cut: nothing of it lands, and no command reports that it did."""

import os
from pathlib import Path

import pytest
from support.repository import shell

from workers.files.run_dir import RunDir


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def half(path):
    text = path.read_bytes()
    path.write_bytes(text[: text.index(b"b/two.txt")])


def circle(path):
    path.unlink()
    path.symlink_to(path.name)


WAYS = {
    "a pipe": (pipe, "cannot be read: it is a pipe, and no regular file"),
    "gone": (Path.unlink, "cannot be read: no such file or directory"),
    "empty": (lambda path: path.write_bytes(b""), "holds nothing of one.txt"),
    "cut": (half, "holds nothing of two.txt"),
    "damaged": (lambda path: path.write_bytes(b"[" * 9000), "is damaged"),
    "a circle": (circle, "cannot be read: too many levels of symbolic links"),
    "huge": (lambda path: os.truncate(path, 3 * 10**9), "cannot be read: it has 3,000,000,000 bytes"),
}


@pytest.fixture
def deployed(lab):
    """Return a run of two workers that are accepted and not landed."""
    lab.templates(
        command_1=shell("echo 1 > one.txt; echo 2 > two.txt", mode="write", owns=["one.txt", "two.txt"]),
        command_2=shell("echo 3 > three.txt", mode="write", owns=["three.txt"]),
    )
    assert lab.call("deploy", "phase-1", "--json").code == 0
    (run,) = (lab.root / ".taskers/runs").iterdir()
    return RunDir(lab.root, run.name)


@pytest.mark.parametrize("way", WAYS)
def test_of_a_patch_that_is_lost_nothing_lands_and_the_others_do(lab, deployed, way):
    patch, (harm, said) = deployed.attempt("Command-Worker-1", 1).patch, WAYS[way]
    whole = patch.read_bytes()
    harm(patch)
    called = lab.call("integrate", deployed.id, "--json")
    assert (called.code, called.document["status"]) == (1, "finished")
    first, second = called.document["workers"]
    assert (first["verdict"], second["verdict"]) == ("pending", "accepted")
    assert first["reason"].startswith(f"{deployed.relative(patch)}: {said}")
    assert {path.name for path in lab.root.glob("*.txt")} == {"three.txt"}
    if patch.is_symlink() or patch.exists():
        patch.unlink()
    patch.write_bytes(whole)
    again = lab.call("integrate", deployed.id, "--json")
    assert (again.code, again.document["status"]) == (0, "integrated")
    assert {path.name for path in lab.root.glob("*.txt")} == {"one.txt", "two.txt", "three.txt"}


def test_who_builds_on_a_patch_that_is_lost_waits_with_it(lab):
    lab.templates(
        command_1=shell("echo 1 > one.txt", mode="write", owns=["one.txt"]),
        command_2=shell("cp one.txt two.txt", mode="write", owns=["two.txt"], depends_on=["command-1"]),
    )
    assert lab.call("deploy", "phase-1", "--json").code == 0
    (folder,) = (lab.root / ".taskers/runs").iterdir()
    (folder / "Command-Worker-1.patch").write_bytes(b"")
    called = lab.call("integrate", folder.name, "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["pending", "pending"]
    assert called.document["commit"]["landing"] is None
    rejected = lab.call(
        "integrate", folder.name, "--reject", "Command-Worker-1", "--reason", "lost", "--json"
    )
    assert [one["verdict"] for one in rejected.document["workers"]] == ["rejected", "rejected"]
