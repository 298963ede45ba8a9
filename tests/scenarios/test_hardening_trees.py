"""Process trees and signals: whatever a worker has started is dead when its ticket is closed."""

import signal
import time

import pytest
from support.faults import AGENTS, step, ticket

pytestmark = pytest.mark.hardening
APPEND = "while :; do echo x >> log; sleep 0.1; done"


DEAF = (step("say"), step("ignore-term"), step("fork", seconds=600), step("hang"))
"""A worker that hears no TERM, with a child in a session of its own that holds its output and hears none."""


def test_a_grandchild_dies_with_a_worker_whose_ticket_is_cancelled(rehearsal):
    """T20: the lead cancels one worker of two; the other one goes on."""
    rehearsal.prepare({"claude-1": ticket(*DEAF), "codex-1": ticket(step("sleep", seconds=2), agent="codex")})
    runtime = rehearsal.begin("run", "phase-1")
    rehearsal.wait_until(lambda: len(rehearsal.players()) == 3)
    run = rehearsal.run_folder().name
    assert rehearsal.lab.call("cancel", run, "Claude-Worker-1", "--json").code == 0
    rehearsal.wait_until(lambda: rehearsal.journal("ended"))
    document = rehearsal.end(runtime)
    told = {one["ticket"]: one for one in document["workers"]}
    assert told["claude-1"]["outcome"] == "cancelled"
    assert "left_processes" not in told["claude-1"]["flags"]
    assert told["codex-1"]["outcome"] == "complete"
    assert rehearsal.survivors() == []


def test_a_grandchild_dies_with_a_worker_whose_time_is_up(rehearsal):
    """T20, stopped by its timeout instead."""
    rehearsal.prepare({f"{name}-1": ticket(*DEAF, agent=name, timeout="1s") for name in AGENTS})
    document = rehearsal.run()
    for one in document["workers"]:
        assert one["outcome"] == "timed_out"
        assert one["seconds"] >= 2  # its time, and the grace
        assert "left_processes" in one["flags"]
    assert rehearsal.survivors() == []


def test_a_helper_left_behind_by_a_finished_worker_is_dead_and_keeps_nobody_waiting(rehearsal):
    """T21: the answer, a child of 300 seconds on the same output, exit 0."""
    steps = [step("sum"), step("answer"), step("fork", seconds=300)]
    rehearsal.prepare({f"{name}-1": ticket(*steps, agent=name) for name in AGENTS})
    document = rehearsal.run()
    for one in document["workers"]:
        assert (one["outcome"], one["exit_code"]) == ("complete", 0)
        assert one["seconds"] < 300
        assert "left_processes" in one["flags"]
        assert rehearsal.stdout(one).endswith(b"}\n")
        assert b"COMPLETE" in rehearsal.stdout(one)
    assert rehearsal.survivors() == []


@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT,), 130), ((signal.SIGTERM,), 143), ((signal.SIGINT, signal.SIGINT), 130)],
    ids=["interrupted", "terminated", "interrupted twice"],
)
def test_a_run_that_is_stopped_leaves_nobody_and_consistent_files(rehearsal, signals, code):
    """T22: three workers append to a file; one has a tree that hears no TERM."""
    deaf = [step("ignore-term"), step("fork"), step("shell", command=APPEND)]
    apart = f"setsid sh -c '{APPEND}' & wait"
    rehearsal.prepare({
        "command-1": ticket(APPEND, agent="command", mode="write", owns=["one/**"]),
        "command-2": ticket(apart, agent="command", mode="write", owns=["two/**"]),
        "claude-1": ticket(*deaf, mode="write", owns=["three/**"]),
    }, grace=2)  # fmt: skip
    runtime = rehearsal.begin("run", "phase-1")
    rehearsal.wait_until(lambda: sum(path.stat().st_size > 2 for path in logs(rehearsal)) == 3)
    for number, sent in enumerate(signals):
        time.sleep(0.2 * number)
        runtime.send_signal(sent)
    document = rehearsal.end(runtime, code)
    assert rehearsal.survivors() == []  # so no file grows any more
    assert document["status"] == "interrupted"
    roster = [line for line in (rehearsal.root / "STATUS.md").read_text().splitlines() if "pending: " in line]
    assert len(roster) == 3
    assert all("pending: interrupted, `orchestrate resume " in line for line in roster)
    told = rehearsal.lab.call("resume", "--json").document
    assert [worker["state"] for worker in told["runs"][0]["workers"]] == ["stopped"] * 3


def logs(rehearsal):
    """Find the files that the workers of the newest run append to."""
    folder = rehearsal.run_folder()
    return list((rehearsal.root / ".taskers" / "worktrees" / folder.name).glob("*/log")) if folder else []
