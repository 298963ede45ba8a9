"""Values: made, compared, changed as NamedTuples are, and refused where a field is missing or unknown."""

from typing import NamedTuple

import pytest

from tickets.value import Value, as_json


class Point(Value):
    """A value of the test."""

    x: int
    y: int = 0
    name: str = ""


class Same(NamedTuple):
    """The same as a NamedTuple."""

    x: int
    y: int = 0
    name: str = ""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((1,), {}),
        ((1, 2), {}),
        ((1, 2, "a"), {}),
        ((), {"x": 1}),
        ((1,), {"name": "b"}),
        ((1, 2), {"name": "c"}),
    ],
)
def test_a_value_is_what_a_named_tuple_would_be(given, named):
    made, same = Point(*given, **named), Same(*given, **named)
    assert (made.x, made.y, made.name) == (same.x, same.y, same.name)
    assert made == same
    assert hash(made) == hash(same)
    assert made._replace(y=7) == same._replace(y=7)
    assert type(made._replace(x=3)) is Point
    assert made._asdict() == same._asdict() == as_json(made)
    assert repr(made) == repr(same).replace("Same", "Point")


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), ((1, 2, "a", 4), {}), ((1,), {"z": 2}), ((1,), {"x": 2}), ((1, 2, "a"), {"y": 2})],
)
def test_a_field_that_is_missing_unknown_or_given_twice_is_refused(given, named):
    with pytest.raises(TypeError):
        Same(*given, **named)
    with pytest.raises(TypeError):
        Point(*given, **named)


def test_an_unknown_field_cannot_be_replaced():
    with pytest.raises(TypeError, match="has no field z"):
        Point(1)._replace(z=1)
