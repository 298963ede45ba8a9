"""Texts that come in pieces: no secret gets through, wherever it is cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.secrets import KNOWN, PLANTED, redactor

from tickets.redact import Redactor
from tickets.redact.redactor import SEARCHED
from tickets.redact.stream import HELD, Stream

WHOLE = "\n".join(["first", *(one.text for one in PLANTED), *KNOWN.values(), "täil ende", "last"])


@given(st.lists(st.integers(0, len(WHOLE)), max_size=40))
def test_any_pieces_give_what_the_whole_gives(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(WHOLE)]
    stream = Stream(redactor())
    shown = "".join(stream.feed(WHOLE[a:b]) for a, b in pairwise(places)) + stream.end()
    assert shown == redactor().clean(WHOLE)
    assert stream.counts == redactor().text(WHOLE)[1]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.kind}-{one.value[:10]!r}")
def test_a_secret_that_is_split_over_two_pieces_is_found(planted) -> None:
    for at in range(1, len(planted.text), 7):
        stream = Stream(Redactor())
        shown = stream.feed(planted.text[:at]) + stream.feed(planted.text[at:]) + stream.end()
        assert shown == Redactor().clean(planted.text)


def test_lines_are_shown_as_they_come() -> None:
    stream = Stream(Redactor())
    assert stream.feed("one\ntwo\nthr") == "one\ntwo\n"
    assert stream.feed("ee\n") == "three\n"
    assert stream.end() == ""


def test_the_lines_of_a_key_are_one_mark() -> None:
    block = next(one for one in PLANTED if "\n" in one.value)
    stream = Stream(Redactor())
    shown = [stream.line(line) for line in block.text.split("\n")]
    assert [line for line in shown if line is not None] == ["the key:", "[redacted:private-key]", "end"]


def test_a_key_that_never_ends_hides_no_other_lines() -> None:
    block = next(one for one in PLANTED if "\n" in one.value)
    stream = Stream(Redactor())
    lines = [*block.text.split("\n")[:4], "Now the tests and all of them pass", ""]
    shown = [line for line in map(stream.line, lines) if line is not None]
    assert shown == ["the key:", "[redacted:private-key]", "Now the tests and all of them pass", ""]


def test_a_line_without_an_end_is_not_held_for_ever() -> None:
    token = next(one.value for one in PLANTED if one.kind == "github-token")
    stream = Stream(Redactor())
    shown = "".join(stream.feed(piece) for piece in ["ä" * 1000, " "] * 100)
    assert len(shown.encode()) > HELD
    said = "x " * (HELD // 2 - 10) + token + " y" * HELD
    stream = Stream(Redactor())
    assert "".join(map(stream.feed, said)) + stream.end() == Redactor().clean(said)


def test_of_a_long_output_the_beginning_and_the_end_are_searched() -> None:
    token = next(one.value for one in PLANTED if one.kind == "github-token").encode()
    middle = b"line\n" * (SEARCHED // 5)
    data, counts = Redactor().output(b"a %s\n%sb %s\n%sc %s\n" % (token, middle, token, middle, token))
    assert counts == {"github-token": 2}
    assert data.count(token) == 1
    assert data.startswith(b"a [redacted:github-token]\n")
    assert data.endswith(b"c [redacted:github-token]\n")


def test_a_value_of_json_loses_its_secrets_and_keeps_its_shape() -> None:
    token = next(one.value for one in PLANTED if one.kind == "github-token")
    value = {
        "a": [f"x {token}", 1, None, True],
        f"n {token}": (f"y {token}",),
        "API_KEY": "abcDEF123456ghiJKL789",
    }
    cleaned, counts = Redactor().value(value)
    mark = "[redacted:github-token]"
    assert cleaned == {
        "a": [f"x {mark}", 1, None, True],
        f"n {mark}": (f"y {mark}",),
        "API_KEY": "[redacted:named]",
    }
    assert counts == {"github-token": 3, "named": 1}
    assert json.dumps(cleaned)
