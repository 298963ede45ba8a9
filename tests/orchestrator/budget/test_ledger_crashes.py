"""A ledger whose writers are killed, cut short, out of disk or many: counted once, and readable."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import AT, Books, used
from support.runtimes import PATIENCE

from orchestrator.budget.ledger import Ledger, Reservation
from orchestrator.budget.limits import Budget
from orchestrator.budget.prices import Cost
from orchestrator.budget.totals import Spent, entries_of
from orchestrator.settings.values import SpendingLimits
from workers.files.locks import held_lock
from workers.files.run_dir import create_json
from workers.pool.slots import Pool, PoolLimits


def test_an_attempt_is_counted_once_however_often_a_runtime_goes_over_it(books):
    first = books.start("Claude-Worker-1", usd=2.0, run_usd=3.0)
    assert books.start("Claude-Worker-1", usd=2.0, run_usd=3.0) == first
    adopted = books.ledger.adopted(books.run, "Claude-Worker-1", 1)
    assert adopted[:6] == first[:6]
    for reservation in (first, adopted, first):
        books.ledger.settle(reservation, Cost(1.5, "agent", 10))
    assert books.ledger.of_run(books.run) == Spent(1.5, 10)
    # What is settled is not held again, and not refused for what it has cost itself.
    assert isinstance(books.start("Claude-Worker-1", usd=2.0, run_usd=1.0), Reservation)
    assert books.ledger.of_run(books.run) == Spent(1.5, 10)


def test_an_attempt_of_which_nobody_wrote_the_start_is_settled_all_the_same(books):
    books.ledger.settle(books.ledger.adopted(books.run, "Claude-Worker-1", 1), Cost(1.5, "agent", 10))
    assert books.ledger.of_day() == Spent(1.5, 10)


def test_what_was_given_back_is_not_held_and_can_be_reserved_again(books):
    found = books.start("Claude-Worker-1", usd=2.0)
    books.ledger.release(found)
    assert books.ledger.of_day().is_nothing
    assert books.start("Claude-Worker-1", usd=2.0, run_usd=2.0) == found._replace(run_left=2.0)
    assert books.ledger.of_day().held_usd == 2.0


def test_the_reservation_of_a_dead_run_counts_for_what_its_record_says(books):
    books.start("Claude-Worker-1", usd=2.0, tokens=500)
    books.start("Claude-Worker-2", usd=2.0)
    assert books.start("Claude-Worker-3", usd=2.0, day_usd=4.0).can_wait
    books.dead.add(books.run.id)
    create_json(books.run.attempt("Claude-Worker-1", 1).record, {"usage": used(0.75, 70)})
    assert books.ledger.of_day() == Spent(0.75, 70)
    assert isinstance(books.start("Claude-Worker-3", usd=2.0, day_usd=4.0), Reservation)


def test_of_a_record_that_sums_up_its_attempts_each_is_counted_once(books):
    books.spend("Claude-Worker-1", 0.5, tokens=50)
    books.start("Claude-Worker-1", 2, usd=2.0)
    books.start("Claude-Worker-1", 3, usd=2.0)
    books.dead.add("Claude-Worker-1")
    tries = [
        {"attempt": n, "usage": used(usd, tokens)}
        for n, usd, tokens in ((1, 9.0, 9), (2, 0.25, 20), (3, 0.1, 5))
    ]
    create_json(books.run.attempt("Claude-Worker-1", 3).record, {"usage": used(9.35, 34), "tries": tries})
    assert books.ledger.of_run(books.run) == Spent(0.85, 75)


def test_an_earlier_attempt_that_nobody_settled_holds_nothing(books):
    books.start("Claude-Worker-1", 1, usd=2.0)
    assert isinstance(books.start("Claude-Worker-1", 2, usd=2.0, run_usd=2.0), Reservation)
    assert books.ledger.of_run(books.run) == Spent(held_usd=2.0, held_by=1)


def test_a_runtime_or_a_slot_in_use_tells_that_a_worker_lives(books):
    ledger = Ledger(books.folder, lambda: AT)
    ledger.reserve(books.run, "Claude-Worker-1", 1, Budget(2.0), SpendingLimits())
    assert ledger.of_day().held_usd == 0.0
    with held_lock(books.run.path / "run.lock"):
        assert ledger.of_day().held_usd == 2.0
    pool = Pool(books.folder.parent / "slots", PoolLimits())
    holder = {"run": books.run.id, "worker": "Claude-Worker-1", "mark": f"{books.run.path}/Claude-Worker-1/1"}
    slot = pool.acquire_nowait("claude", holder)
    assert ledger.of_day().held_usd == 2.0
    slot.release()
    assert pool.acquire_nowait("claude", {**holder, "mark": f"{books.run.path}/Claude-Worker-11/1"})
    assert ledger.of_day().held_usd == 0.0


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=20))
def test_a_ledger_that_was_cut_anywhere_is_read_up_to_there_and_goes_on(tmp_path_factory, cut, junk):
    books = Books(tmp_path_factory.mktemp("ledger"))
    for number in range(1, 5):
        books.spend(f"Claude-Worker-{number}", 1.0)
    whole = books.path().read_bytes()
    books.path().write_bytes(whole[:cut] + junk)
    kept = [line for line in whole[:cut].splitlines(keepends=True) if line.endswith(b"\n")]
    settled = sum(b'"settled"' in line for line in kept)
    before = books.ledger.of_day().usd
    # A last line may be whole but for its end.
    assert settled <= before <= settled + 1
    books.spend("Claude-Worker-9", 1.0)
    assert books.ledger.of_day().usd == before + 1


def settled(**facts):
    known = {"event": "settled", "run": "r", "root": "/", "worker": "w", "attempt": 1, "usd": 1, "tokens": 1}
    return json.dumps({**known, **facts})


@pytest.mark.parametrize(
    "line",
    [
        "[]", "{}", '{"event": "settled"}', settled(attempt="x"), settled(root=2), settled(usd="1"),
        settled(usd=-1), settled(usd=float("inf")), settled(tokens=[1]), settled(tokens="9"),
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_passed_over(books, line):
    books.spend("Claude-Worker-1", 1.0)
    with books.path().open("a") as file:
        file.write(f"{line}\n")
    assert books.ledger.of_day() == Spent(1.0, 1000)


def test_a_disk_that_is_full_is_named_with_the_ledger_and_spoils_nothing(books):
    books.spend("Claude-Worker-1", 1.0)
    size = books.path().stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, hard))
    try:
        with pytest.raises(OSError, match="File too large") as failed:
            books.start("Claude-Worker-2", usd=2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.filename == str(books.path())
    assert books.path().stat().st_size == size + 40
    assert books.ledger.of_day() == Spent(1.0, 1000)
    books.start("Claude-Worker-2", usd=2.0)
    assert books.ledger.of_day().held_usd == 2.0


# A crowd

WORKER = """
import random, sys
from datetime import UTC, datetime
from pathlib import Path
from orchestrator.budget.ledger import Ledger, Reservation
from orchestrator.budget.limits import Budget
from orchestrator.budget.prices import Cost
from orchestrator.settings.values import SpendingLimits
from workers.files.run_dir import RunDir

folder, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
at = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
ledger = Ledger(folder / "orchestrate/spending", lambda: at, lambda *_: True)
run = RunDir(folder, f"20260216_1428{name}")
random.seed(name)
print("ready", flush=True)
sys.stdin.readline()
for number in range(rounds):
    found = ledger.reserve(run, f"Claude-Worker-{number}", 1, Budget(1.0), SpendingLimits(day_usd=20.0))
    if isinstance(found, Reservation):
        print("got", flush=True)
        if rounds > 1:
            ledger.settle(found, Cost(random.random(), "agent", 1000))
"""
CROWD = 15


@pytest.fixture
def crowd(tmp_path):
    """Start processes that all begin at one word."""
    begun = []

    def start(rounds):
        begun.extend(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(tmp_path), f"{number + 10}", str(rounds)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for number in range(CROWD)
        )  # fmt: skip
        for one in begun:
            assert one.stdout.readline() == "ready\n"
        for one in begun:
            one.stdin.write("go\n")
            one.stdin.flush()
        return begun

    yield start
    for one in begun:
        one.kill()
        one.communicate()


def reservations(path):
    """Return the most that was ever spent and reserved at once, counted line by line by independent code."""
    open_, spent, most = {}, 0.0, 0.0
    for line in path.read_text().splitlines():
        record = json.loads(line)
        key = record["run"], record["worker"]
        if record["event"] == "reserved":
            open_[key] = record["usd"]
        else:
            spent += record["usd"]
            del open_[key]
        most = max(most, spent + sum(open_.values()))
    return most


def test_fifteen_processes_at_once_never_pass_the_limit_of_the_day(books, crowd):
    workers = crowd(rounds=12)
    got = sum(one.communicate(timeout=PATIENCE)[0].count("got") for one in workers)
    assert [one.returncode for one in workers] == [0] * CROWD
    # 180 asked; about 40 of half a dollar each fit into 20 dollars, and at least 20 do.
    assert 20 <= got < 12 * CROWD
    assert 18.0 < reservations(books.path()) <= 20.0
    assert len(books.path().read_text().splitlines()) == 2 * got
    day = books.ledger.of_day()
    assert (day.held_usd, day.tokens) == (0.0, 1000 * got)


def test_whoever_is_killed_at_any_moment_leaves_a_ledger_that_can_be_read(books, crowd):
    workers = crowd(rounds=40)
    for number, one in enumerate(workers[:10]):
        # Each one a little further on: in the middle of a line, of a lock, between two of them.
        for _ in range(number % 3):
            one.stdout.readline()
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
    for one in workers[10:]:
        one.communicate(timeout=PATIENCE)
        assert one.returncode == 0
    day = books.ledger.of_day()
    assert day.usd + day.held_usd <= 20.0 + 1e-9
    assert day.held_by <= 10
    entries = entries_of(books.path())
    whole = [line for line in books.path().read_text().splitlines() if line.endswith("}")]
    assert len(entries) == sum('"reserved"' in line for line in whole)
    # The dead hold nothing once it is known that they are dead.
    books.dead |= {one.run.id for one in entries.values()}
    assert books.ledger.of_day().held_usd == 0.0
    assert isinstance(books.start(), Reservation)
