"""The chat log of a run: every message once, cut only where it would be too large."""

import json

import pytest
from support.phases import RUN, WORKER, at

from orchestrator.state.events import ChatMessage, RunClosed, RunIntegrated
from orchestrator.state.phases.chat_log import CUT, KEYS, LARGEST, changes, log_of, needs, problems

PATH = f"phases/phase-2/chat/{RUN}.jsonl"
ASKED = ChatMessage(
    f"{WORKER}:7", "2026-02-16T14:33:40.112Z", WORKER, f"{RUN}.lead", "question", "phase-2", "02-02", None,
    "Which licence?\nMIT?", "answered", (f"{RUN}.lead:3",),
)  # fmt: skip


def integrated(*chat, phase="phase-2"):
    return RunIntegrated(RUN, phase, at("15:00:00"), "Ada", (), None, chat=chat)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_each_message_is_one_line_with_the_keys_in_their_order():
    (line,) = lines(log_of([ASKED]))
    assert tuple(line) == KEYS
    assert (line["from"], line["answered_by"], line["body"]) == (WORKER, [f"{RUN}.lead:3"], ASKED.body)
    assert (line["re"], line["stands"]) == (None, "answered")


def test_a_run_that_is_recorded_writes_its_chat():
    event = integrated(ASKED, phase="Phase 2 - Core")
    assert needs({}, event) == (PATH,)
    made = changes({PATH: None}, event)
    assert made == {PATH: log_of([ASKED])}
    assert changes(made, event) == {}
    later = integrated(ASKED, ASKED._replace(id=f"{WORKER}:8"))
    assert len(lines(changes(made, later)[PATH])) == 2


def test_a_run_without_messages_writes_none():
    assert (needs({}, integrated()), changes({}, integrated())) == ((), {})
    closed = RunClosed(RUN, at("15:00:00"), "Ada", "cancelled", "phase-2")
    assert (needs({}, closed), changes({}, closed)) == ((), {})


def test_the_longest_bodies_are_cut_first_and_only_as_many_as_needed():
    bodies = [400_000, 300_000, 500_000, 100, 20_000]
    text = log_of([ASKED._replace(id=f"x:{number}", body="x" * size) for number, size in enumerate(bodies)])
    found = lines(text)
    assert [len(one["body"]) for one in found] == [400_000, 300_000, CUT, 100, 20_000]
    assert [one.get("cut") for one in found] == [None, None, True, None, None]
    assert len(text) <= LARGEST


def test_short_bodies_stay_whole_in_any_number():
    text = log_of([ASKED._replace(body="é" * CUT)] * 5000)
    assert len(text) > LARGEST
    assert not any("cut" in one for one in lines(text))


@pytest.mark.parametrize("line", ["{", "[]", "{}", "\x00", "x"])
def test_a_line_that_is_no_message_is_named(line):
    text = log_of([ASKED]) + line.encode() + b"\n" + log_of([ASKED])
    assert [(one.place, one.severity) for one in problems(text)] == [("chat:2", "warning")]
