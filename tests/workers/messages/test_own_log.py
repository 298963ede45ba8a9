"""The own log: one write for each record, under its lock, with the right number and time."""

import os
import stat
import subprocess
import sys

import pytest
from support.mail import COORDINATOR, LEAD, NOW, ONE, TWO, line_of

from workers.messages import own_log
from workers.messages.own_log import NotSentError
from workers.messages.record import MAX_BODY, decode, stamp

DAY, HOUR = 86_400, 3_600


def numbers(post, who):
    return [decode(line, who).number for line in post.lines(who)]


def test_records_are_counted_from_one_without_gaps_acks_included(post):
    sent = post.send(ONE, TWO)
    post.ack(sent)
    post.send(TWO, ONE)
    assert sent.id == f"{ONE}:1"
    assert numbers(post, TWO) == [1, 2]


def test_a_log_is_private(post):
    post.send(ONE, TWO)
    assert stat.S_IMODE(post.path(ONE).stat().st_mode) == 0o600


def test_a_new_process_goes_on_with_the_numbers_of_the_file(post):
    for _ in range(3):
        post.fresh_log(ONE).append("chat", TWO, "x" * 6000)
    assert numbers(post, ONE) == [1, 2, 3]


def test_a_resend_keeps_id_and_time_and_is_not_counted(post):
    first = post.send(ONE, TWO)
    post.now += 5
    again = post.log(ONE).resend(first)
    assert (again.id, again.at, again.tries) == (first.id, first.at, 2)
    assert post.fresh_log(ONE).append("chat", TWO).number == 2


def test_a_process_remembers_its_numbers_where_the_log_was_emptied(post):
    post.send(ONE, TWO)
    post.path(ONE).write_bytes(b"")
    assert post.send(ONE, TWO).number == 2


def test_a_torn_line_stays_alone(post):
    post.send(ONE, TWO)
    post.write(ONE, line_of(id=f"{ONE}:2")[:50])
    assert post.fresh_log(ONE).append("chat", TWO).number == 2
    assert [len(line) for line in post.lines(ONE)][1] == 50
    assert [record.number for record in post.records()] == [1, 2]


def test_a_record_that_lacks_its_lf_alone_counts(post):
    post.write(ONE, line_of())
    assert post.fresh_log(ONE).append("chat", TWO).number == 2
    assert [record.number for record in post.records()] == [1, 2]


def test_lines_that_are_void_are_not_counted(post):
    post.send(ONE, TWO)
    for line in (b"x" * 1_000_000, b"", line_of(id=f"{TWO}:9"), line_of(id=f"{ONE}:9", try_=2), b"{}"):
        post.write(ONE, line + b"\n")
    assert post.fresh_log(ONE).append("chat", TWO).number == 2


def test_a_time_is_the_writers_clock(post):
    assert post.send(ONE, TWO).at == stamp(round(NOW * 1000))


def test_a_clock_that_was_put_back_a_little_does_not_put_back_the_times_of_a_log(post):
    first = post.send(ONE, TWO)
    post.now -= 30
    assert post.send(ONE, TWO).at == first.at
    assert post.fresh_log(ONE).append("chat", TWO).at == first.at


def test_an_answer_is_later_than_what_it_answers(post):
    post.ahead[ONE] = 30
    question = post.send(ONE, TWO, kind="question")
    answer = post.send(TWO, ONE, kind="answer", re=question)
    assert answer.at == stamp(round((NOW + 30) * 1000) + 1)
    assert post.send(TWO, ONE).at == answer.at


@pytest.mark.parametrize("ahead", [DAY, -HOUR])
def test_a_clock_that_is_wrong_by_far_moves_no_other(post, ahead):
    post.ahead[ONE] = ahead
    question = post.send(ONE, TWO, kind="question")
    post.send(TWO, ONE, kind="answer", re=question)
    assert post.send(TWO, ONE).at == stamp(round(NOW * 1000))


def test_a_log_goes_on_with_the_right_time_once_its_clock_is_right_again(post):
    post.ahead[ONE] = DAY
    post.send(ONE, TWO)
    post.ahead[ONE] = 0
    assert post.send(ONE, TWO).at == stamp(round(NOW * 1000))


def test_a_body_has_its_limit_to_the_byte(post):
    post.send(ONE, TWO, "x" * MAX_BODY)
    with pytest.raises(NotSentError, match="16,385 bytes, and 16,384 is the limit"):
        post.send(ONE, TWO, "x" * (MAX_BODY + 1))
    assert numbers(post, ONE) == [1]


@pytest.mark.parametrize(
    ("to", "more"),
    [
        ("lead", {}), (TWO, {"kind": "gossip"}), (TWO, {"phase": "p" * 65}), (TWO, {"plan": "p" * 33}),
        (TWO, {"facts": {"text": "x" * 70_000}}), (TWO, {"facts": {"n": float("inf")}}),
        (TWO, {"facts": {"n": object()}}),
    ],
)  # fmt: skip
def test_what_is_no_record_is_not_written(post, to, more):
    with pytest.raises(NotSentError):
        post.send(ONE, to, **more)
    assert not post.path(ONE).exists() or post.lines(ONE) == []


def test_facts_without_end_are_refused(post):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(NotSentError, match="the facts are nothing"):
        post.send(ONE, TWO, facts={"deep": deep})


def test_texts_are_cleaned_before_they_are_written(post):
    post.send(ONE, TWO, "a\0b\ud800\r\nc\rd", facts={"title": "x\ud800"})
    (record,) = post.records()
    assert record.body == "a\ufffdb\ufffd\nc\nd"
    assert record.facts == {"title": "x\ufffd"}


def test_21_messages_in_a_minute_to_one_receiver_are_one_too_many(post):
    for number in range(20):
        post.send(ONE, TWO, kind=("question", "chat", "answer")[number % 3])
    with pytest.raises(
        NotSentError, match="20 messages to Codex-Worker-1 in a minute; combine them into one"
    ):
        post.send(ONE, TWO)
    post.send(ONE, LEAD, kind="question")
    post.send(ONE, COORDINATOR, kind="task_progress", plan="02-01")
    post.send(LEAD, TWO)
    post.now += 61
    post.send(ONE, TWO)


def test_the_lead_may_write_as_fast_as_it_can(post):
    for _ in range(25):
        post.send(LEAD, ONE)


def test_a_resend_counts_for_no_limit(post):
    first = post.send(ONE, TWO)
    for _ in range(30):
        post.log(ONE).resend(first)
    post.send(ONE, TWO)


def test_10_000_records_fill_a_workers_log_but_for_receipts(post):
    question = post.send(TWO, ONE, kind="question")
    post.write(ONE, line_of(id=f"{ONE}:10000", at="2026-02-16T10:00:00.000Z") + b"\n")
    with pytest.raises(NotSentError, match="holds 10,000 messages"):
        post.send(ONE, TWO)
    assert post.ack(question).number == 10_001
    post.write(LEAD, line_of(id=f"{LEAD}:10000", from_=LEAD) + b"\n")
    post.send(LEAD, ONE)


def test_32_mib_fill_a_workers_log(post):
    post.send(ONE, TWO)
    os.truncate(post.path(ONE), (32 << 20) - 1)
    post.write(ONE, b"\n")
    with pytest.raises(NotSentError, match="has 32 MiB"):
        post.send(ONE, TWO)


def test_several_records_are_written_all_or_none(post):
    drafts = [own_log.Draft("chat", TWO, text) for text in ("a", "b", "x" * (MAX_BODY + 1))]
    with post.log(ONE).held() as log, pytest.raises(NotSentError):
        log.append(*drafts)
    assert post.lines(ONE) == []
    with post.log(ONE).held() as log:
        assert [record.number for record in log.append(*drafts[:2])] == [1, 2]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "dangling link", "no folder"])
def test_a_log_that_is_no_regular_file_is_not_written(post, tmp_path, kind):
    path = post.path(ONE)
    other = tmp_path / "other"
    if kind == "link":
        other.write_bytes(b"")
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling link":
        path.symlink_to(other)
    else:
        post.folder /= "nowhere"
    with pytest.raises(NotSentError, match=str(post.path(ONE))):
        post.send(ONE, TWO)
    assert not other.exists() or other.read_bytes() == b""


def test_a_lock_that_another_process_holds_is_waited_for_and_then_given_up(post):
    with post.log(ONE).held(), pytest.raises(NotSentError, match="has held the lock"):
        post.fresh_log(ONE).held(0.05).__enter__()
    post.send(ONE, TWO)


def test_a_log_that_was_moved_away_meanwhile_is_opened_again(post, tmp_path, monkeypatch):
    post.send(ONE, TWO)
    lock, locked = own_log._lock, []

    def moved(descriptor, until):
        if not locked:
            post.path(ONE).rename(tmp_path / "archived")
        locked.append(descriptor)
        return lock(descriptor, until)

    monkeypatch.setattr(own_log, "_lock", moved)
    post.send(ONE, TWO)
    assert numbers(post, ONE) == [2]


WRITE = """
import resource, signal, sys
sys.path[:0] = {path!r}
from workers.messages.own_log import NotSentError, OwnLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = OwnLog({log!r}, {who!r}, lambda: {now})
for most in {sizes!r}:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, -1))
    try:
        log.append("chat", {to!r}, "x" * 20)
    except NotSentError as error:
        print(error)
    else:
        sys.exit("it was written")
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
log.append("chat", {to!r}, "now")
"""


@pytest.mark.parametrize("torn", [b"", b'{"v":1,'])
def test_a_disk_that_is_full_at_any_byte_leaves_the_log_as_it_was(post, torn):
    post.send(ONE, TWO)
    length = post.path(ONE).stat().st_size
    post.write(ONE, torn)
    start = length + len(torn)
    code = WRITE.format(
        path=[str(own_log.__file__).rsplit("/", 3)[0]], log=str(post.path(ONE)), who=ONE, to=TWO, now=NOW,
        sizes=list(range(start, start + length)),
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == length
    assert all(line.startswith(f"{post.path(ONE)}: cannot be written: ") for line in said)
    poll = post.read()
    assert [seen.record.number for seen in poll.records] == [1, 2]
    assert len(poll.void) == bool(torn)
    assert poll.records[-1].record.body == "now"


def test_processes_that_write_at_once_take_turns(post):
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from workers.messages.own_log import OwnLog\n"
        "log = OwnLog(sys.argv[2], sys.argv[3])\n"
        "for n in range(200): log.append('ack', sys.argv[3], str(n), facts={'how': 'shown'})\n"
    )
    argv = [
        sys.executable,
        "-I",
        "-c",
        code,
        str(own_log.__file__).rsplit("/", 3)[0],
        str(post.path(ONE)),
        ONE,
    ]
    writers = [subprocess.Popen(argv) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert numbers(post, ONE) == list(range(1, 801))
