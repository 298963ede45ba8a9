"""`[budget] worker_usd` is reserved for workers without a budget of their own, and limits none of them."""

import pytest
from support.faults import step, ticket
from support.ledger import DAY

from orchestrator.budget.ledger import Reservation
from orchestrator.budget.limits import Refused, hard_limit
from orchestrator.budget.prices import Cost
from orchestrator.budget.totals import Spent, spent_by, spent_on


def test_no_more_start_than_the_limit_has_room_for(books):
    books.spend("Claude-Worker-1", 2.00)
    for number in (2, 3, 4):
        assert isinstance(books.start(f"Claude-Worker-{number}", worker_usd=2.0, run_usd=8.0), Reservation)
    refused = books.start("Claude-Worker-5", worker_usd=2.0, run_usd=8.0)
    said = (
        "room in the run's budget of $8.00 for the worker's reserve of $2.00 "
        "($2.00 spent, $6.00 held by 3 workers)"
    )
    assert refused == Refused(said, can_wait=True, limit="run_usd")
    # One of them was cheaper: there is room again.
    cheap = books.start("Claude-Worker-2", worker_usd=2.0, run_usd=8.0)
    books.ledger.settle(cheap, Cost(0.0, "agent", 10))
    assert isinstance(books.start("Claude-Worker-5", worker_usd=2.0, run_usd=8.0), Reservation)


def test_it_is_no_limit_of_the_worker_and_comes_off_what_others_may_use(books):
    alone = books.start("Claude-Worker-1", worker_usd=2.0, run_usd=8.0)
    assert (alone.usd, alone.run_left) == (None, 8.0)
    assert hard_limit(alone.usd, alone.run_left, alone.day_left) == 8.0
    assert books.start("Claude-Worker-2", usd=1.0, run_usd=8.0).run_left == pytest.approx(6.0)
    # What a worker has cost beyond it takes no start of its own away.
    books.ledger.settle(alone, Cost(3.0, "agent", 10))
    assert isinstance(books.start("Claude-Worker-1", 2, worker_usd=2.0, run_usd=8.0), Reservation)


def test_a_budget_of_its_own_stands_before_it(books):
    found = books.start("Claude-Worker-1", usd=0.5, worker_usd=2.0)
    assert found.usd == 0.5
    assert books.ledger.of_run(books.run) == Spent(held_usd=0.5, held_by=1)


def test_a_ticket_with_a_budget_of_its_own_waits_for_what_is_reserved_for_others(books):
    books.spend("Claude-Worker-1", 1.00)
    out = books.start("Claude-Worker-2", worker_usd=1.0)
    refused = books.start("Claude-Worker-3", usd=1.50, day_usd=3.0)
    assert (refused.can_wait, refused.limit) == (True, "day_usd")
    assert "for the ticket's $1.50 ($1.00 spent, $1.00 held by 1 worker" in refused.reason
    books.ledger.settle(out, Cost(0.5, "agent", 10))
    assert isinstance(books.start("Claude-Worker-3", usd=1.50, day_usd=3.0), Reservation)


def test_nothing_is_reserved_where_it_is_left_out_and_nothing_for_the_dead(books):
    books.start("Claude-Worker-1")
    assert books.ledger.of_run(books.run) == Spent()
    assert isinstance(books.start("Claude-Worker-2", worker_usd=3.0, run_usd=4.0), Reservation)
    assert books.start("Claude-Worker-3", worker_usd=3.0, run_usd=4.0).can_wait
    books.dead.add("Claude-Worker-2")
    assert isinstance(books.start("Claude-Worker-3", worker_usd=3.0, run_usd=4.0), Reservation)


def test_no_waiting_helps_where_what_is_left_is_less(books):
    books.spend("Claude-Worker-1", 3.00)
    refused = books.start("Claude-Worker-2", worker_usd=2.0, run_usd=4.0)
    assert (
        refused.reason
        == "the run's budget of $4.00 has no room for the worker's reserve of $2.00 ($3.00 spent)"
    )
    assert not refused.can_wait


def test_it_is_shown_as_held(books):
    books.spend("Claude-Worker-1", 1.00)
    books.start("Claude-Worker-2", worker_usd=1.0)
    books.start("Claude-Worker-3", usd=0.5)
    said = "$1.00, 1.0k tokens, $1.50 held by 2 workers"
    live = lambda *_: True  # noqa: E731 - all of them
    assert spent_on(books.folder, DAY, live).in_words() == said
    assert [one.in_words() for one in spent_by(books.folder, [books.run], live)] == [said]


def test_a_run_starts_one_after_the_other_where_there_is_room_for_one(rehearsal):
    claude = ticket(step("answer", **{"in": 100_000, "out": 0}))
    settings = "[budget]\nrun_usd = 5.00\nworker_usd = 3.00\n"
    lab = rehearsal.prepare_with({"claude-1": claude, "claude-2": claude}, settings)
    document = lab.run()
    assert [one["outcome"] for one in document["workers"]] == ["complete"] * 2
    assert any("for the worker's reserve of $3.00" in record["reason"] for record in lab.journal("held"))
    plan = lab.lab.call("plan", "phase-1", "--again", "--json").document
    assert plan["budget"]["worker_usd"] == 3.0
    said = "budget: $5.00 a run, $3.00 reserved for each worker without a budget of its own"
    assert said in lab.lab.call("plan", "phase-1", "--again").out


def test_more_than_a_run_may_cost_is_warned_of_beforehand(rehearsal):
    settings = "[budget]\nrun_usd = 5.00\nworker_usd = 6.00\n"
    lab = rehearsal.prepare_with({"claude-1": ticket(), "claude-2": ticket(budget_usd=1.0)}, settings)
    (one,) = lab.lab.call("plan", "phase-1", "--json").document["problems"]
    assert one["what"] == "claude-1 can never start: `worker_usd` of $6.00 is more than the run's, $5.00"
    assert one["do"] == "lower `worker_usd`, or raise `run_usd` below `[budget]`"
