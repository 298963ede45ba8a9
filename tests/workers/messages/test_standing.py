"""How a message stands, whose word counts for it, who still has to see it, and when it is sent again."""

import tracemalloc

import pytest
from support.mail import COORDINATOR, LEAD, ONE, RUN, THREE, TWO

from workers.messages.record import Record, stamp
from workers.messages.standing import Book, Resends

OTHER = "20260216_150000"


def new_for(post, who):
    return [message.record.id for message in post.book().new_for(who)]


def test_a_message_is_new_then_shown_then_answered(post):
    question = post.send(ONE, TWO, kind="question")
    assert post.stands(question) == "new"
    post.ack(question)
    assert post.stands(question) == "shown"
    assert post.book().get(question.id).is_open
    post.send(TWO, ONE, kind="answer", re=question)
    assert post.stands(question) == "answered"
    assert not post.book().get(question.id).is_open


@pytest.mark.parametrize("order", [("shown", "handled"), ("handled", "shown")])
def test_the_stronger_receipt_counts_whenever_it_came(post, order):
    message = post.send(ONE, COORDINATOR, kind="plan_started")
    for how in order:
        post.ack(message, how)
    assert post.stands(message) == "handled"


def test_refused_counts_more_than_handled_and_less_than_an_answer(post):
    message = post.send(ONE, COORDINATOR, kind="blocker")
    post.ack(message, "handled")
    post.ack(message, "refused")
    assert post.stands(message) == "refused"
    post.send(COORDINATOR, ONE, kind="answer", re=message)
    assert post.stands(message) == "answered"


def test_a_message_without_a_receipt_is_unacknowledged_after_the_limit(post):
    message = post.send(ONE, TWO)
    post.now += 900
    assert post.stands(message) == "new"
    post.now += 1
    assert post.stands(message) == "unacknowledged"
    assert post.stands(message, 1000) == "new"
    post.ack(message)
    assert post.stands(message) == "shown"


def test_a_message_to_all_is_never_unacknowledged(post):
    message = post.send(LEAD, f"{RUN}.all")
    post.now += 10_000
    assert post.stands(message) == "new"
    post.ack(message, by=TWO)
    assert post.stands(message) == "shown"


@pytest.mark.parametrize("how", ["shown", "handled", "refused", "undeliverable"])
def test_a_receipt_by_somebody_else_is_void(post, how):
    message = post.send(ONE, TWO)
    post.ack(message, how, by=THREE)
    post.ack(message, how, by=ONE)
    post.ack(message, how, by=LEAD)
    assert post.stands(message) == "new"
    assert post.book().void_acks() == {THREE: 1, ONE: 1, LEAD: 1}


def test_the_coordinator_of_the_receivers_run_may_call_a_message_undeliverable_and_nothing_else(post):
    message = post.send(ONE, f"{OTHER}.Codex-Worker-1")
    post.ack(message, "shown", by=f"{OTHER}.coordinator")
    post.ack(message, "undeliverable", by=COORDINATOR)
    assert post.stands(message) == "new"
    post.ack(message, "undeliverable", by=f"{OTHER}.coordinator")
    assert post.stands(message) == "undeliverable"
    assert new_for(post, f"{OTHER}.Codex-Worker-1") == []


def test_an_ack_that_says_something_else_or_is_for_no_message_is_void(post):
    message = post.send(ONE, TWO)
    post.ack(message, "read")
    post.send(TWO, ONE, kind="ack", facts={"how": ["shown"]}, re=message)
    post.send(TWO, ONE, kind="ack", facts={"how": "shown"}, re=message._replace(id=f"{ONE}:99"))
    assert post.stands(message) == "new"
    assert post.book().void_acks() == {TWO: 3}


def test_a_word_about_nothing_is_kept_until_its_message_is_there(post):
    message = post.send(ONE, TWO, kind="question")
    ack, answer = post.ack(message), post.send(TWO, ONE, kind="answer", re=message)
    book = Book()
    for record in (answer, ack, ack):
        book.add(record)
    assert book.void_acks() == {TWO: 2}
    book.add(message)
    assert book.get(message.id).stands(post.now) == "answered"
    assert len(book.get(message.id).acks) == 1
    assert book.void_acks() == {}


def test_an_answer_counts_only_from_a_receiver(post):
    question = post.send(ONE, TWO, kind="question")
    post.send(THREE, ONE, kind="answer", re=question)
    assert post.stands(question) == "new"


@pytest.mark.parametrize("kind", ["question", "blocker", "error"])
def test_the_lead_receives_what_asks_its_coordinator(post, kind):
    message = post.send(ONE, COORDINATOR, kind=kind)
    assert new_for(post, LEAD) == new_for(post, COORDINATOR) == [message.id]
    post.ack(message, "handled")
    assert new_for(post, LEAD) == [message.id]
    assert new_for(post, COORDINATOR) == []
    assert post.book().get(message.id).is_open == (kind != "error")
    post.ack(message, "shown", by=LEAD)
    assert new_for(post, LEAD) == []
    assert post.book().get(message.id).is_open == (kind != "error")
    post.ack(message, "handled", by=LEAD)
    assert not post.book().get(message.id).is_open


def test_the_lead_does_not_receive_other_talk_with_its_coordinator(post):
    post.send(ONE, COORDINATOR, kind="plan_started")
    post.send(f"{OTHER}.Codex-Worker-1", f"{OTHER}.coordinator", kind="blocker")
    assert new_for(post, LEAD) == []


def test_a_cancel_is_open_until_its_worker_answers_or_acts(post):
    message = post.send(LEAD, ONE, kind="cancel")
    post.ack(message)
    assert post.book().get(message.id).is_open
    post.send(ONE, COORDINATOR, kind="error", re=message)
    assert not post.book().get(message.id).is_open


def test_chat_is_never_open(post):
    message = post.send(ONE, TWO)
    assert not post.book().get(message.id).is_open


def test_what_is_new_comes_in_the_order_of_reading_with_what_goes_to_all(post):
    ids = []
    for sender, to in (
        (LEAD, ONE),
        (TWO, f"{RUN}.all"),
        (THREE, ONE),
        (ONE, f"{RUN}.all"),
        (LEAD, f"{OTHER}.all"),
    ):
        post.now += 1
        ids.append(post.send(sender, to).id)
    assert new_for(post, ONE) == ids[:3]
    post.ack(post.book().get(ids[1]).record, by=ONE)
    assert new_for(post, ONE) == [ids[0], ids[2]]
    assert new_for(post, TWO) == [ids[3]]


def test_a_message_to_oneself_is_delivered_to_nobody(post):
    post.send(ONE, ONE)
    assert new_for(post, ONE) == []


def test_what_was_shown_since_a_time_and_not_answered_can_be_shown_again(post):
    first, second = post.send(TWO, ONE), post.send(TWO, ONE, kind="question")
    post.ack(first)
    post.now += 10
    began = post.ack(second).at
    assert [message.record.id for message in post.book().shown_since(ONE, began)] == [second.id]
    post.send(ONE, TWO, kind="answer", re=second)
    assert post.book().shown_since(ONE, began) == []


def due(post, resends):
    return [record.id for record in resends.due(post.book(), post.now)]


def test_a_message_is_sent_again_after_5_10_20_40_seconds_until_the_limit(post):
    message, resends, times = post.send(ONE, COORDINATOR, kind="plan_started"), Resends(ONE), []
    start = post.now
    for _ in range(1000):
        for record in resends.due(post.book(), post.now):
            times.append(round(post.now - start))
            post.log(ONE).resend(record)
        post.now += 1
    assert times == [5, 15, 35, 75, 155, 315, 635]
    assert post.book().get(message.id).sent == 8


def test_a_sender_that_was_restarted_goes_on_where_it_was(post):
    message = post.send(ONE, TWO)
    post.log(ONE).resend(message)
    post.now += 14
    assert due(post, Resends(ONE)) == []
    post.now += 300
    resends = Resends(ONE)
    assert due(post, resends) == [message.id]
    assert due(post, resends) == []


def test_what_has_a_receipt_is_not_sent_again(post):
    post.ack(post.send(ONE, TWO))
    post.send(ONE, f"{RUN}.all")
    post.now += 6
    assert due(post, Resends(ONE)) == []


def test_the_unacknowledged_of_a_sender_are_listed(post):
    first, second = post.send(ONE, TWO), post.send(ONE, THREE)
    post.ack(second)
    post.now += 901
    book = post.book()
    assert [message.record.id for message in book.unacknowledged(ONE, post.now)] == [first.id]
    assert book.unacknowledged(TWO, post.now) == []


def brief(*records):
    book = Book(is_brief=True)
    for record in records:
        book.add(record)
    return book


def test_a_brief_book_forgets_what_is_settled_but_that_it_was_there(post):
    chat, late = post.send(ONE, TWO), post.send(ONE, TWO)
    ack = post.ack(chat)
    book = brief(chat, late, ack)
    assert (book.get(chat.id), book.is_settled(chat.id), chat.id in book) == (None, True, True)
    assert ([one.record.id for one in book], late.id in book) == ([late.id], True)
    # Nothing brings it back: a resend, another receipt, an answer.
    again, answer = post.log(ONE).resend(chat), post.send(TWO, ONE, kind="answer", re=chat)
    for record in (chat, again, ack, post.ack(chat, "handled"), answer):
        book.add(record)
    assert [one.record.id for one in book] == [late.id, answer.id]
    assert book.new_for(TWO) == book.unheard(ONE) == [book.get(late.id)]
    assert book.void_acks() == {}


def test_a_brief_book_forgets_it_whichever_of_the_two_it_reads_first(post):
    chat = post.send(ONE, TWO)
    assert brief(post.ack(chat), chat).is_settled(chat.id)


@pytest.mark.parametrize(
    ("sender", "to", "kind"),
    [
        (ONE, TWO, "question"), (ONE, TWO, "blocker"), (COORDINATOR, ONE, "cancel"),
        (ONE, COORDINATOR, "error"), (ONE, LEAD, "chat"), (LEAD, ONE, "chat"), (ONE, f"{RUN}.all", "chat"),
    ],
)  # fmt: skip
def test_a_brief_book_keeps_what_somebody_may_still_ask_about(post, sender, to, kind):
    message = post.send(sender, to, kind=kind)
    book = brief(message, post.ack(message, by=TWO if to.endswith("all") else to))
    assert book.get(message.id).record == message


def test_a_void_receipt_settles_nothing(post):
    chat = post.send(ONE, TWO)
    book = brief(chat, post.ack(chat, by=THREE), post.ack(chat, "seen"))
    assert book.new_for(TWO) == [book.get(chat.id)]


def test_a_long_talk_takes_little_memory_in_a_brief_book():
    tracemalloc.start()
    try:
        book = Book(is_brief=True)
        for number in range(1, 5_001):
            chat = Record(f"{ONE}:{number}", stamp(number), ONE, TWO, "chat", body=f"step {number}")
            book.add(chat)
            how = {"how": "shown"}
            book.add(Record(f"{TWO}:{number}", stamp(number), TWO, ONE, "ack", re=chat.id, facts=how))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 100_000
