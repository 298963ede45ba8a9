"""What is running, read from files alone: made by hand here, as any moment of a run could have left them."""

import fcntl
import json
import os
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from orchestrator.runs.live import NEXT, clock, live_run, live_runs, parked_text
from workers.agents.follow import last_said
from workers.files.journal import JournalReader
from workers.files.run_dir import RunDir, runs_of

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
BASE = "0" * 40


class Made:
    """A run's directory, and the locks that its runtime and its shims would hold."""

    def __init__(self, root, name="20260216_142834", workers=3, **waits):
        self.run = RunDir(root, name)
        for folder in ("shims", "cancel"):
            (self.run.path / folder).mkdir(parents=True)
        self.locks = []
        named = [
            {
                "worker": f"W-{number}", "ticket": f"t-{number}", "agent": "command",
                "title": f"Part {number}", "skipped": False,
                 **({"waits_for": waits[f"w{number}"]} if f"w{number}" in waits else {}),
            }
            for number in range(1, workers + 1)
        ]  # fmt: skip
        roster = {"schema": 1, "run": name, "phase": "phase-1", "workers": named}
        self.run.roster_path.write_text(json.dumps(roster))
        self.run.manifest_path.write_text("{}")

    def lock(self, path):
        """Hold a lock as a living process would."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self.locks.append(descriptor)

    def runtime(self):
        self.lock(self.run.path / "run.lock")

    def note(self, event, end="\n", **facts):
        record = {"at": AT.isoformat(), "event": event, **facts}
        with (self.run.path / "events.jsonl").open("a") as file:
            file.write(json.dumps(record) + end)
        return record

    def start(self, worker, attempt=1, *, shim=True):
        self.note("started", worker=worker, attempt=attempt, base=BASE)
        if shim:
            self.lock(self.run.attempt(worker, attempt).started)

    def exit(self, worker, end):
        self.run.attempt(worker, 1).exit.write_text(json.dumps({"worker": worker, "end": end}))

    def doing(self):
        found = live_run(self.run).rows(AT + timedelta(seconds=90))
        return {row.worker: row.state for row in found}


@pytest.fixture
def make(tmp_path):
    made = []

    def _make(**more):
        made.append(Made(tmp_path, **more))
        return made[-1]

    yield _make
    for one in made:
        for descriptor in one.locks:
            os.close(descriptor)


def test_a_worker_whose_shim_lives_runs(make):
    one = make()
    one.runtime()
    one.start("W-1")
    one.run.attempt("W-1", 1).stdout.write_text("first\nsecond\n\n")
    (row,) = live_run(one.run).rows(AT + timedelta(seconds=90))
    assert (row.worker, row.ticket, row.state, row.seconds, row.last) == (
        "W-1", "t-1", "running", 90.0, "second",
    )  # fmt: skip


def test_a_clock_that_was_set_back_gives_no_negative_time(make):
    one = make()
    one.start("W-1")
    assert live_run(one.run).rows(AT - timedelta(hours=1))[0].seconds == 0.0


@pytest.mark.parametrize(("end", "state"), [("exited", "ended, not judged"), ("cancelled", "stopped")])
def test_a_worker_with_an_exit_record_and_no_outcome_waits_for_its_judgement(make, end, state):
    one = make()
    one.start("W-1", shim=False)
    one.exit("W-1", end)
    assert one.doing() == {"W-1": state}


def test_a_worker_without_shim_and_record_is_starting_or_lost(make):
    one = make()
    one.start("W-1", shim=False)
    assert one.doing() == {"W-1": "lost"}
    one.runtime()
    assert one.doing() == {"W-1": "starting"}


@pytest.mark.parametrize("name", ["W-1", "all"])
def test_a_worker_that_was_told_to_stop_is_stopping(make, name):
    one = make()
    one.start("W-1")
    one.run.cancel([name])
    assert one.doing() == {"W-1": "stopping"}


def test_between_two_attempts_a_worker_waits_for_the_next(make):
    one = make()
    one.start("W-1", shim=False)
    one.exit("W-1", "exited")
    one.note("retry", worker="W-1", attempt=1, reason="rate limited")
    assert one.doing() == {"W-1": "waiting: another attempt"}
    one.start("W-1", attempt=2)
    assert one.doing() == {"W-1": "running"}
    assert live_run(one.run).rows(AT)[0].attempt == 2


def test_the_queue_is_counted_by_what_it_waits_for(make):
    one = make(workers=12, w2=["W-1"], w3=["W-1", "W-2"])
    one.start("W-1")
    queue = live_run(one.run).queue(AT)
    assert (queue.total, queue.dependency, queue.slot, len(queue.first)) == (11, 2, 9, NEXT)
    assert [waiting.waits_for for waiting in queue.first[:3]] == ["t-1", "t-1", "a runtime"]
    one.runtime()
    assert live_run(one.run).queue(AT).first[2].waits_for == "a slot"
    queue = live_run(one.run).queue(AT, ready={(one.run.id, "W-4")})
    assert [waiting.waits_for[:9] for waiting in queue.first[2:4]] == ["its start", "a slot"]
    one.note("skipped", worker="W-1", reason="cancelled by the lead")
    assert live_run(one.run).queue(AT).first[0].waits_for == "a slot"


def test_who_waits_for_a_parked_provider_or_a_budget_says_so(make):
    one = make(workers=4)
    one.runtime()
    agent = live_run(one.run).state.workers["W-1"].agent
    until = AT + timedelta(hours=1)
    one.note("held", worker="W-2", reason="the run's budget of $5.00 is spent ($5.00 spent)")
    queue = live_run(one.run).queue(AT)
    assert (queue.held, queue.slot, queue.first[1].waits_for[:12]) == (1, 3, "the run's bu")
    one.note("parked", agent=agent, until=until.isoformat(), reason="429", named=True, limit=2)
    queue = live_run(one.run).queue(AT)
    assert (queue.provider, queue.held, queue.slot) == (4, 0, 0)
    assert queue.first[0].waits_for == f"{agent}, parked until {clock(until, AT)}"
    assert live_run(one.run).queue(until).provider == 0  # over


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_time_is_told_by_the_readers_clock_and_with_its_day_where_that_is_another(zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = datetime(2026, 2, 16, 10, 0, tzinfo=ZoneInfo(zone))
        for later, said in ((timedelta(seconds=90), "10:01:30"), (timedelta(days=3), "2026-02-19 10:00")):
            assert clock((now + later).astimezone(UTC), now.astimezone(UTC)) == said
            assert said in parked_text("codex", (now + later).astimezone(UTC), now.astimezone(UTC))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_half_a_line_is_read_once_it_is_whole(make):
    one = make()
    first = one.note("opened")
    reader = JournalReader(one.run.path / "events.jsonl")
    assert reader.read() == [first]
    begun = one.note("gate", end="", result="green")
    before = reader.offset
    assert (reader.read(), reader.offset) == ([], before)
    with (one.run.path / "events.jsonl").open("a") as file:
        file.write("\n")
    assert reader.read() == [begun]
    assert reader.offset == (one.run.path / "events.jsonl").stat().st_size


def test_a_line_that_a_kill_cut_is_passed_over_and_not_read_again(make):
    one = make()
    one.note("opened", end="")
    with (one.run.path / "events.jsonl").open("a") as file:
        file.write('{"half\n[1]\n')
    live = live_run(one.run)
    after = one.note("gate", result="green")
    assert live.look() == [after]
    assert live.since(0) == [after]


def test_a_look_gives_what_is_new_and_a_cursor_all_of_it_once_more(make):
    one = make()
    one.start("W-1")
    live = live_run(one.run)
    assert live.look() == []
    cursor = live.cursor
    second = one.note("skipped", worker="W-2", reason="no")
    assert (live.look(), live.since(cursor), len(live.since(0))) == ([second], [second], 2)
    assert live.state.workers["W-2"].ended
    # What comes after the last look belongs to the next one, or it would be told twice.
    one.note("skipped", worker="W-3", reason="no")
    assert live.since(cursor) == [second]


def test_runs_of_which_nothing_can_come_are_not_read(make):
    old, new = make(name="20260101_000000"), make(name="20260216_142834")
    old.run.closed_path.touch()
    old.run.roster_path.unlink()
    assert [live.state.run.id for live in live_runs(new.run.root)] == [new.run.id]
    assert live_runs(new.run.root, besides={new.run.id}) == []
    assert [run.id for run in runs_of(new.run.root)] == [old.run.id, new.run.id]


def test_a_run_is_going_while_its_runtime_or_one_of_its_workers_lives(make):
    one = make()
    assert not live_run(one.run).is_going
    one.start("W-1")
    assert live_run(one.run).is_going
    other = make(name="20260216_142835")
    other.runtime()
    assert live_run(other.run).is_going


def codex(kind, **item):
    return json.dumps({"type": kind, "item": item}).encode() + b"\n"


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (b"", "make test"),
        (b'{"type": "item.started", "item": {"type": "command_exec', "make test"),
        (b"warning: noise\n\n", "make test"),
        (codex("item.completed", type="agent_message", text="All\ndone \x1b[31mnow"), "All done now"),
        (json.dumps({"type": "turn.completed", "usage": {}}).encode() + b"\n", "make test"),
    ],
)
def test_the_last_thing_that_a_cli_said_is_found_from_the_end(tmp_path, tail, said):
    stdout = tmp_path / "stdout"
    old = codex("item.started", type="command_execution", command="ls") * 5000
    stdout.write_bytes(old + codex("item.started", type="command_execution", command="make test") + tail)
    assert last_said("codex", stdout) == said


def test_a_program_s_last_line_counts_before_it_ends(tmp_path):
    stdout = tmp_path / "stdout"
    assert last_said("command", stdout) == ""
    stdout.write_bytes(b"one\n12% \x1b[2Kdone")
    assert last_said("command", stdout) == "12% done"


def test_in_a_record_longer_than_what_is_looked_at_the_last_word_stays(make):
    one = make()
    one.start("W-1")
    stdout = one.run.attempt("W-1", 1).stdout
    roster = json.loads(one.run.roster_path.read_text())
    roster["workers"][0]["agent"] = "codex"
    one.run.roster_path.write_text(json.dumps(roster))
    stdout.write_bytes(codex("item.started", type="command_execution", command="ls"))
    live = live_run(one.run)
    assert live.rows(AT)[0].last == "ls"
    with stdout.open("ab") as file:
        file.write(b'{"type": "item.completed", "text": "' + b"x" * 200_000)
    assert live.rows(AT)[0].last == "ls"


def test_a_large_stream_costs_no_more_than_its_end(make):
    one = make()
    one.start("W-1")
    stdout = one.run.attempt("W-1", 1).stdout
    with stdout.open("wb") as file:
        file.truncate(1 << 40)  # a hole: reading it whole would take hours
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    began = time.monotonic()
    assert live_run(one.run).rows(AT)[0].last == "last"
    assert time.monotonic() - began < 60.0
