"""Of a worker that waits a person hears once what it waits for, however often the figures change."""

from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.cli.terminal.progress import record_line
from orchestrator.runs.state import RunState, sound_roster
from workers.files.run_dir import RunDir

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
ROOM = "room in the run's budget of $6.00 for the ticket's $2.50"


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Have room for whole lines, whatever terminal the tests run on."""
    monkeypatch.setenv("COLUMNS", "200")


def told(tmp_path, *reasons):
    """Return the lines of a worker's waits, all of them read at once; None is its start."""
    workers = [
        {"worker": "W-1", "ticket": "t-1", "agent": "codex", "title": "One", "skipped": False},
    ]
    roster = sound_roster({"phase": "phase-1", "workers": workers})
    state = RunState(RunDir(tmp_path, "20260216_142834"), roster)
    records = []
    for number, reason in enumerate(reasons):
        at = (AT + timedelta(seconds=number)).isoformat()
        record = {"at": at, "event": "held", "worker": "W-1", "reason": reason}
        if reason is None:
            record = {"at": at, "event": "started", "worker": "W-1", "attempt": 1, "base": "0" * 40}
        records.append(record)
    state.take_all(records)
    lines = [record_line(record, state) for record in records if record["event"] == "held"]
    return [line.split("W-1", 1)[1].strip() for line in lines if line], state


def test_figures_that_change_are_not_told_again_and_the_newest_stand_in_the_state(tmp_path):
    first, second, third = (f"{ROOM} (${spent}.00 spent)" for spent in (1, 2, 3))
    lines, state = told(tmp_path, first, second, third)
    assert lines == [first]
    assert state.workers["W-1"].held == third


def test_another_reason_is_told_and_so_is_the_same_one_after_a_start(tmp_path):
    memory = "memory: 93% of 16.0 GiB in use, above [pool] max_memory = 90"
    assert told(tmp_path, f"{ROOM} (a)", memory, f"{ROOM} (b)")[0] == [f"{ROOM} (a)", memory, f"{ROOM} (b)"]
    assert told(tmp_path, f"{ROOM} (a)", None, f"{ROOM} (a)")[0] == [f"{ROOM} (a)", f"{ROOM} (a)"]
