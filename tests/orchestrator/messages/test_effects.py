"""Whose answers and receipts change a blocker: those of the lead and the runtime, and of nobody else."""

import pytest
from support.mail import COORDINATOR, LEAD, ONE, TWO

from orchestrator.messages.effects import Effect, OwnedPhase, effect_of_answer
from workers.messages.record import Record, stamp

ASKED = Record(f"{ONE}:1", stamp(0), ONE, COORDINATOR, "blocker", facts={"title": "Which licence?"})
PHASE = OwnedPhase("phase-2", "phase-2", ONE, "transitions", None, ())


def word(sender, kind, **facts):
    return Record(f"{sender}:1", stamp(1000), sender, ONE, kind, re=ASKED.id, body="MIT.", facts=facts)


@pytest.mark.parametrize(
    ("sender", "kind", "facts", "event"),
    [
        (LEAD, "answer", {}, "BlockerAnswered"),
        (COORDINATOR, "answer", {}, "BlockerAnswered"),
        (TWO, "answer", {}, "NoneType"),
        ("20260216_150000.lead", "answer", {}, "NoneType"),
        (LEAD, "chat", {}, "NoneType"),
        (LEAD, "ack", {"how": "handled"}, "BlockerClosed"),
        (LEAD, "ack", {"how": "shown"}, "NoneType"),
        (COORDINATOR, "ack", {"how": "handled"}, "NoneType"),
        (TWO, "ack", {"how": "handled"}, "NoneType"),
    ],
)
def test_a_blocker_is_answered_or_closed_by_those_whose_word_counts(sender, kind, facts, event):
    assert type(effect_of_answer(word(sender, kind, **facts), ASKED, PHASE).event).__name__ == event


def test_an_answer_to_something_else_changes_no_blocker():
    question = ASKED._replace(type="question")
    assert effect_of_answer(word(LEAD, "answer"), question, PHASE) == Effect()
    assert effect_of_answer(word(LEAD, "answer"), ASKED._replace(sender=TWO), PHASE) == Effect()
    assert effect_of_answer(word(LEAD, "answer"), None, PHASE) == Effect()
