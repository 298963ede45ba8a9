"""A receipt means that a message was handled: with a receiver that is killed, busy, or never answers."""

import subprocess
import sys
import time

import pytest
from support.mail import COORDINATOR, ONE, Post
from support.paths import TESTS
from support.runtimes import wait_until

from workers.messages.calls import Desk, call
from workers.messages.mailbox import Mailbox

pytestmark = pytest.mark.hardening


class Pair:
    """A worker that sends, and its coordinator in a process of its own."""

    def __init__(self, folder):
        self.post, self.effects = Post(folder), folder / "effects"
        self.box = Mailbox(str(self.post.path(ONE)), "phase-2", is_phase_worker=True, ack_limit=30.0)
        self.said = []
        self.receivers = []

    def receive(self, fault=""):
        """Start the receiver."""
        argv = [
            sys.executable,
            "-I",
            str(TESTS / "support" / "mail_receiver.py"),
            str(self.post.path(COORDINATOR)),
        ]
        started = subprocess.Popen([*argv, str(self.effects), fault], stdout=subprocess.PIPE, text=True)
        self.receivers.append(started)
        assert started.stdout.readline() == "ready\n"
        return started

    def send(self, **given):
        found = call(self.box, "plan_started", {"plan": "02-01", **given})
        assert found["ok"]
        return found

    def stands(self, id_):
        """Return how a message stands for its sender, who lives on and sends again."""
        self.box.catch_up()
        return self.box.stands(self.box.book.get(id_))

    def handled(self):
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def acks(self, id_):
        self.box.catch_up()
        return [ack.how for ack in self.box.book.get(id_).acks]

    def end(self):
        for receiver in self.receivers:
            receiver.kill()
            receiver.wait()
            receiver.stdout.close()


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("fault", ["die-before", "die-after"])
def test_a_receiver_that_was_killed_handles_a_message_once(pair, fault):
    """T39: killed between pick-up and handling (a), or with the ack not written (c), then restarted."""
    killed = pair.receive(fault)
    id_ = pair.send()["id"]
    assert killed.wait() == -9
    assert pair.handled() == ([id_] if fault == "die-after" else [])
    assert pair.stands(id_) == "new"
    pair.receive()
    wait_until(lambda: pair.stands(id_) == "handled")
    assert pair.handled() == [id_]
    assert pair.acks(id_) == ["handled"]


def test_a_busy_receiver_handles_a_message_once_although_it_was_sent_again(pair):
    """T39: the receiver is busy for more than 5 s (b), and finds the message twice."""
    pair.receive("busy")
    found = pair.send()
    assert found["receipt"] == "new"
    wait_until(lambda: pair.stands(found["id"]) == "handled")
    assert pair.box.book.get(found["id"]).sent == 2
    later = pair.send(note="still there?")["id"]
    wait_until(lambda: pair.stands(later) == "handled")
    assert pair.handled() == [found["id"], later]
    assert pair.acks(found["id"]) == ["handled"]


def test_an_ack_that_is_lost_is_written_again_and_nothing_is_handled_twice(pair):
    """T39: the ack is dropped once (c): the receiver's log is cut before anybody has read it."""
    first = pair.receive()
    asked = pair.box.send("plan_started", plan="02-01").record
    assert first.stdout.readline() == f"picked {asked.id}\n"
    assert first.stdout.readline() == f"handled {asked.id}\n"
    assert first.stdout.readline() == f"acked {asked.id}\n"
    first.kill()
    first.wait()
    pair.post.path(COORDINATOR).write_bytes(b"")
    assert pair.stands(asked.id) == "new"
    pair.receive()
    wait_until(lambda: pair.stands(asked.id) == "handled")
    assert pair.handled() == [asked.id]


def test_a_receiver_that_never_answers_is_reported_after_the_limit(pair):
    """T39: the receiver never answers (d)."""
    pair.box = Mailbox(str(pair.post.path(ONE)), "phase-2", ack_limit=1.0)
    desk = Desk(pair.box)
    id_ = desk.call("send_message", {"to": "coordinator", "body": "?"})["id"]
    started = time.monotonic()
    wait_until(lambda: desk.call("inbox", {})["unacknowledged"] == [id_], 60)
    assert not desk.resend()
    assert time.monotonic() - started < 60
    assert pair.handled() == []
