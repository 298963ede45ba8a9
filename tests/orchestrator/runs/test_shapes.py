"""Values from JSON: what an annotation permits is read, and nothing else."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import pytest

from orchestrator.runs._shapes import (
    Amount,
    Count,
    Inside,
    Name,
    Time,
    UnsoundError,
    as_json,
    text,
    typed,
    unread,
)

Word = Literal["a", "b"]
AT = "2026-02-16T14:28:00+00:00"
ODD = [None, True, 0, -1, 10**30, 1.5, math.nan, math.inf, "", "a", "c", AT, [], ["a"], [1], [None], [{}],
       [{"name": "a"}], {}, {"a": "b"}, {"a": None}, {"a": ["b"]}, {"a": 1}, {"name": "a"}]  # fmt: skip


class Inner(NamedTuple):
    """What the field of another one holds."""

    name: str


def soundly(annotation, value):
    """Return what a field of this annotation makes of a value; `...` where it is refused."""

    class Kind(NamedTuple):
        one: annotation
        two: int

    try:
        made = typed(Kind, {"one": value, "two": 2})
    except UnsoundError:
        return ...
    assert as_json(made) == {"one": value, "two": 2}
    return made.one


@pytest.mark.parametrize(
    ("annotation", "permitted"),
    [
        (str, lambda one: type(one) is str),
        (int, lambda one: type(one) is int),
        (bool, lambda one: type(one) is bool),
        (str | None, lambda one: one is None or type(one) is str),
        (Word, lambda one: one == "a"),
        (Word | None, lambda one: one is None or one == "a"),
        (Annotated[Word, text], lambda one: type(one) is str),
        (Count, lambda one: type(one) is int and one == 0),
        (Amount, lambda one: type(one) in (int, float) and 0 <= one < 10**15),
        (Amount | None, lambda one: one is None or (type(one) in (int, float) and 0 <= one < 10**15)),
        (Name, lambda one: type(one) is str and one != ""),
        (Time, lambda one: one == AT),
        (Time | None, lambda one: one is None or one == AT),
        (Inside | None, lambda one: one is None or type(one) is str),
        (tuple[str, ...], lambda one: one in ([], ["a"])),
        (tuple[str, ...] | None, lambda one: one in (None, [], ["a"])),
        (tuple[str | None, ...], lambda one: one in ([], ["a"], [None])),
        (tuple[Word, ...], lambda one: one in ([], ["a"])),
        (tuple[Inner, ...], lambda one: one in ([], [{"name": "a"}])),
        (tuple[Inner, ...] | None, lambda one: one in (None, [], [{"name": "a"}])),
        (Inner, lambda one: one == {"name": "a"}),
        (Inner | None, lambda one: one in (None, {"name": "a"})),
        (Mapping[str, str], lambda one: one in ({}, {"a": "b"}, {"name": "a"})),
        (Mapping[str, str | None], lambda one: one in ({}, {"a": "b"}, {"a": None}, {"name": "a"})),
        (Mapping[str, tuple[str, ...]], lambda one: one in ({}, {"a": ["b"]})),
    ],
)  # fmt: skip
def test_a_field_takes_what_its_annotation_permits_and_nothing_else(annotation, permitted):
    for value in ODD:
        assert (soundly(annotation, value) is not ...) == bool(permitted(value)), value


def test_a_field_with_a_default_may_lack_and_one_without_may_not():
    class Some(NamedTuple):
        must: str
        may: tuple[Inner, ...] = (Inner("x"),)
        left: Annotated[tuple[Inner, ...], unread] = ()

    assert typed(Some, {"must": "a", "other": 1}) == Some("a")
    assert typed(Some, {"must": "a", "other": 1, "another": 2, "left": "whatever"}) == Some("a")
    for lacking in ({}, {"may": []}, {"may": [], "left": [], "other": 1}, "a", ["a"], None):
        with pytest.raises(UnsoundError):
            typed(Some, lacking)


def test_a_type_that_was_right_once_does_not_excuse_another_value():
    class Some(NamedTuple):
        count: Count
        word: Word

    assert typed(Some, {"count": 1, "word": "a"}) == Some(1, "a")
    for wrong in ({"count": -1, "word": "a"}, {"count": 1, "word": "c"}, {"count": True, "word": "a"}):
        with pytest.raises(UnsoundError):
            typed(Some, wrong)
