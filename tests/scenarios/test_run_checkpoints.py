"""A run keeps the checkpoint of each agent: its start, its end, its verdict; of a command if it failed."""

import contextlib
import json
import os
import signal

import pytest
from support.faults import step, ticket
from support.repository import shell
from support.runtimes import wait_until

from orchestrator.state.checkpoints.read import read

FOLDER = "docs/progress"
ANSWER = {"text": "Looked at all of it.", "report": True}


def checkpoints(lab):
    """Return the checkpoints that there are, by agent."""
    found = [read(f"{FOLDER}/{path.name}", path.read_bytes()) for path in (lab.root / FOLDER).glob("*.md")]
    return {one.agent: one for one in found}


def notes(one):
    return [note.text for note in one.notes]


def test_an_accepted_agent_has_three_notes_and_is_complete_in_the_commit(rehearsal):
    write = step("write", path="src/lex.py", text="x\n")
    rehearsal.prepare({"claude-1": ticket(write, mode="write", owns=["src/lex.py"], title="Port the lexer")})
    document = rehearsal.run()
    run = document["run"]
    one = checkpoints(rehearsal.lab)["claude-1"]
    commit = rehearsal.lab.git("log", "--format=%H", "-1", "--", "src/lex.py").strip()
    assert (one.team, one.phase, one.status) == ("phase-1", "review", "complete")
    assert notes(one)[0] == f"Claimed by Claude-Worker-1 (run {run})"
    assert notes(one)[1].startswith("Reported COMPLETE")
    assert notes(one)[2] == f"Accepted (run {run}), landed as {commit[:10]}" == one.last_action
    assert len(notes(one)) == 3
    assert rehearsal.lab.git("status", "--porcelain") == ""
    assert rehearsal.lab.git("show", f"HEAD:{one.path}").startswith("---\nfeature: ")


def test_how_each_agent_ended_is_its_status(rehearsal):
    rehearsal.prepare({
        "claude-1": ticket(step("answer", status="BLOCKED", text="The schema is missing.")),
        "codex-1": ticket(step("error", status=500, message="internal server error"), retries=0),
        "gemini-1": ticket(step("hang"), timeout="2s", retries=0),
        "claude-2": ticket(
            step("write", path="src/a.py", text="x\n"), mode="write", owns=["src/a.py"], acceptance=["exit 3"]
        ),
        "claude-3": ticket(
            step("write", path="out.py", text="x\n"), mode="write", owns=["src/b.py"]
        ),
    })  # fmt: skip
    rehearsal.run()
    found = checkpoints(rehearsal.lab)
    said = {name: (one.phase, one.status, one.last_action) for name, one in found.items()}
    assert said["claude-2"] == ("testing", "blocked", "Acceptance failed: exit 3 exited with 3")
    assert said["codex-1"][:2] == ("research", "blocked")
    assert said["codex-1"][2].startswith("Failed: ")
    assert said["codex-1"][2].endswith("; no file was changed")
    assert said["gemini-1"][:2] == ("research", "in_progress")
    assert said["gemini-1"][2].startswith("Cut off: ran longer than its timeout of 2 s")
    assert said["claude-3"][:2] == ("review", "awaiting_review")
    assert said["claude-3"][2].startswith("Waits for the lead: changed outside its scope: out.py")
    assert said["claude-1"][1] == "blocked"
    assert said["claude-1"][2].startswith("Blocked: The schema is missing.")
    listed = rehearsal.lab.call("checkpoint", "list", "--json").document
    assert listed["counts"] == {"in_progress": 1, "blocked": 3, "awaiting_review": 1, "complete": 0}


def test_a_command_has_one_only_where_it_was_not_accepted(lab):
    lab.templates(command_1=shell("true"), command_2=shell("echo broken >&2; exit 1"))
    lab.call("run", "phase-1")
    found = checkpoints(lab)
    assert set(found) == {"command-2"}
    assert found["command-2"].status == "blocked"
    assert found["command-2"].last_action.startswith("Failed: exit code 1")
    lab.templates(command_2=shell("true"))
    lab.call("run", "phase-1")
    done = checkpoints(lab)["command-2"]
    assert (done.status, len(done.notes)) == ("complete", 2)
    assert done.last_action.startswith("Accepted (run ")


@pytest.mark.parametrize(
    ("frequency", "starts"),
    [("every-step", ["Claimed", "Attempt 2"]), ("milestones", ["Claimed"]), ("final", [])],
)
def test_how_often_is_a_setting(rehearsal, frequency, starts):
    stalls = ticket(step("stall", records=2), agent="codex", idle_timeout="1s", retries=1)
    rehearsal.prepare_with({"codex-1": stalls}, f'[checkpoints]\nfrequency = "{frequency}"\n')
    rehearsal.run()
    *begun, last = notes(checkpoints(rehearsal.lab)["codex-1"])
    assert [one.partition(" by ")[0] for one in begun] == starts
    assert last.startswith("Cut off: ")


def test_a_start_is_on_record_while_the_worker_runs_and_a_kill_loses_nothing(rehearsal):
    rehearsal.prepare({"claude-1": ticket(step("hang"), timeout="60s")})
    runtime = rehearsal.begin("run", "phase-1")
    place = rehearsal.root / FOLDER
    wait_until(lambda: place.is_dir() and list(place.glob("*.md")))
    one = checkpoints(rehearsal.lab)["claude-1"]
    assert (one.status, len(one.notes)) == ("in_progress", 1)
    os.kill(runtime.pid, signal.SIGKILL)
    runtime.communicate()
    assert checkpoints(rehearsal.lab)["claude-1"] == one
    run = rehearsal.run_folder().name
    assert rehearsal.lab.call("cancel", run).code == 0
    rehearsal.lab.call("resume", run)
    after = checkpoints(rehearsal.lab)["claude-1"]
    assert notes(after)[0] == notes(one)[0]
    assert (after.status, after.last_action.partition(":")[0]) == ("blocked", "Cancelled")


def said(*texts):
    """Return steps in which an agent says something, each a message of its own."""
    return [step("say", text=text) for text in texts]


def test_an_agents_own_lines_are_kept_once_and_complete_is_not_its_to_say(rehearsal):
    first, last = (
        "CHECKPOINT: Lexer reads 14 of 20; next: escapes",
        "CHECKPOINT [testing, blocked]: No schema",
    )
    lines = (first, "No CHECKPOINT: x", f"I am done.\n{last}\n", "Now the report.")
    rehearsal.prepare(
        {f"{name}-1": ticket(*said(*lines), agent=name) for name in ("codex", "claude", "gemini")}
    )
    rehearsal.run()
    for agent, one in checkpoints(rehearsal.lab).items():
        own = [text for text in notes(one) if text in ("Lexer reads 14 of 20; next: escapes", "No schema")]
        assert own == ["No schema"], (agent, notes(one))  # of several within ten seconds the last counts
    told = rehearsal.journal("checkpoint")
    assert [(one["phase"], one["status"], one["text"]) for one in told] == [
        ("testing", "blocked", "No schema")
    ] * 3


@pytest.mark.parametrize("kind", ["file", "link out"])
def test_what_is_in_the_way_of_checkpoints_fails_no_run(lab, tmp_path, kind):
    lab.templates(command_1=shell("exit 1"), command_2=shell("true"))
    (tmp_path / "away").mkdir()
    place = lab.root / FOLDER
    if kind == "link out":
        place.symlink_to(tmp_path / "away")
    else:
        place.write_text("mine\n")
    called = lab.call("run", "phase-1", "--json")
    assert [one["outcome"] for one in called.document["workers"]] == ["failed", "complete"], called
    assert called.document["status"] == "integrated"
    assert list((tmp_path / "away").iterdir()) == []
    refused = lab.call("checkpoint", "write", "parser", "--action", "x", "--json")
    assert refused.code == 2, refused


def test_resume_writes_what_was_done_last_by_agents_whose_runtime_is_gone(rehearsal):
    steps = (
        step("write", path="src/a.py", text="a\n"),
        step("say", text="Half of it is done."),
        step("hang"),
    )
    rehearsal.prepare({"claude-1": ticket(*steps, mode="write", owns=["src/a.py"], timeout="60s")})
    runtime = rehearsal.begin("run", "phase-1")
    wait_until(lambda: list(rehearsal.root.glob(".taskers/worktrees/*/*/src/a.py")))
    wait_until(lambda: "claude-1" in checkpoints(rehearsal.lab))
    wait_until(lambda: b"Half of it" in next(rehearsal.root.glob(".taskers/runs/*/*.stdout")).read_bytes())
    run = rehearsal.run_folder()
    started = json.loads(next(run.glob("shims/*.started.json")).read_text())
    for pid in (runtime.pid, started["shim_pid"]):
        os.kill(pid, signal.SIGKILL)
    runtime.communicate()
    wait_until(lambda: rehearsal.survivors() == [] or kill_all(rehearsal))
    action = "Cut off: its runtime stopped; last: Half of it is done.; 1 file is kept"
    answered = rehearsal.lab.call("resume", "--json").document
    assert answered["repaired"] == [f"checkpoint of claude-1: {action}"]
    assert (answered["next"]["command"], answered["next"]["why"]) == (
        f"orchestrate resume {run.name} --detach",
        f"run {run.name} of phase-1 was interrupted; Claude-Worker-1 had begun",
    )
    assert [one["last_action"] for one in answered["checkpoints"]] == [action]
    assert rehearsal.lab.call("resume", "--json").document["repaired"] == []
    shown = rehearsal.lab.call("checkpoint", "show", "Code review", "--json").document["checkpoint"]
    assert (shown["run"], shown["from"]) == (run.name, "patch" if shown["kept"]["worktree"] else "notes")
    assert shown["next_action"].startswith(f"orchestrate resume {run.name}")
    rehearsal.lab.call("cancel", run.name)
    rehearsal.lab.call("resume", run.name)
    assert notes(checkpoints(rehearsal.lab)["claude-1"])[1] == action


def kill_all(rehearsal):
    """End what a killed runtime has left, by its ids; return whether nothing is left."""
    for pid in rehearsal.survivors():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return rehearsal.survivors() == []


def test_only_a_checkpoint_is_left_and_is_the_next_step(lab):
    lab.templates(command_1=shell("true"), command_2=shell("true"))
    lab.call("todo", "done", "Run the first phase")
    for agent in ("command-2", "command-1", "gone-1"):
        written = ("checkpoint", "write", "Code review", "--agent", agent, "--team", "phase-1", "--action")
        assert lab.call(*written, "Half of it").code == 0
    answered = lab.call("status", "--json").document
    assert answered["next_action"].startswith("orchestrate run phase-1 --continue --only ")
    assert set(answered["next_action"].split()[5:]) >= {"command-1", "command-2"}
    assert "gone-1" not in answered["next_action"]
    assert lab.call("resume", "--json").document["next"]["why"].endswith(" was begun: Half of it")
    called = lab.call(*answered["next_action"].replace(" --detach", "").split()[1:], "--json")
    assert [one["continues"]["from"] for one in called.document["workers"]] == ["notes", "notes"]
    assert "--continue" not in str(lab.call("status", "--json").document["next_action"])
