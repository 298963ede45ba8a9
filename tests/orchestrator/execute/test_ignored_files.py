"""What a worker writes in its scope and git ignores does not land, and is never gone without a word."""

import pytest
from support.repository import shell

pytestmark = pytest.mark.hardening

BUILDS = "mkdir -p build; echo 1 > build/out.js"


def test_ignored_files_inside_a_scope_are_named_by_run_logs_decisions_and_plan(lab):
    """T48: beside a file that lands, and alone."""
    lab.commit({".gitignore": "build/\n"})
    third = f"{BUILDS}; mkdir -p x/node_modules; echo x > x/node_modules/y"
    lab.templates(
        command_1=shell(f"{BUILDS}; echo 1 > src/kept", mode="write", owns=["build/out.js", "src/**"]),
        command_2=shell("mkdir build; echo 2 > build/two.js", mode="write", owns=["lib/**", "build/two.js"]),
        command_3=shell(third, mode="write", owns=["x/**"]),
    )
    planned = lab.call("plan", "phase-1", "--json")
    said = [one for one in planned.says() if "git ignores" in one]
    assert len(said) == 2
    assert (
        "git ignores `build/out.js`: what is written there does not land; take it out of .gitignore"
        in said[0]
    )
    called = lab.call("run", "phase-1", "--json")
    first, second, third = called.document["workers"]
    assert (first["verdict"], first["files"]) == ("accepted", ["src/kept"])
    assert first["flags"] == ["silent", "ignored_files"]
    assert "ignored_files" in second["flags"]
    assert "ignored_files" not in third["flags"]
    assert called.code == 0
    warned = [one for one in called.says() if "did not land" in one]
    assert warned[0].startswith(
        "Command-Worker-1: git ignores what it wrote in its scope, so that did not land: build/; "
    )
    assert [one.partition(":")[0] for one in warned] == ["Command-Worker-1", "Command-Worker-2"]
    run = called.document["run"]
    assert (
        "left out of its work, since git ignores it: build/" in lab.call("logs", run, "Command-Worker-1").err
    )


def test_the_summary_and_the_decision_log_name_them(lab):
    lab.commit({".gitignore": "build/\n"})
    lab.templates(
        command_1=shell(f"{BUILDS}; echo 1 > kept; echo 1 > out", mode="write", owns=["build/**", "kept"])
    )
    said = lab.call("run", "phase-1").out
    assert "left out, git ignores it: build/" in said
    run = next((lab.root / ".taskers" / "runs").iterdir()).name
    assert lab.call("integrate", run, "--accept", "Command-Worker-1", "--json").code == 0
    assert "not landed: out, build/" in (lab.root / "DECISIONS.md").read_text()
