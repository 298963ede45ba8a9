"""The ledger of the days: a start is refused by the limit that it would pass, and by no other."""

from datetime import timedelta

import pytest
from support.ledger import AT, DAY, used

from orchestrator.budget.ledger import Reservation
from orchestrator.budget.limits import Refused, hard_limit
from orchestrator.budget.prices import Cost
from orchestrator.budget.totals import Spent, spent_on
from workers.files.run_dir import RunDir, create_json

# One start against the limits


@pytest.mark.parametrize(
    ("asked", "limits", "said"),
    [
        ({}, {"run_usd": 6.0}, None),
        ({}, {"run_usd": 5.3}, "room in the run's budget of $5.30 ($4.80 spent, $0.50 held by 1 worker)"),
        ({}, {"run_usd": 4.8}, "the run's budget of $4.80 is spent ($4.80 spent, $0.50 held by 1 worker)"),
        ({"usd": 0.7}, {"run_usd": 6.0}, None),
        ({"usd": 0.8}, {"run_usd": 6.0},
         "room in the run's budget of $6.00 for the ticket's $0.80 ($4.80 spent, $0.50 held by 1 worker)",
         ),
        ({}, {"day_usd": 5.3}, "room in the day's budget of $5.30 ($4.80 spent, $0.50 held by 1 worker)"),
        ({"tokens": 9_000}, {"run_tokens": 12_000}, None),
        ({"tokens": 9_001}, {"run_tokens": 12_000},
         ("room in the run's budget of 12.0k tokens for the ticket's 9.0k tokens (1.0k tokens spent,"
          " 2.0k tokens held by 1 worker)")),
        ({}, {"day_tokens": 3_000},
         "room in the day's budget of 3.0k tokens (1.0k tokens spent, 2.0k tokens held by 1 worker)"),
        ({"usd": 100.0, "tokens": 10**9}, {}, None),
    ],
)  # fmt: skip
def test_a_start_is_refused_by_the_limit_that_it_would_pass(books, asked, limits, said):
    books.spend("Claude-Worker-1", 4.80)
    books.start("Claude-Worker-2", usd=0.50, tokens=2000)
    found = books.start("Claude-Worker-3", **asked, **limits)
    assert (found.reason if isinstance(found, Refused) else None) == said


@pytest.mark.parametrize(
    ("limits", "limit", "can_wait"),
    [
        ({"run_usd": 5.0}, "run_usd", True), ({"run_usd": 4.8}, "run_usd", False),
        ({"run_usd": 5.0, "day_usd": 4.0}, "day_usd", False),
        ({"run_usd": 5.0, "day_usd": 5.1}, "run_usd", True),
    ],
)  # fmt: skip
def test_waiting_helps_where_others_may_give_back_what_they_hold(books, limits, limit, can_wait):
    books.spend("Claude-Worker-1", 4.80)
    held = books.start("Claude-Worker-2", usd=0.50)
    refused = books.start("Claude-Worker-3", **limits)
    assert (refused.limit, refused.can_wait) == (limit, can_wait)
    books.ledger.settle(held, Cost(0.01, "agent", 10))
    assert isinstance(books.start("Claude-Worker-3", **limits), Reservation) is can_wait


def test_a_ticket_that_no_limit_could_ever_cover_does_not_wait(books):
    books.start("Claude-Worker-1", usd=1.0)
    refused = books.start("Claude-Worker-2", usd=6.0, run_usd=5.0)
    assert refused == Refused(
        "the run's budget of $5.00 is less than the ticket's $6.00",
        can_wait=False, limit="run_usd",
    )  # fmt: skip


def test_what_earlier_attempts_cost_comes_off_the_tickets_own_budget(books):
    books.spend("Claude-Worker-1", 0.80, tokens=700)
    second = books.start("Claude-Worker-1", 2, usd=1.0, tokens=1000)
    assert (round(second.usd, 6), second.tokens) == (0.2, 300)
    books.ledger.settle(second, Cost(0.25, "agent", 200))
    third = books.start("Claude-Worker-1", 3, usd=1.0, tokens=1000)
    assert third == Refused("the ticket's budget of $1.00 is spent ($1.05 spent)", False, "ticket_usd")
    third = books.start("Claude-Worker-1", 3, tokens=900)
    assert third == Refused(
        "the ticket's budget of 900 tokens is spent (900 tokens spent)", False, "ticket_tokens"
    )


def test_an_agent_that_can_stop_itself_is_told_the_least_of_what_is_left(books):
    books.spend("Claude-Worker-1", 1.0)
    found = books.start("Claude-Worker-2", run_usd=5.0, day_usd=3.5)
    assert (found.run_left, found.day_left) == (4.0, 2.5)
    assert hard_limit(found.usd, found.run_left, found.day_left) == 2.5
    assert hard_limit(None, None, None) is None
    assert hard_limit(None, 0.00001, None) > 0  # which the CLI would take for no limit


def test_a_limit_of_the_run_minds_no_other_run_and_one_of_the_day_minds_all(books):
    other = RunDir(books.run.root, "20260216_142835")
    books.spend("Claude-Worker-1", 4.80, run=other)
    assert isinstance(books.start(run_usd=4.0), Reservation)
    assert books.start("Codex-Worker-2", day_usd=4.0).limit == "day_usd"
    elsewhere = RunDir(books.run.root / "worktree", books.run.id)
    books.spend("Claude-Worker-1", 1.0, run=elsewhere)
    assert books.ledger.of_run(books.run).usd == 0.0


def test_tokens_that_nobody_priced_are_counted_and_said_to_be_so(books):
    books.spend("Codex-Worker-1", None, tokens=8_100)
    books.spend("Claude-Worker-1", 1.25, tokens=4_200)
    assert books.ledger.of_day().in_words() == "$1.25, 12.3k tokens (8.1k not priced)"
    assert books.start("Codex-Worker-2", day_usd=1.25).limit == "day_usd"
    assert isinstance(books.start("Codex-Worker-2", day_usd=1.26), Reservation)


# Days


def test_a_day_begins_at_midnight_utc_and_an_attempt_belongs_to_the_day_of_its_start(books):
    books.at = AT.replace(hour=23, minute=59)
    late = books.start("Claude-Worker-1", usd=2.0)
    books.at += timedelta(minutes=2)
    assert isinstance(books.start("Claude-Worker-2", usd=3.0, day_usd=3.0), Reservation)
    books.ledger.settle(late, Cost(1.5, "agent", 10))
    assert spent_on(books.folder, DAY).usd == 1.5
    # The run's own limit has no midnight.
    assert books.ledger.of_run(books.run) == Spent(1.5, 10, 0, 3.0, 0, 1)
    assert books.start("Claude-Worker-3", usd=1.0, run_usd=5.0).limit == "run_usd"


def test_a_start_that_a_crash_put_off_past_midnight_is_counted_on_one_day(books):
    books.at = AT.replace(hour=23, minute=59)
    books.start("Claude-Worker-1", usd=2.0)
    books.at += timedelta(minutes=2)
    again = books.start("Claude-Worker-1", usd=2.0, run_usd=2.0)
    assert again.day == "2026-02-17"
    books.ledger.settle(again, Cost(1.0, "agent", 10))
    create_json(books.run.attempt("Claude-Worker-1", 1).record, {"usage": used(1.0)})
    assert spent_on(books.folder, DAY).is_nothing
    assert books.ledger.of_run(books.run).usd == 1.0
