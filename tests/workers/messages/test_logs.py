"""Reading all logs: valid records once and in order, other lines told once, no log in the way of another."""

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mail import COORDINATOR, LEAD, NOW, ONE, RUN, THREE, TWO, Post, line_of

from workers.messages import log_reader
from workers.messages.own_log import OwnLog
from workers.messages.record import Record, decode, encode, stamp

DAY, HOUR = 86_400, 3_600


def bodies(poll):
    return [seen.record.body for seen in poll.records]


def told(poll):
    return [f"{line.participant}: {line}" for line in poll.void]


def test_a_record_is_read_once(post):
    logs = post.logs()
    assert logs.poll().records == []
    post.send(ONE, TWO, "a")
    assert bodies(logs.poll()) == ["a"]
    assert bodies(logs.poll()) == []
    post.send(TWO, ONE, "b")
    post.send(ONE, TWO, "c")
    assert sorted(bodies(logs.poll())) == ["b", "c"]


def test_a_line_is_kept_byte_for_byte(post):
    line = line_of(more=1).replace(b":", b": ", 1)
    post.write(ONE, line + b"\n")
    (seen,) = post.read().records
    assert seen.line == line


def test_no_folder_is_no_message(tmp_path):
    assert Post(tmp_path / "nowhere").read().records == []


def test_logs_of_other_runs_are_read_where_they_are_asked_for(post):
    other = "20260216_142900.Codex-Worker-1"
    post.send(ONE, TWO, "a")
    post.send(other, ONE, "b")
    assert bodies(post.read()) == ["a", "b"]
    assert bodies(post.read(run=RUN)) == ["a"]


@pytest.mark.parametrize("name", ["notes.jsonl", f"{RUN}.all.jsonl", f"{RUN}.who.json", f"{ONE}.jsonl.bak"])
def test_files_with_other_names_are_no_logs(post, name):
    (post.folder / name).write_bytes(line_of() + b"\n")
    assert post.read().records == []


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_log_is_a_regular_file(post, kind):
    path = post.path(ONE)
    if kind == "link":
        (post.folder / "other").write_bytes(line_of() + b"\n")
        path.symlink_to(post.folder / "other")
    else:
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    post.send(TWO, ONE, "b")
    poll = post.read()
    assert bodies(poll) == ["b"]
    assert poll.changes == []


def test_a_rest_without_its_lf_waits_for_it(post):
    logs, line = post.logs(), line_of()
    for at in range(0, len(line), 50):
        post.write(ONE, line[at : at + 50])
        assert logs.poll() == ([], [], [], False)
    post.write(ONE, b"\n")
    assert bodies(logs.poll()) == ["hello"]


def test_void_lines_are_skipped_counted_and_told_once_for_each_reason(post):
    logs = post.logs()
    post.send(ONE, TWO, "a")
    for line in (b"x", line_of(id=f"{ONE}:2", from_=LEAD), b"y", line_of(id=f"{ONE}:3", from_=TWO), b""):
        post.write(ONE, line + b"\n")
    post.send(ONE, TWO, "b")
    poll = logs.poll()
    assert bodies(poll) == ["a", "b"]
    assert told(poll) == [
        f"{ONE}: line 2 is not a JSON object; skipped",
        f"{ONE}: line 3 says it is from lead; skipped",
    ]
    post.write(ONE, b"z\n")
    assert told(logs.poll()) == []
    assert logs.void_counts() == {ONE: 6}


def test_a_line_of_1_mb_is_void_and_the_next_is_read(post):
    logs = post.logs()
    post.write(ONE, b"x" * 700_000)
    assert logs.read_all().records == []
    post.write(ONE, b"x" * 300_000 + b"\n" + line_of() + b"\n")
    poll = logs.read_all()
    assert bodies(poll) == ["hello"]
    assert told(poll) == [f"{ONE}: line 1 has more than 262,144 bytes; skipped"]


def test_a_resend_is_told_from_the_first(post):
    logs, record = post.logs(), post.send(ONE, TWO, "a")
    logs.poll()
    post.log(ONE).resend(record)
    (seen,) = logs.poll().records
    assert seen.again
    assert (seen.record.id, seen.record.tries) == (record.id, 2)


def test_one_id_with_two_contents_is_void_the_second_time(post):
    for body in ("a", "b", "a"):
        post.write(ONE, line_of(body=body) + b"\n")
    post.write(ONE, line_of(body="a", try_=2) + b"\n" + line_of(body="c", try_=3) + b"\n")
    poll = post.read()
    assert [(seen.record.body, seen.again) for seen in poll.records] == [("a", False), ("a", True)]
    assert told(poll) == [f"{ONE}: line 2 repeats an id with other content; skipped"]


@pytest.mark.parametrize("how", ["cut", "emptied", "replaced", "cut and grown"])
def test_a_log_that_was_cut_or_replaced_is_told_and_nothing_is_read_twice(post, how):
    logs = post.logs()
    for body in "abc":
        post.send(ONE, TWO, body)
    logs.poll()
    data, path = post.path(ONE).read_bytes(), post.path(ONE)
    first = data[: data.index(b"\n") + 1]
    if how == "replaced":
        path.rename(post.folder / "old")
        path.write_bytes(data)
    elif how == "cut and grown":
        path.write_bytes(first + b"x" * len(data) + b"\n")
    else:
        path.write_bytes(first if how == "cut" else b"")
    post.send(ONE, TWO, "d")
    poll = logs.read_all()
    assert bodies(poll) == ["d"]
    assert [str(change.what) for change in poll.changes] == [
        "was cut" if how in ("cut", "emptied") else "was replaced"
    ]
    post.send(ONE, TWO, "e")
    assert bodies(logs.poll()) == ["e"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_a_log_that_becomes_something_else_is_told_once(post, kind):
    what = "is gone" if kind == "nothing" else "is no regular file"
    logs, path = post.logs(), post.path(ONE)
    post.send(ONE, TWO, "a")
    logs.poll()
    path.rename(post.folder / "old")
    if kind == "link":
        path.symlink_to(post.folder / "old")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    post.send(TWO, ONE, "b")
    poll = logs.poll()
    assert bodies(poll) == ["b"]
    assert poll.changes == [(ONE, what)]
    assert logs.poll().changes == []


def test_a_log_that_appears_within_the_same_tick_is_found(post):
    logs = post.logs()
    post.send(ONE, TWO, "a")
    at = post.folder.stat().st_mtime_ns
    post.now = at / 1e9
    logs.poll()
    post.send(TWO, ONE, "b")
    os.utime(post.folder, ns=(at, at))
    assert bodies(logs.poll()) == ["b"]


def test_a_quiet_poll_asks_for_the_folder_and_the_size_of_each_log(post, monkeypatch):
    post.send(ONE, TWO, "a")
    post.now += HOUR * 24 * 400
    logs, calls = post.logs(), []
    logs.poll()
    for name in ("stat", "open", "listdir"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda *args, _call=call, _name=name, **more: calls.append(_name) or _call(*args, **more),
        )
    logs.poll()
    assert calls == ["stat", "stat"]


def test_records_are_handled_in_the_order_of_their_times(post):
    for body, who in zip("abcde", (TWO, ONE, THREE, ONE, TWO), strict=True):
        post.now += 1
        post.send(who, LEAD, body)
    assert bodies(post.read()) == list("abcde")


def test_records_of_one_time_are_ordered_by_sender_and_number(post):
    for body, who in zip("abcd", (TWO, ONE, TWO, ONE), strict=True):
        post.send(who, LEAD, body)
    assert bodies(post.read()) == ["b", "d", "a", "c"]


@pytest.mark.parametrize("ahead", [DAY, -HOUR, 30, -30])
def test_answers_follow_their_questions_whatever_the_clocks_say(post, ahead):
    post.ahead[ONE] = ahead
    post.send(THREE, LEAD, "early")
    post.now += 1
    question = post.send(ONE, TWO, "question", kind="question")
    post.now += 1
    answer = post.send(TWO, ONE, "answer", kind="answer", re=question)
    post.now += 1
    post.send(ONE, TWO, "thanks", re=answer)
    post.send(THREE, LEAD, "late")
    found = bodies(post.read())
    assert [body for body in found if body in ("question", "answer", "thanks")] == [
        "question",
        "answer",
        "thanks",
    ]
    assert [body for body in found if body in ("early", "late")] == ["early", "late"]


def test_records_that_claim_to_answer_each_other_are_read_all_the_same(post):
    post.write(ONE, line_of(re=f"{TWO}:1") + b"\n")
    post.write(TWO, line_of(id=f"{TWO}:1", from_=TWO, re=f"{ONE}:1") + b"\n")
    post.write(THREE, line_of(id=f"{THREE}:1", from_=THREE, re=f"{THREE}:1") + b"\n")
    assert len(post.read().records) == 3


def test_a_long_log_is_read_in_parts_and_in_the_order_of_times(post, monkeypatch):
    monkeypatch.setattr(log_reader, "AT_ONCE", 900)
    monkeypatch.setattr(log_reader, "_STEP", 600)
    last = None
    for number in range(60):
        post.now += 1
        who = ONE if number % 10 else TWO
        last = post.send(who, LEAD, f"{number:02}", kind="error", re=last)
    logs, polls = post.logs(), []
    while not polls or polls[-1].is_behind:
        polls.append(logs.poll())
    assert len(polls) > 5
    assert [body for poll in polls for body in bodies(poll)] == [f"{number:02}" for number in range(60)]


def test_a_log_that_is_flooded_delays_no_other(post):
    logs = post.logs()
    post.send(ONE, TWO, "first")
    logs.poll()
    old = line_of(id=f"{ONE}:2", at="2020-01-01T00:00:00.000Z", body="y" * 8000) + b"\n"
    post.write(ONE, old * 400 + b"x\n" * 500_000)
    post.send(TWO, ONE, "b")
    assert "b" in bodies(logs.poll())


def test_what_does_not_concern_a_participant_is_not_decoded(post, monkeypatch):
    post.send(ONE, TWO, "no")
    post.send(TWO, ONE, "é")
    question = post.send(ONE, THREE, "yes", kind="question")
    post.send(THREE, ONE, "also", re=question)
    post.send(ONE, f"{RUN}.all", "all")
    decoded = []
    monkeypatch.setattr(log_reader, "decode", lambda line, who: decoded.append(line) or decode(line, who))
    assert sorted(bodies(post.read(concerning=THREE))) == ["all", "also", "yes", "é"]
    assert len(decoded) == 4
    (seen,) = post.read(concerning=COORDINATOR).records[:1]
    assert seen.record.body in ("all", "é")


def test_lines_that_are_known_are_passed_over(post, monkeypatch):
    old = [post.send(ONE, TWO, "a"), post.send(TWO, ONE, "b")]
    known = {hash(encode(record)) for record in old}
    new = post.send(ONE, TWO, "c")
    decoded = []
    monkeypatch.setattr(log_reader, "decode", lambda line, who: decoded.append(line) or decode(line, who))
    logs = post.logs(known=known)
    assert bodies(logs.read_all()) == ["c"]
    assert decoded == [encode(new)]
    post.send(TWO, ONE, "d")
    assert bodies(logs.poll()) == ["d"]


def test_a_line_with_the_number_of_a_known_one_is_void_and_a_resend_of_it_is_none(post):
    old = post.send(ONE, TWO, "a")
    post.log(ONE).resend(old)
    post.write(ONE, line_of(id=old.id, body="b") + b"\n")
    poll = post.read(known={hash(encode(old))})
    assert [(seen.record.body, seen.again) for seen in poll.records] == [("a", False), ("a", True)]
    assert told(poll) == [f"{ONE}: line 3 repeats an id with other content; skipped"]


def test_lines_in_another_spelling_are_decoded(post):
    line = line_of(to=THREE).replace(b"Codex", rb"\u0043odex")
    post.write(ONE, line + b"\n" + line_of(id=f"{ONE}:2", to=THREE).replace(b":", b" : ", 1) + b"\n")
    assert len(post.read(concerning=THREE).records) == 2


@pytest.mark.parametrize("first", [TWO, THREE])
def test_a_number_that_a_line_to_others_has_is_void_for_all(post, first):
    second = THREE if first == TWO else TWO
    post.write(
        ONE, line_of(to=first) + b"\n" + line_of(to=second) + b"\n" + line_of(id=f"{ONE}:2", to=THREE) + b"\n"
    )
    found = [seen.record.id for seen in post.read(concerning=THREE).records if seen.record.to == THREE]
    assert found == ([f"{ONE}:1", f"{ONE}:2"] if first == THREE else [f"{ONE}:2"])


def test_a_torn_line_takes_no_number_away(post):
    torn = line_of(to=TWO)
    post.write(ONE, torn[: torn.index(b',"body"')] + b"\n" + line_of(to=THREE) + b"\n")
    assert len(post.read(concerning=THREE).records) == 1
    assert len(post.read().records) == 1


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.binary(max_size=80), max_size=6))
def test_whatever_is_between_them_valid_records_are_read_in_their_order(tmp_path_factory, chance, noise):
    folder = tmp_path_factory.mktemp("torn")
    path, log = folder / f"{ONE}.jsonl", OwnLog(str(folder / f"{ONE}.jsonl"), ONE, lambda: NOW)
    readers = [Post(folder).logs(), Post(folder).logs(concerning=TWO)]
    sent, found = [], [[], []]
    for at in range(12):
        draw = chance.random()
        if draw < 0.2:  # a writer that was killed
            line = encode(Record(f"{ONE}:{at + 1}", stamp(0), ONE, TWO, "chat", body="torn"))
            with path.open("ab") as file:
                file.write(line[: chance.randrange(len(line) - 1)])
        elif draw < 0.4 and noise:
            with path.open("ab") as file:
                file.write(chance.choice(noise).replace(b"\n", b"") + b"\n")
        elif draw < 0.5 and sent:
            log.resend(chance.choice(sent))
        else:
            sent.append(log.append("chat", TWO, str(at)))
        for reader, so_far in zip(readers, found, strict=True):
            if chance.random() < 0.5:
                so_far.extend(reader.poll().records)
    for reader, so_far in zip(readers, found, strict=True):
        so_far.extend(reader.read_all().records)
        assert [seen.record.id for seen in so_far if not seen.again] == [record.id for record in sent]
        assert [seen.record.body for seen in so_far if not seen.again] == [record.body for record in sent]


def test_two_readers_agree_however_they_poll(post):
    chance = random.Random(7)
    people = (ONE, TWO, THREE, LEAD, COORDINATOR)
    quick = post.logs()
    found = []
    for _ in range(200):
        sender, to = chance.sample(people, 2)
        post.now += chance.random() / 100
        post.ahead[sender] = chance.uniform(-0.05, 0.05)
        post.send(sender, to, kind="plan_started")
        found += quick.poll().records
    found += quick.read_all().records
    assert {seen.record.id for seen in found} == {record.id for record in post.records()}
    assert len(found) == 200
