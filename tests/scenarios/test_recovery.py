"""The four ways in which a project loses its lead's memory, each gone through with nothing but its files."""

import json
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from support.repository import SCRIPT, Lab, shell
from support.runtimes import PATIENCE

UNFENCED = 'fence = "off"\n'
"""Settings for workers and gates that leave their traces outside of their trees."""


@pytest.fixture
def project(lab):
    """Return a project with two writers whose runs are counted outside of git."""
    outside = lab.root.parent / "outside"
    outside.mkdir()
    lab.templates(
        command_1=shell(f"echo x >> {outside}/1; mkdir -p out; echo 1 > out/1", mode="write", owns=["out/1"],
                        title="Port the parser"),
        command_2=shell(f"echo x >> {outside}/2; mkdir -p out; echo 2 > out/2", mode="write", owns=["out/2"],
                        title="Port the writer"),
    )  # fmt: skip
    lab.commit({"orchestrate.toml": UNFENCED})
    lab.outside = outside
    return lab


def done(project):
    return {path.name: path.read_text().count("x") for path in sorted(project.outside.iterdir())}


def resume(project, *arguments, code=0):
    told = project.call("resume", "--json", *arguments)
    assert told.code == code, told
    return told.document


def lose_workings(project):
    shutil.rmtree(project.root / ".taskers")


def follow(project, command):
    """Call the next command of an answer, word by word."""
    assert command.startswith("orchestrate ")
    return project.call(*shlex.split(command)[1:], "--json")


def stop_in_the_middle(project):
    """Kill a runtime once both workers ended, and before anything has landed."""
    gate = project.root.parent / "gate"
    project.commit({"orchestrate.toml": f'{UNFENCED}[integration]\ngate = ["touch {gate}; sleep 60"]\n'})
    runtime = subprocess.Popen(
        [SCRIPT, "run", "phase-1"], cwd=project.root, env=project.env(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    while not gate.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run = resume(project)["runs"][0]["run"]
    # In order: a killed runtime's gate would go on, and nobody would see it dead.
    runtime.terminate()
    runtime.wait(30)
    project.commit({"orchestrate.toml": UNFENCED})
    return run


def roster(project):
    text = (project.root / "STATUS.md").read_text().partition("**Active Workers:**")[2]
    return re.findall(r"^- (\S+): (.*) \(Scope", text.partition("**Recent Completions:**")[0], re.MULTILINE)


# The lead is replaced


def test_a_new_lead_with_nothing_but_a_clone_finds_the_same_next_step(project, tmp_path):
    ran = project.call("run", "phase-1", "--json")
    assert ran.code == 0
    # That a deliverable is finished is known from the run's own files alone.
    assert follow(project, ran.document["next_action"]).code == 0
    told = resume(project)
    clone = Lab(tmp_path / "clone", project.home)
    subprocess.run(["git", "clone", "--quiet", project.root, clone.root], check=True, capture_output=True)
    clone.git("config", "user.name", "Grace")
    there = resume(clone)
    for key in ("phase", "milestone", "deliverable", "next", "todo", "progress", "decisions", "next_action"):
        assert there[key] == told[key], key
    # Nothing was decided; the completions in STATUS.md tell the clone that the phase was run.
    assert there["decisions"] == []
    assert (there["next_action"], there["waiting_for"]) == (None, "lead")
    assert (there["runs"], there["stale"], there["repaired"]) == ([], [], [])


def test_a_new_lead_takes_a_run_over_that_the_old_one_left_behind(project):
    run = stop_in_the_middle(project)
    told = resume(project)
    assert told["next_action"] == f"orchestrate integrate {run}"
    taken = follow(project, told["next_action"])
    assert (taken.code, taken.document["status"]) == (0, "integrated")
    assert done(project) == {"1": 1, "2": 1}


# A gap of days


def test_after_a_gap_what_is_old_is_named_and_the_decisions_before_the_gap_are_shown(project):
    assert project.call("run", "phase-1", "--json").code == 0
    text = (project.root / "STATUS.md").read_text()
    text = re.sub(r"(?<=\*\*Last Updated:\*\* ).*", "2020-03-09 09:00", text)
    line = "- Codex-Worker-7: Tidy up (Scope: src/**, run 20200308_080000)"
    project.write("STATUS.md", text.replace("**Active Workers:**\n", f"**Active Workers:**\n{line}\n", 1))
    log = (project.root / "DECISIONS.md").read_text()
    entry = "## 2020-03-05: Keep it small\n\n**Decision:** No plug-ins.\n\n**Status:** Accepted\n\n---\n\n"
    older = "## 2020-01-05: Begin\n\n**Decision:** Begin.\n\n---\n\n"
    project.write("DECISIONS.md", log.replace("**Decision Log End**", f"{entry}{older}**Decision Log End**"))
    told = resume(project)
    assert sorted(one["kind"] for one in told["stale"]) == ["state", "status", "worker"]
    said = {one["kind"]: one["what"] for one in told["stale"]}
    assert "Codex-Worker-7" in said["worker"]
    assert "20200308_080000 is gone" in said["worker"]
    assert said["state"] == "not committed: STATUS.md, DECISIONS.md"
    assert re.fullmatch(
        r"STATUS.md was last updated \d{4} days ago, and \d+ commits are younger", said["status"]
    )
    assert told["decisions_since"] == "2020-03-02"
    assert told["decisions"][-1] == {
        "date": "2020-03-05", "title": "Keep it small", "decision": "No plug-ins.", "status": "Accepted",
    }  # fmt: skip
    screen = project.call("resume").out
    assert len(screen.splitlines()) <= 24
    assert all(one["what"] in screen for one in told["stale"])


# `.taskers/` is deleted


def test_workings_lost_after_integration_cost_nothing_and_nothing_is_done_again(project):
    assert project.call("run", "phase-1", "--json").code == 0
    head = project.git("rev-parse", "HEAD")
    lose_workings(project)
    told = resume(project)
    assert (told["runs"], told["stale"], told["repaired"]) == ([], [], [])
    assert project.git("rev-parse", "HEAD") == head
    assert told["next_action"] is None
    assert done(project) == {"1": 1, "2": 1}


def test_workings_lost_before_integration_are_made_again_from_templates_and_roster(project):
    run = stop_in_the_middle(project)
    lose_workings(project)
    told = resume(project)
    assert [one["kind"] for one in told["stale"] if run in one["what"]] == ["worker", "worker"]
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    command = "orchestrate run phase-1 --only command-1 command-2 --detach"
    assert f"the work of run {run}, whose folder is gone, is lost; `{command}` runs it again" in told["what"]
    again = follow(project, command.removesuffix(" --detach"))
    assert (again.code, again.document["status"]) == (0, "integrated")
    assert roster(project) == []
    # A run of the same second has the same name with a number behind it.
    assert not re.search(rf"{run}(?!_\d)", (project.root / "STATUS.md").read_text())
    assert [one for one in resume(project)["stale"] if one["kind"] == "worker"] == []
    landed = project.git("log", "--format=%s", "--grep=^Orchestrate-Run: ").splitlines()
    assert sorted(landed) == ["Port the parser", "Port the writer"]


def test_only_what_was_lost_is_made_again(project):
    stop_in_the_middle(project)
    lose_workings(project)
    text = (project.root / "STATUS.md").read_text()
    project.write("STATUS.md", re.sub(r"- Command-Worker-1: .*\n", "", text))
    assert "`orchestrate run phase-1 --only command-2 --detach` runs it again" in resume(project)["what"]


def test_what_had_landed_before_the_loss_is_recorded_and_not_done_again(project):
    before = {path: (project.root / path).read_bytes() for path in ("STATUS.md", "DECISIONS.md")}
    document = project.call("run", "phase-1", "--json").document
    run, landing = document["run"], document["commit"]["landing"]
    # Back to the moment between the landing and its record.
    project.git("reset", "--quiet", "--hard", landing)
    lines = "".join(
        f"- Command-Worker-{n}: Port the {what} (Scope: out/{n}, run {run})\n"
        for n, what in ((1, "parser"), (2, "writer"))
    )
    text = before["STATUS.md"].decode().replace("**Active Workers:**\n", f"**Active Workers:**\n{lines}", 1)
    project.write("STATUS.md", text)
    lose_workings(project)
    told = resume(project)
    assert told["repaired"] == [
        f"run {run} had landed as {landing[:10]} and is gone; recorded for Command-Worker-1, Command-Worker-2"
    ]
    assert roster(project) == []
    assert told["next_action"] is None
    assert project.git("status", "--porcelain") == ""
    status = (project.root / "STATUS.md").read_text()
    assert [f"- Command-Worker-{n}: " in status for n in (1, 2)] == [True, True]
    assert len(re.findall(rf"\(COMPLETE, accepted, integrated \S+, run {run}, phase-1\)", status)) == 2
    head = project.git("rev-parse", "HEAD")
    assert resume(project)["repaired"] == []
    assert project.git("rev-parse", "HEAD") == head
    assert done(project) == {"1": 1, "2": 1}


# What an agent asks for


def test_a_budget_is_kept_and_what_was_left_out_is_named(project):
    todo = "".join(
        f"- [ ] Item {number} of a list that is longer than anybody reads\n" for number in range(200)
    )
    text = (project.root / "STATUS.md").read_text()
    project.write("STATUS.md", text.replace("### P1 (High Priority)\n", f"### P1 (High Priority)\n{todo}", 1))
    whole = resume(project)
    assert whole["left_out"] == []
    for budget in (2000, 1000, 600):
        told = resume(project, "--max-tokens", str(budget))
        assert len(json.dumps(told)) / 3 <= budget
        assert "P1" in told["left_out"]
        assert set(told) == set(whole)
        for key in ("next", "stale", "repaired", "next_action"):
            assert told[key] == whole[key]
    # The last parts that are cut are named, too: every size from the shortest on is kept.
    least = resume(project, "--max-tokens", "1")
    fewest = int(re.search(r"shortest answer has \((\d+)\)", least["problems"][-1]["what"])[1])
    for budget in range(fewest, fewest + 120, 7):
        told = resume(project, "--max-tokens", str(budget))
        assert -(-len(json.dumps(told).encode()) // 3) <= budget
        assert "--max-tokens" not in [one["place"] for one in told["problems"]]
    assert least["problems"][-1]["place"] == "--max-tokens"
    assert least["next"] == whole["next"]


def test_smoke_tests_run_when_asked_and_their_figure_stays_with_its_commit(project):
    project.commit({"orchestrate.toml": UNFENCED + '[checks]\nsmoke = "echo 12 passed in 0.10s"\n'})
    assert resume(project)["checks"] == []
    (figure,) = resume(project, "--verify")["checks"]
    head = project.git("rev-parse", "HEAD").strip()
    assert (figure["good"], figure["total"], figure["commit"], figure["changed"]) == (12, 12, head, False)
    project.commit({"more": "x"})
    assert resume(project)["checks"] == [figure]


def test_a_smoke_test_that_hangs_is_ended_with_all_that_it_started(project):
    pids = project.root.parent / "pids"
    script = f"setsid sleep 60 & echo $! > {pids}; sleep 60"
    project.commit({"orchestrate.toml": f"{UNFENCED}[checks]\nsmoke = '{script}'\n"})
    told = resume(project, "--verify", "--timeout", "0.5", code=1)
    assert told["problems"][0]["what"].endswith("failed (timed out)")
    assert told["checks"][0]["passed"] is False
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


def test_resume_says_where_a_project_stands_that_has_no_state_files(project):
    for name in ("STATUS.md", "DECISIONS.md"):
        (project.root / name).unlink()
    told = resume(project, code=1)
    assert told["next_action"] == "orchestrate init"
    assert {one["place"] for one in told["problems"]} == {"STATUS.md", "DECISIONS.md"}
