"""A checkout that leaves files out: trees have all of the commit, and a landing leaves them out as before."""

import pytest
from support.repository import shell

pytestmark = pytest.mark.hardening

KEPT = ("src", "docs/worker-ticket-templates")
SPARSE = {
    "cone": ("--cone", *KEPT),
    "patterns": ("--no-cone", "/*", "!/other/"),
    "sparse index": ("--cone", "--sparse-index", *KEPT),
}


@pytest.mark.parametrize("how", SPARSE)
def test_workers_and_checks_have_what_the_checkout_leaves_out_and_it_lands_in_the_index_alone(lab, how):
    """T46: with a gate, a reader, and a worker that changes, adds and removes."""
    lab.commit({
        "other/x.txt": "one\n", "other/gone.txt": "gone\n",
        "orchestrate.toml": "[integration]\ngate = ['test -f other/x.txt && test -f src/app.py']\n",
    })  # fmt: skip
    changes = "cat other/x.txt; echo two >> other/x.txt; rm other/gone.txt; echo new > other/new.txt"
    lab.templates(
        command_1=shell(changes, mode="write", owns=["other/**"], acceptance=["grep -q two other/x.txt"]),
        command_2=shell(
            "cat other/x.txt; echo y > src/y", mode="write", owns=["src/**"], reads=["other/x.txt"]
        ),
    )
    lab.git("sparse-checkout", "set", *SPARSE[how])
    assert not (lab.root / "other" / "x.txt").exists()
    assert lab.call("plan", "phase-1", "--json").document["problems"] == []
    called = lab.call("run", "phase-1", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["accepted", "accepted"], called.says()
    assert called.code == 0
    assert lab.git("show", "HEAD:other/x.txt") == "one\ntwo\n"
    assert lab.git("ls-tree", "-r", "--name-only", "HEAD", "other/").split() == [
        "other/new.txt",
        "other/x.txt",
    ]
    assert lab.git("status", "--porcelain") == ""
    assert "S other/x.txt" in lab.git("ls-files", "-t").splitlines()
    assert not (lab.root / "other" / "x.txt").exists()
    assert (lab.root / "src" / "y").read_text() == "y\n"
    lab.git("sparse-checkout", "disable")
    assert (lab.root / "other" / "x.txt").read_text() == "one\ntwo\n"
    assert lab.git("status", "--porcelain") == ""
