"""Records: what is written, and what is valid where it is read."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mail import ONE, TWO, line_of

from workers.messages.record import (
    MAX_BODY,
    Record,
    Void,
    are_facts,
    clean,
    decode,
    encode,
    is_participant,
    milliseconds,
    participant_of,
    stamp,
)

EXAMPLE = (
    rb'{"v":1,"id":"20260216_142834.Claude-Worker-1:7","at":"2026-02-16T14:33:40.112Z",'
    rb'"from":"20260216_142834.Claude-Worker-1","to":"20260216_142834.coordinator","type":"blocker",'
    rb'"phase":"phase-2","plan":"02-02","re":null,"try":1,'
    rb'"body":"grammar.y names two licences.\nWhich one holds for what we derive from it?",'
    rb'"facts":{"title":"Which licence has the grammar?","task":"Left recursion",'
    rb'"attempted":"read LICENSE and the header of grammar.y","needs":"a yes or no to deriving from it",'
    rb'"mode":"skip"}}'
)


def test_a_record_is_written_as_it_was_read():
    record = decode(EXAMPLE, ONE)
    assert isinstance(record, Record)
    assert record.sender == ONE
    assert record.number == 7
    assert record.facts["mode"] == "skip"
    assert encode(record) == EXAMPLE


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.none(), max_size=4))
def test_what_is_written_is_read_as_the_same_record(body, facts):
    record = Record(f"{ONE}:1", stamp(0), ONE, TWO, "chat", None, None, None, 1, body[:4000], facts)
    line = encode(record)
    assert line.isascii()
    assert b"\n" not in line
    assert decode(line, ONE).body == clean(body[:4000])


PLAIN = st.text(st.characters(max_codepoint=0x7F), max_size=12) | st.sampled_from(
    ("x" * 33, "x" * 65, 'a"b', "\\")
)


@given(
    st.sampled_from((f"{ONE}:7", f"{ONE}:07", f"{ONE}:9999999999", f"{TWO}:7")),
    st.sampled_from((TWO, "20260216_142834.all", "nobody")),
    st.sampled_from(("chat", "ack", "gossip")),
    st.tuples(
        PLAIN | st.none(),
        PLAIN | st.none(),
        st.sampled_from((None, f"{TWO}:1", "x")),
        st.integers(0, 100),
        PLAIN,
    ),
    st.sampled_from(({}, {"how": "shown"}, {"how": "a b"}, {"how": "shown", "n": [1, None]}, {"a": "\\"})),
)
def test_a_line_as_we_write_it_is_read_as_one_with_blanks(id_, to, kind, rest, facts):
    line = encode(Record(id_, stamp(0), ONE, to, kind, *rest, facts))
    other = json.dumps(json.loads(line)).encode()
    assert decode(line, ONE) == decode(other, ONE)
    assert decode(line, TWO) == decode(other, TWO)


@pytest.mark.parametrize(
    "end",
    [b'"facts":{},"to":{}}', b'"facts":{"a":1},"facts":{"b":2}}', b'"facts":{"a":1e999}}', b'"facts":{{}}'],
)
def test_what_follows_the_facts_is_no_part_of_them(end):
    line = line_of()
    line = line[: line.index(b'"facts"')] + end
    assert decode(line, ONE) == decode(line.replace(b'"v":1', b'"v": 1'), ONE)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "is not a JSON object"),
        (b"no JSON", "is not a JSON object"),
        (b"[1]", "is not a JSON object"),
        (EXAMPLE[:-1], "is not a JSON object"),
        (b"\xff" + EXAMPLE, "is not a JSON object"),
        (EXAMPLE.decode().encode("utf-16"), "is not a JSON object"),
        (EXAMPLE.replace(b"grammar.y", b"gra\0mar.y"), "is not a JSON object"),
        (b'{"v":1,"body":' + b"[" * 100_000, "is not a JSON object"),
        (line_of(facts={"n": float("nan")}), "is not a JSON object"),
        (line_of(v=2), "has another version than 1"),
        (line_of(v=True), "has another version than 1"),
        (line_of(v=...), "has another version than 1"),
        (line_of(to=...), "lacks a key: to"),
        (line_of(try_=...), "lacks a key: try"),
        (line_of(body=None), "has an invalid value: body"),
        (line_of(body="x" * (MAX_BODY + 1)), "has an invalid value: body"),
        (line_of(body="é" * (MAX_BODY // 2) + "x"), "has an invalid value: body"),
        (line_of(try_=0), "has an invalid value: try"),
        (line_of(try_=100), "has an invalid value: try"),
        (line_of(try_=True), "has an invalid value: try"),
        (line_of(try_="1"), "has an invalid value: try"),
        (line_of(type="gossip"), "has an invalid value: type"),
        (line_of(type=["chat"]), "has an invalid value: type"),
        (line_of(to="Codex-Worker-1"), "has an invalid value: to"),
        (line_of(to=7), "has an invalid value: to"),
        (line_of(re="Codex-Worker-1:1"), "has an invalid value: re"),
        (line_of(phase="p" * 65), "has an invalid value: phase"),
        (line_of(plan="p" * 33), "has an invalid value: plan"),
        (line_of(at="2026-02-16T14:33:40Z"), "has an invalid value: at"),
        (line_of(at="2026-13-16T14:33:40.112Z"), "has an invalid value: at"),
        (line_of(at="२०२६-02-16T14:33:40.112Z"), "has an invalid value: at"),
        (line_of(id=f"{ONE}:0"), "has an invalid value: id"),
        (line_of(id=f"{ONE}:01"), "has an invalid value: id"),
        (line_of(facts=[]), "has an invalid value: facts"),
        (line_of(facts={"text": "x" * 65_536}), "has an invalid value: facts"),
        (line_of(facts={"a": json.loads("[" * 40 + "]" * 40)}), "has an invalid value: facts"),
        (line_of(facts={"n": 1}).replace(b'"n":1', b'"n":1e999'), "is not a JSON object"),
        (line_of(from_=TWO), "says it is from Codex-Worker-1"),
        (line_of(from_="20260216_142834.lead"), "says it is from lead"),
        (line_of(from_="20260216_150000.lead"), "says it is from 20260216_150000.lead"),
        (line_of(from_="20260216_142834.all"), "has an invalid value: from"),
        (line_of(id=f"{TWO}:1"), "has an id of Codex-Worker-1"),
        (line_of(id="20260216_142834.Claude-Worker-10:1"), "has an id of Claude-Worker-10"),
        (line_of(body="x", more="y" * 262_144), "has more than 262,144 bytes"),
        (line_of(facts={"n": 1}).replace(b'"n":', b'"n":' + b" " * 262_144), "has more than 262,144 bytes"),
        (b"x" * 1_000_000, "has more than 262,144 bytes"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_of_its_log_is_void_and_says_why(line, why):
    found = decode(line, ONE)
    assert isinstance(found, Void)
    assert str(found) == why


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (line_of(body="x" * MAX_BODY), "x" * MAX_BODY),
        (line_of(colour="red", facts={"later": [1]}), "hello"),
        (line_of(to="20260216_142834.all"), "hello"),
        (line_of(to="20260216_142900_12.lead"), "hello"),
        (line_of(body="a\0b\ud800c\r\nd\re"), "a\ufffdb\ufffdc\nd\ne"),
        (line_of(body="\x1b[31mred\u202e"), "\x1b[31mred\u202e"),
        (line_of(body="snow ☃").decode().encode().replace(rb"\u2603", "☃".encode()), "snow ☃"),
        (json.dumps(json.loads(line_of()), indent=None).encode(), "hello"),
    ],
)
def test_what_else_a_record_may_hold_is_read(line, body):
    found = decode(line, ONE)
    assert isinstance(found, Record), found
    assert found.body == body
    found.body.encode()


def test_facts_are_cleaned_too_wherever_they_hold_text():
    found = decode(line_of(facts={"a\0": ["x\ud800", {"b": "\r\n"}], "n": 1}), ONE)
    assert found.facts == {"a\ufffd": ["x\ufffd", {"b": "\n"}], "n": 1}


@given(st.integers(0, 4_102_444_800_000))
def test_a_time_is_written_and_read_to_the_millisecond(at):
    text = stamp(at)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert milliseconds(text) == at


@given(st.integers(0, 4_102_444_800_000), st.integers(0, 4_102_444_800_000))
def test_times_are_ordered_as_their_texts(one, two):
    assert (one < two) == (stamp(one) < stamp(two))


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("20260216_142834.Claude-Worker-1.jsonl", ONE),
        ("20260216_142834_2.lead.jsonl", "20260216_142834_2.lead"),
        ("20260216_142834.all.jsonl", None),
        ("20260216_142834.who.json", None),
        ("20260216_142834.Claude-Worker-1.jsonl.tmp", None),
        ("20260216_142834.Claude Worker.jsonl", None),
        ("20260216_142834.-x.jsonl", None),
        ("20260216_142834..jsonl", None),
        (".20260216_142834.x.jsonl", None),
        ("20260216_142834.x\n.jsonl", None),
    ],
)
def test_the_name_of_a_log_is_that_of_its_participant(name, who):
    assert participant_of(name) == who


def test_all_is_no_participant():
    assert is_participant(ONE)
    assert not is_participant("20260216_142834.all")


@pytest.mark.parametrize("count", [1, 5_459, 5_460, 5_461, 6_000])
@pytest.mark.parametrize("text", ["x", "\N{GRINNING FACE}", '"', "\0"])
def test_facts_have_as_many_bytes_as_they_are_written_in(count, text):
    facts = {"how": text * count}
    assert are_facts(facts) == (len(json.dumps(facts, separators=(",", ":"))) <= 65_536)
