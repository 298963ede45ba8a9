"""The search for the worker that breaks the gate: few runs, the fewest left out, none named by chance."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.integrate._bisect import breakers

FIFTEEN = [f"w{number:02}" for number in range(1, 16)]
AROUND = 2
"""Runs beside those of the search: all together, and the base."""


def drive(order, green, needs=None):
    """Answer a search from a function of sets; return what it found and what it asked."""
    search, asked = breakers(order, needs or {}), []
    try:
        ask = next(search)
        while True:
            assert ask.again or ask.kept not in [one.kept for one in asked], "a set was asked twice"
            for name in ask.kept:
                assert set((needs or {}).get(name, ())) <= ask.kept, "a set lacks what it builds on"
            asked.append(ask)
            assert len(asked) < 500
            ask = search.send(green(ask.kept))
    except StopIteration as end:
        return end.value, asked


def test_one_breaker_of_fifteen_is_named_by_about_five_runs_more_than_there_must_be():
    figures = {}
    for breaker in FIFTEEN:
        found, asked = drive(FIFTEEN, lambda kept, breaker=breaker: breaker not in kept)
        assert found.dropped == (breaker,)
        assert found.breaking[0].members == (breaker,)
        assert found.kept == set(FIFTEEN) - {breaker}
        figures[breaker] = len(asked) + AROUND
    print("gate runs by position of the breaker:", figures)
    assert max(figures.values()) <= 9


def test_two_who_break_it_only_together_are_both_named_and_the_later_one_goes():
    for pair in combinations(FIFTEEN, 2):
        found, asked = drive(FIFTEEN, lambda kept, pair=pair: not set(pair) <= kept)
        assert found.dropped == (pair[1],)
        assert found.breaking[0].members == (pair[1], pair[0])
        assert len(asked) + AROUND <= 15


def test_one_who_breaks_it_with_each_of_three_others_goes_alone():
    found, _ = drive(FIFTEEN, lambda kept: "w02" not in kept or not kept & {"w05", "w09", "w14"})
    assert found.dropped == ("w02",)
    assert len(found.kept) == 14


def test_of_a_pair_the_one_goes_on_whom_nobody_builds():
    needs = {"w09": ["w05"], "w11": ["w09"]}
    found, _ = drive(FIFTEEN, lambda kept: not {"w02", "w05"} <= kept, needs)
    assert found.dropped == ("w02",)
    assert len(found.kept) == 14


def test_many_breakers_cost_fewer_runs_than_a_search_by_halves_for_each():
    found, asked = drive(FIFTEEN, lambda kept: not kept)
    assert (len(found.dropped), found.kept) == (15, frozenset())
    assert len(asked) + AROUND <= 40


def closed(order, needs, dropped):
    kept = []
    for name in order:
        if name not in dropped and set(needs.get(name, ())) <= set(kept):
            kept.append(name)
    return frozenset(kept)


@st.composite
def worlds(draw):
    """Draw workers, who builds on whom, and sets that break the gate, none of them empty."""
    order = FIFTEEN[: draw(st.integers(2, 7))]
    needs = {
        name: draw(st.lists(st.sampled_from(order[:at]), max_size=2, unique=True))
        for at, name in enumerate(order)
        if at
    }
    breaking = draw(st.lists(st.sets(st.sampled_from(order), min_size=1, max_size=3), min_size=1, max_size=4))
    return order, needs, breaking


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_no_fewer_could_have_been_dropped(world):
    order, needs, breaking = world

    def green(kept):
        return not any(one <= kept for one in breaking)

    found, _ = drive(order, green, needs)
    assert green(found.kept)
    assert found.kept == closed(order, needs, found.dropped)
    assert found.flaky is None
    others = (closed(order, needs, gone) for size in range(len(order)) for gone in combinations(order, size))
    assert len(found.kept) == max((len(kept) for kept in others if green(kept)), default=0)
    for one in found.breaking:  # each of its members is needed for it
        assert not green(frozenset(one.seen))


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_a_gate_without_rhyme_or_reason_comes_to_an_end_that_was_seen_green(world, random):
    order, needs, _ = world
    known = {frozenset(): True, frozenset(order): False}
    found, asked = drive(order, lambda kept: known.setdefault(kept, random.random() < 0.5), needs)
    assert found.kept == closed(order, needs, found.dropped)
    assert known[found.kept]
    assert not found.kept or found.kept in [ask.kept for ask in asked]


@given(st.integers(2, 15), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_gate_that_answers_by_chance_comes_to_an_end_and_lands_what_passed_last(count, random):
    answers = {}

    def green(kept):
        answers[kept] = random.random() < 0.7
        return answers[kept]

    found, _ = drive(FIFTEEN[:count], green)
    assert not found.kept or answers[found.kept]


def test_a_gate_that_failed_once_for_no_reason_blames_nobody():
    found, asked = drive(FIFTEEN, lambda _: True)
    assert found.dropped == ()
    assert found.kept == found.flaky == set(FIFTEEN)
    assert asked[-1] == (frozenset(FIFTEEN), True)


def test_one_alone_is_not_named_where_the_gate_passes_the_second_time():
    found, asked = drive(["w01"], lambda _: True)
    assert (found.dropped, found.breaking) == ((), ())
    assert found.kept == found.flaky == {"w01"}
    assert asked == [(frozenset({"w01"}), True)]


def test_a_gate_that_fails_once_for_one_of_many_without_the_others_blames_nobody_either():
    odd = [frozenset(FIFTEEN[:7]), frozenset({"w07"})]

    def green(kept):
        if kept in odd:
            odd.remove(kept)
            return False
        return True

    found, _ = drive(FIFTEEN, green)
    assert odd == []
    assert (found.dropped, found.breaking, found.flaky) == ((), (), {"w07"})
    assert found.kept == set(FIFTEEN)


@given(st.integers(1, 15), st.floats(0.3, 0.9), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_who_is_named_was_seen_to_break_it_twice(count, share, random):
    order = FIFTEEN[:count]
    reds = {frozenset(order): 1}

    def green(kept):
        answer = random.random() < share
        reds[kept] = reds.get(kept, 0) + (not answer)
        return answer

    found, _ = drive(order, green)
    assert all(reds[one.seen] >= 2 for one in found.breaking)
    assert {name for one in found.breaking for name in one.members} >= set(found.dropped)


def test_a_gate_that_is_red_at_one_time_and_green_at_another_blames_nobody_in_the_middle_either():
    seen = [frozenset(FIFTEEN)]

    def green(kept):
        seen.append(kept)
        return seen.count(kept) > 1 or len(kept) < 4  # the first look at more than three always fails

    found, _ = drive(FIFTEEN, green)
    assert found.dropped == ()
    assert len(found.flaky) == 4
    assert found.kept == set(FIFTEEN)
