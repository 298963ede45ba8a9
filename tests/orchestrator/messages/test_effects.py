"""Whose answers and receipts change a blocker: those of the lead and the runtime, and of nobody else."""

import pytest
from support.mail import COORDINATOR, LEAD, ONE, TWO
from support.phases import PHASE_STATUS, STATUS_PATH, said

from orchestrator.messages.effects import Effect, OwnedPhase, effect_of, effect_of_answer
from orchestrator.state.phases.phase_status.read import read
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


@pytest.mark.parametrize(
    ("number", "kind", "plan", "refused"),
    [
        (3, "plan_complete", "02-01", False),
        (6, "plan_started", "02-02", False),
        (7, "blocker", "02-02", False),
        (8, "plan_complete", "02-01", True),
        (8, "plan_started", "02-02", True),
    ],
)
def test_what_the_files_show_already_is_neither_done_nor_refused_once_more(number, kind, plan, refused):
    """A runtime that was killed had recorded it, and had not acknowledged it."""
    phase = PHASE._replace(status=read(STATUS_PATH, PHASE_STATUS.encode()))
    record = Record(said(number), stamp(2000), ONE, COORDINATOR, kind, plan=plan, facts={"title": "t"})
    found = effect_of(record, phase)
    assert (found.event, found.completes, bool(found.refused)) == (None, False, refused)
