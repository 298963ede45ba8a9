import tomllib
from pathlib import Path

import pytest

from tickets.scopes.scope import Overlap, Scope, find_overlaps

TABLE = tomllib.loads(Path(__file__).with_name("scope_pairs.toml").read_text(encoding="utf-8"))


def pairs(answer):
    return [
        pytest.param(first, second, id=f"{group}: {first} | {second}")
        for group, answers in TABLE.items()
        for first, second in answers[answer]
    ]


@pytest.mark.parametrize(("first", "second"), pairs("share"))
def test_a_pair_that_shares_a_path_has_a_witness_that_both_cover(first, second):
    one, two = Scope.of([first]), Scope.of([second])
    for witness in (one.overlaps(two), two.overlaps(one)):
        assert witness is not None
        assert one.covers(witness)
        assert two.covers(witness)
        assert not {"", ".", ".."} & set(witness.split("/"))
    [overlap] = find_overlaps({"one": one, "two": two})
    assert one.covers(overlap.witness)
    assert two.covers(overlap.witness)


@pytest.mark.parametrize(("first", "second"), pairs("apart"))
def test_a_pair_that_shares_no_path_has_no_witness(first, second):
    one, two = Scope.of([first]), Scope.of([second])
    assert one.overlaps(two) is None
    assert two.overlaps(one) is None
    assert find_overlaps({"one": one, "two": two}) == []


def test_the_table_is_large_enough_to_mean_something():
    assert len(pairs("share")) >= 180
    assert len(pairs("apart")) >= 110
    assert len({frozenset(pair.values) for answer in ("share", "apart") for pair in pairs(answer)}) >= 290


@pytest.mark.hardening
def test_one_file_spelled_in_other_ways_never_has_two_owners():
    """T40: by dots, its folder, a link, a star."""
    links = {"alias.py": "src/a.py"}
    owner = Scope.of(["src/a.py"], links=links)
    for spelling in ("./src/../src/a.py", "src", "alias.py", "src/*.py"):
        assert owner.overlaps(Scope.of([spelling], links=links)) == "src/a.py"
    for spelling in ("src/a.py2", "src2/a.py"):
        assert owner.overlaps(Scope.of([spelling], links=links)) is None


def test_overlaps_come_in_the_order_of_the_tickets_and_those_allowed_stay_out():
    scopes = {
        name: Scope.of([text])
        for name, text in (("c", "src"), ("a", "src/*.py"), ("b", "src/b.py"), ("d", "x"))
    }
    assert find_overlaps(scopes) == [
        Overlap("c", "a", "src/x.py"),
        Overlap("c", "b", "src/b.py"),
        Overlap("a", "b", "src/b.py"),
    ]
    assert find_overlaps(scopes, lambda first, second: {first, second} == {"a", "b"}) == [
        Overlap("c", "a", "src/x.py"),
        Overlap("c", "b", "src/b.py"),
    ]


def test_a_scope_does_not_overlap_itself_in_a_plan():
    assert find_overlaps({"a": Scope.of(["src/**", "src/*.py", "src/a.py"])}) == []
    assert find_overlaps({}) == []
