"""A fault at every file operation of an append and of a delivery, once each.

Whoever is told that a message was written finds it read once by all; nobody else's is lost for it.
"""

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from support.mail import LEAD, NOW, ONE, TWO, line_of
from support.paths import ROOT

from workers.messages.delivery import Reading, delivery
from workers.messages.own_log import NotSentError, OwnLog

KILLED = 9
CALLS = {
    "open": os,
    "fstat": os,
    "stat": os,
    "pread": os,
    "write": os,
    "ftruncate": os,
    "close": os,
    "flock": fcntl,
    "listdir": os,
}
MODES = ("killed before", "killed after", "refused")
OF_WRITE = ("torn", "short", "nearly whole", "no space")


class Outcome(NamedTuple):
    """How a child ended, what it said, and the operations that it came to."""

    code: int
    said: list[str]
    steps: list[str]


def in_child(work, at=0, mode=""):
    """Do some work in a child, where one file operation has a fault; `work` gets a function to say with."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            write = os.write
            Faults(at, mode, lambda line: write(sink, f"{line}\n".encode())).watch()
            work(lambda line: write(sink, f"said {line}\n".encode()))
            code = 0
        os._exit(code)
    os.close(sink)
    with os.fdopen(source) as file:
        lines = file.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = [line.removeprefix("said ") for line in lines if line.startswith("said ")]
    return Outcome(code, said, [line for line in lines if not line.startswith("said ")])


class Faults:
    """Counts file operations, and makes one of them fail."""

    def __init__(self, at, mode, note):
        self.at, self.mode, self.note, self.count = at, mode, note, 0

    def watch(self):
        for name, module in CALLS.items():
            setattr(module, name, self.step(name, getattr(module, name)))

    def step(self, name, call):
        def stepped(*args, **more):
            self.count += 1
            self.note(name)
            if self.count != self.at:
                return call(*args, **more)
            if self.mode in ("refused", "no space"):
                raise OSError(errno.EIO if self.mode == "refused" else errno.ENOSPC, self.mode)
            if self.mode == "killed before":
                os._exit(KILLED)
            if self.mode in ("torn", "short", "nearly whole"):
                descriptor, data = args
                done = call(
                    descriptor, data[: len(data) - 1 if self.mode == "nearly whole" else len(data) // 2]
                )
                if self.mode == "torn":
                    os._exit(KILLED)
                return done
            found = call(*args, **more)
            os._exit(KILLED)
            return found

        return stepped


def faults_of(steps):
    """Yield (number, mode) of all faults of some operations."""
    for at, name in enumerate(steps, 1):
        yield from ((at, mode) for mode in MODES)
        yield from ((at, mode) for mode in OF_WRITE if name == "write")


def append(path):
    """Return the work of one sender: two messages, each told as sent or not."""

    def work(say):
        log = OwnLog(path, ONE, lambda: NOW)
        for body in ("b", "c"):
            try:
                say(f"{log.append('chat', TWO, body).id} {body}")
            except NotSentError:
                say("not sent")
            except OSError as error:
                say(f"error {error}")

    return work


@pytest.mark.parametrize("start", ["empty", "one record", "a torn line", "no file"])
def test_what_a_sender_was_told_is_what_all_read(post, start):
    path = post.path(ONE)

    def prepare():
        path.unlink(missing_ok=True)
        if start != "no file":
            path.write_bytes(b"" if start == "empty" else line_of(body="a") + b"\n")
        if start == "a torn line":
            post.write(ONE, line_of(id=f"{ONE}:2")[:70])

    prepare()
    steps = in_child(append(str(path))).steps
    assert steps.count("write") == 2
    assert {"open", "flock", "fstat", "stat", "close"} <= set(steps)
    tried = 0
    for at, mode in faults_of(steps):
        prepare()
        reader = post.logs()
        found = [seen.record for seen in reader.poll().records]
        outcome = in_child(append(str(path)), at, mode)
        assert outcome.code in (0, KILLED), (at, mode, outcome)
        assert not [line for line in outcome.said if line.startswith("error")], (at, mode, outcome)
        found += [seen.record for seen in reader.poll().records]
        later = OwnLog(str(path), ONE, lambda: NOW).append("chat", TWO, "d")
        poll = reader.read_all()
        found += [seen.record for seen in poll.records]
        told = [f"{record.id} {record.body}" for record in found]
        assert set(outcome.said) - {"not sent"} <= set(told), (at, mode, outcome, told)
        assert told[-1] == f"{later.id} d", (at, mode, told)
        assert len(set(told)) == len(told) == len({record.id for record in found}), (at, mode, told)
        assert [record.id for record in post.records()] == [record.id for record in found], (at, mode)
        assert poll.changes == [], (at, mode)
        tried += 1
    assert tried > 40


def test_a_message_is_shown_again_only_where_its_receipt_could_not_be_written(post):
    path = str(post.path(ONE))

    def work(say):
        with (
            contextlib.suppress(NotSentError, OSError),
            delivery(OwnLog(path, ONE, lambda: NOW), Reading(str(post.folder), ONE)) as news,
        ):
            for message in news.shown:
                say(message.record.id)

    def prepare():
        for who in (ONE, LEAD, TWO):
            post.path(who).unlink(missing_ok=True)
        return {sender.append("chat", ONE, "x").id for sender in (post.fresh_log(LEAD), post.fresh_log(TWO))}

    sent = prepare()
    steps = in_child(work).steps
    for at, mode in faults_of(steps):
        assert prepare() == sent
        first = in_child(work, at, mode)
        acked = {message.record.id for message in post.book() if message.acks}
        second = in_child(work)
        assert set(first.said) | set(second.said) == sent, (at, mode)
        # Shown and acknowledged is shown once; shown without a receipt is shown again.
        assert set(first.said) & set(second.said) == set(first.said) - acked, (at, mode)
        assert acked <= set(first.said), (at, mode)
        assert in_child(work).said == [], (at, mode)


def test_a_poll_that_meets_a_fault_loses_nothing_and_says_nothing_wrong(post):
    for who in (ONE, TWO):
        post.send(who, LEAD, "a")

    def work(say):
        logs = post.logs()
        for number in range(3):
            poll = logs.poll()
            for seen in poll.records:
                say(f"{seen.record.id}")
            for told in (*poll.void, *poll.changes):
                say(f"wrong {told}")
            post.now += 1000 * (number + 1)

    steps = in_child(work).steps
    assert {"stat", "open", "pread", "close", "listdir"} <= set(steps)
    for at in range(1, len(steps) + 1):
        outcome = in_child(work, at, "refused")
        assert (outcome.code, sorted(outcome.said)) == (0, [f"{ONE}:1", f"{TWO}:1"]), (at, outcome)


SHOWS = """
import sys
sys.path[:0] = [sys.argv[1]]
from workers.messages.delivery import Reading, delivery
from workers.messages.own_log import OwnLog
from workers.messages.record import participant_of
folder, _, name = sys.argv[2].rpartition("/")
reading, is_server = Reading(folder, participant_of(name)), sys.argv[3] == "server"
print("ready", flush=True)
ends = False
while not ends:
    if not is_server:
        reading = Reading(folder, participant_of(name))
    with delivery(OwnLog(sys.argv[2], participant_of(name)), reading) as news:
        for message in news.shown:
            print(message.record.id, flush=True)
            ends = ends or message.record.body == "end"
    ends = ends or any(one.record.body == "end" and one.acks for one in reading.book)
"""


def test_two_servers_and_a_hook_of_one_worker_show_each_message_once(post):
    argv = [sys.executable, "-I", "-c", SHOWS, str(ROOT), str(post.path(ONE))]
    showing = [
        subprocess.Popen([*argv, kind], stdout=subprocess.PIPE, text=True)
        for kind in ("server", "server", "hook")
    ]
    for one in showing:
        assert one.stdout.readline() == "ready\n"
    sent = [post.send(LEAD, ONE, str(number)).id for number in range(150)]
    sent.append(post.send(TWO, ONE, "end").id)
    shown = [line for one in showing for line in one.communicate()[0].split()]
    assert [one.returncode for one in showing] == [0, 0, 0]
    assert sorted(shown) == sorted(sent)
    assert len(post.lines(ONE)) == len(sent)
