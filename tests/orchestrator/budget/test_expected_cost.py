"""What workers without a budget of their own may come to holds up those that are to start."""

from datetime import timedelta

import pytest
from support.ledger import DAY

from orchestrator.budget.estimate import Came, Expected, means
from orchestrator.budget.ledger import Reservation
from orchestrator.budget.limits import Refused, hard_limit
from orchestrator.budget.prices import Cost
from orchestrator.budget.totals import spent_by, spent_on
from workers.files.run_dir import RunDir


def came(worker, usd, tokens, run="1"):
    return Came(("/", run, worker), usd, tokens)


@pytest.mark.parametrize(
    ("attempts", "found"),
    [
        ([], {}),
        ([came("A-Worker-1", 1.0, 100)], {"A": Expected(1.0, 100)}),
        ([came("A-Worker-1", 1.0, 100), came("A-Worker-2", 2.0, 300)], {"A": Expected(1.5, 200)}),
        # All attempts of a worker together, and a run's worker is not another one's.
        ([came("A-Worker-1", 1.0, 100), came("A-Worker-1", 2.0, 300)], {"A": Expected(3.0, 400)}),
        ([came("A-Worker-1", 1.0, 9), came("A-Worker-1", 2.0, 9, "2")], {"A": Expected(1.5, 9)}),
        ([came("B-Worker-1", None, 100), came("B-Worker-2", 2.0, 50)], {"B": Expected(2.0, 75)}),
        ([came("B-Worker-1", 1.0, 100), came("A-Worker-1", None, 50)],
         {"B": Expected(1.0, 100), "A": Expected(0.0, 50)}),
        # A refused request, and one of whom only a part is known, say nothing of what a worker costs.
        ([came("A-Worker-1", 0.0, 0), came("A-Worker-2", 2.0, 10)], {"A": Expected(2.0, 10)}),
        ([came("A-Worker-1", 0.1, 5), came("A-Worker-1", None, None)], {}),
    ],
)  # fmt: skip
def test_a_kind_of_worker_costs_what_its_workers_came_to_on_the_average(attempts, found):
    assert means(attempts) == found


def test_no_more_start_once_what_was_spent_and_is_expected_comes_to_the_limit(books):
    books.spend("Claude-Worker-1", 2.00)
    for number in (2, 3, 4):
        assert isinstance(books.start(f"Claude-Worker-{number}", run_usd=8.0), Reservation)
    refused = books.start("Claude-Worker-5", run_usd=8.0)
    said = "room in the run's budget of $8.00 ($2.00 spent, about $6.00 expected of workers that are out)"
    assert refused == Refused(said, can_wait=True, limit="run_usd")
    # One of them was cheaper than was expected of it: there is room again.
    cheap = books.start("Claude-Worker-2", run_usd=8.0)
    books.ledger.settle(cheap, Cost(0.50, "agent", 10))
    assert isinstance(books.start("Claude-Worker-5", run_usd=8.0), Reservation)


def test_an_estimate_alone_ends_nobody_and_cuts_nobody_short(books):
    books.spend("Claude-Worker-1", 7.50)
    alone = books.start("Claude-Worker-2", run_usd=8.0)
    assert isinstance(alone, Reservation)
    assert books.start("Claude-Worker-3", run_usd=8.0).can_wait
    books.ledger.settle(alone, Cost(0.10, "agent", 10))
    found = books.start("Claude-Worker-3", run_usd=8.0)
    assert hard_limit(found.usd, found.run_left, found.day_left) == pytest.approx(0.40)
    books.start("Claude-Worker-4", usd=0.1)
    assert books.start("Claude-Worker-5", run_usd=20.0).run_left == pytest.approx(20.0 - 7.6 - 0.1)


def test_what_a_kind_cost_on_an_earlier_day_and_in_another_run_is_expected_of_the_first_of_a_run(books):
    books.spend("Claude-Worker-1", 5.00)
    books.at += timedelta(days=2)
    other = RunDir(books.run.root, "20260218_142834")
    assert isinstance(books.start("Claude-Worker-1", run=other, run_usd=4.0), Reservation)
    assert books.start("Claude-Worker-2", run=other, run_usd=4.0).can_wait
    # Of codex nobody knows anything: it holds nothing, and is held up by what is expected of others.
    assert books.start("Codex-Worker-1", run=other, run_usd=4.0).can_wait
    assert isinstance(books.start("Codex-Worker-1", run=other, run_usd=5.01), Reservation)
    assert isinstance(books.start("Codex-Worker-2", run=other, run_usd=5.01), Reservation)
    # What the run itself has seen stands before that.
    cheap = books.start("Claude-Worker-1", run=other, run_usd=4.0)
    books.ledger.settle(cheap, Cost(1.0, "agent", 10))
    for number in (2, 3, 4):
        assert isinstance(books.start(f"Claude-Worker-{number}", run=other, run_usd=4.0), Reservation)
    assert books.start("Claude-Worker-5", run=other, run_usd=4.0).can_wait


def test_a_ticket_with_a_budget_of_its_own_waits_for_what_is_expected_of_others(books):
    books.spend("Claude-Worker-1", 1.00)
    out = books.start("Claude-Worker-2")
    refused = books.start("Claude-Worker-3", usd=1.50, day_usd=3.0)
    assert (refused.can_wait, refused.limit) == (True, "day_usd")
    assert "for the ticket's $1.50 ($1.00 spent, about $1.00 expected" in refused.reason
    books.ledger.settle(out, Cost(0.5, "agent", 10))
    assert isinstance(books.start("Claude-Worker-3", usd=1.50, day_usd=3.0), Reservation)


def test_tokens_are_expected_too_and_of_the_dead_nothing_is(books):
    books.spend("Codex-Worker-1", None, tokens=1000)
    books.start("Codex-Worker-2")
    refused = books.start("Codex-Worker-3", run_tokens=2000)
    assert refused.reason == (
        "room in the run's budget of 2.0k tokens (1.0k tokens spent, about 1.0k tokens expected of workers "
        "that are out)"
    )
    books.dead.add("Codex-Worker-2")
    assert isinstance(books.start("Codex-Worker-3", run_tokens=2000), Reservation)


def test_what_is_expected_is_said_with_what_is_spent(books):
    books.spend("Claude-Worker-1", 1.00)
    books.start("Claude-Worker-2")
    books.start("Claude-Worker-3", usd=0.5)
    said = "$1.00, 1.0k tokens, $0.50 held by 1 worker, about $1.00 expected of workers that are out"
    live = lambda *_: True  # noqa: E731 - it says all
    assert spent_on(books.folder, DAY, live).in_words() == said
    assert [one.in_words() for one in spent_by(books.folder, [books.run], live)] == [said]
