"""A worker that ended with a question goes on with the lead's answer, in its tree."""

import json

import pytest
from support.templates import front

from orchestrator.runs.events import Begin, Noted, WorkerReopened, encoded

WORKER = "Command-Worker-1"
ASKS = """
import json, pathlib, sys
note = pathlib.Path("src/note.txt")
ticket = sys.stdin.read()
if note.exists():
    note.write_text(note.read_text() + ("told: MIT\\n" if "> Yes: MIT." in ticket else "told nothing\\n"))
    pathlib.Path("src/old.txt").exists() and sys.exit("what it had removed is back")
    print('ORCHESTRATE-RESULT {"status": "complete", "summary": "licensed"}')
else:
    note.write_text("begun\\n")
    pathlib.Path("src/old.txt").unlink()
    print('ORCHESTRATE-RESULT {"status": "blocked", "summary": "Which licence holds?"}')
"""


@pytest.fixture
def blocked(lab):
    """Run a phase of one worker that changes files and ends blocked."""
    template = front("""
        agent: command
        command: ["python3", "asks.py"]
        phase: phase-1
        title: Licence
        mode: write
        owns: ["src/**"]
    """)  # fmt: skip
    lab.commit(
        {"asks.py": ASKS, "src/old.txt": "old\n", "docs/worker-ticket-templates/command-1.md": template}
    )
    told = lab.call("run", "phase-1", "--json")
    (worker,) = told.document["workers"]
    assert (worker["outcome"], worker["verdict"]) == ("blocked", "rejected"), told
    return lab.root / ".taskers/runs" / told.document["run"]


def reopen(run):
    """Note the lead's answer, as a runtime does that is killed right after it."""
    begin = Begin("answered", None, "Which licence holds?", answer="Yes: MIT.")
    noted = Noted("2026-02-16T14:40:02.000+00:00", WorkerReopened(WORKER, f"{run.name}.{WORKER}:1", 1, begin))
    (run / "closed").unlink()
    with (run / "events.jsonl").open("a") as journal:
        journal.write(json.dumps(encoded(noted)) + "\n")


def test_an_answered_worker_goes_on_in_its_tree_and_its_work_lands(lab, blocked):
    reopen(blocked)
    assert lab.call("status", "--json").document["next_action"] == "orchestrate msg inbox"
    lab.call("msg", "inbox")
    next_ = lab.call("status", "--json").document["next_action"]
    assert next_ == f"orchestrate resume {blocked.name} --detach"
    told = lab.call("resume", blocked.name, "--json")
    (worker,) = told.document["workers"]
    assert (worker["outcome"], worker["verdict"], worker["attempts"]) == ("complete", "accepted", 2), told
    assert (lab.root / "src/note.txt").read_text() == "begun\ntold: MIT\n"
    assert not (lab.root / "src/old.txt").exists()
    assert lab.git("status", "--porcelain") == ""
    record = json.loads((blocked / f"{WORKER}.2.json").read_text())
    assert [one["kind"] for one in record["tries"]] == ["first", "answered"]
    assert lab.call("resume", blocked.name, "--json").document["status"] == "integrated"
