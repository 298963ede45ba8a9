"""Runs that version 0.1.0 left behind are read, integrated and resumed by this one."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest
from support.repository import Lab

RECORDED = Path(__file__).with_name("runs_of_0_1_0")
FINISHED, INTERRUPTED = "20261129_015432", "20261129_015532"


def unpacked(tmp_path, name, before):
    """Put a recorded project into a folder of this test, its own paths in the place of the recorded ones."""
    lab = Lab(tmp_path / "project", tmp_path / "home")
    lab.home.mkdir()
    with tarfile.open(RECORDED / f"{name}.tar.gz") as archive:
        archive.extractall(lab.root, filter="data")
    for folder in (".taskers", ".git/orchestrate", ".git/worktrees"):
        for path in (lab.root / folder).rglob("*"):
            if path.is_file() and before in (data := path.read_bytes()):
                path.write_bytes(data.replace(before, str(lab.root).encode()))
    # What a run owns is kept under the digest of its work tree's path.
    digest = hashlib.sha256(str(lab.root).encode()).hexdigest()[:8]
    for path in (lab.root / ".git/orchestrate/scopes").glob("*.json"):
        path.rename(path.with_name(f"{path.stem.partition('-')[0]}-{digest}.json"))
    return lab


@pytest.fixture
def finished(tmp_path):
    """Return the project whose run waits for the lead."""
    return unpacked(tmp_path, "finished", b"/tmp/rec/project")


@pytest.fixture
def interrupted(tmp_path):
    """Return the project whose runtime was killed."""
    return unpacked(tmp_path, "interrupted", b"/tmp/rec/int")


def outcomes(document):
    return {one["ticket"]: (one["outcome"], one["verdict"], one["attempts"]) for one in document["workers"]}


def test_a_finished_run_is_shown_as_its_own_version_showed_it(finished):
    status = finished.call("status", "--json").document
    assert [(run["run"], run["status"]) for run in status["runs"]] == [(FINISHED, "finished")]
    assert status["next_action"] == f"orchestrate integrate {FINISHED} --accept Command-Worker-2"
    waited = finished.call("wait", "last", "--json").document
    assert outcomes(waited) == {
        "claude-1": ("complete", "accepted", 2), "claude-2": ("complete", "accepted", 2),
        "command-1": ("complete", "accepted", 1), "command-2": ("complete", "pending", 1),
        "command-3": ("failed", "rejected", 1), "command-4": ("complete", "accepted", 1),
        "gemini-1": ("skipped", None, 0),
    }  # fmt: skip
    assert sum(one["usage"]["input_tokens"] for one in waited["workers"]) == 2500
    assert "exit code 3: broken" in finished.call("logs", "last", "Command-Worker-3").err
    assert finished.call("report").code == 0


def landed_by(lab, run):
    """List the files of a run's landing commits."""
    return sorted(lab.git("log", "--name-only", "--format=", f"--grep=^Orchestrate-Run: {run}$").split())


def test_a_finished_run_is_integrated_once(finished):
    first = finished.call("integrate", FINISHED, "--accept", "Command-Worker-2", "--json")
    assert (first.code, first.document["status"]) == (1, "integrated"), first.out  # one worker had failed
    assert outcomes(first.document)["command-2"] == ("complete", "partial", 1)
    assert landed_by(finished, FINISHED) == ["src/five/a.py", "src/four/a.py", "src/one/a.py", "src/two/a.py"]
    assert not (finished.root / "stray.txt").exists()
    before = finished.git("rev-parse", "HEAD")
    again = finished.call("integrate", FINISHED, "--json")
    assert (outcomes(again.document), again.document["commit"]) == (
        outcomes(first.document), first.document["commit"],
    )  # fmt: skip
    assert finished.git("rev-parse", "HEAD") == before
    assert "Command-Worker-1" in (finished.root / "STATUS.md").read_text()


def test_an_interrupted_run_is_resumed_and_nothing_is_done_twice(interrupted):
    looked = interrupted.call("resume", "--json")
    assert looked.document["next_action"] == f"orchestrate resume {INTERRUPTED} --detach", looked.out
    done = interrupted.call("resume", INTERRUPTED, "--json")
    assert (done.code, done.document["status"]) == (0, "integrated"), done.out
    assert outcomes(done.document) == {
        "command-1": ("complete", "accepted", 1), "command-2": ("complete", "accepted", 1),
        "command-3": ("complete", "accepted", 2), "command-4": ("complete", "accepted", 1),
    }  # fmt: skip
    assert landed_by(interrupted, INTERRUPTED) == [f"src/n{number}/a.py" for number in (1, 2, 3, 4)]
    journal = interrupted.root / ".taskers" / "runs" / INTERRUPTED / "events.jsonl"
    started = [one for one in map(json.loads, journal.read_text().splitlines()) if one["event"] == "started"]
    assert sorted(one["worker"] for one in started) == [
        "Command-Worker-1", "Command-Worker-2", "Command-Worker-3", "Command-Worker-3", "Command-Worker-4",
    ]  # fmt: skip
