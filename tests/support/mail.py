"""Participants of a run that write and read messages, with a clock that the test sets."""

import json
from pathlib import Path

from workers.messages.logs import Logs
from workers.messages.own_log import OwnLog
from workers.messages.record import log_name, participant
from workers.messages.standing import Book

RUN = "20260216_142834"
NOW = 1771252420.112
"""2026-02-16T14:33:40.112Z."""
LEAD, COORDINATOR = f"{RUN}.lead", f"{RUN}.coordinator"
ONE, TWO, THREE = (f"{RUN}.{name}" for name in ("Claude-Worker-1", "Codex-Worker-1", "Codex-Worker-2"))


class Post:
    """The messages of one project, in a folder of the test."""

    def __init__(self, folder):
        self.folder, self.now = Path(folder), NOW
        self.ahead = {}
        """By how many seconds the clock of a participant is ahead."""
        self._logs = {}

    def log(self, who):
        """Return the own log of a participant; the same one each time, as its server has it."""
        return self._logs.setdefault(who, self.fresh_log(who))

    def fresh_log(self, who):
        """Return the own log of a participant, as a new process has it."""
        return OwnLog(str(self.path(who)), who, lambda: self.now + self.ahead.get(who, 0))

    def path(self, who):
        return self.folder / log_name(who)

    def send(self, sender, to, body="", kind="chat", **more):
        return self.log(sender).append(kind, to, body, **more)

    def ack(self, record, how="shown", by=None):
        """Have the receiver of a message acknowledge it, or somebody else."""
        facts = {"how": how}
        return self.log(by or record.to).append("ack", record.sender, facts=facts, re=record)

    def logs(self, **more):
        return Logs(str(self.folder), clock=lambda: self.now, **more)

    def read(self, **more):
        return self.logs(**more).read_all()

    def records(self, **more):
        return [seen.record for seen in self.read(**more).records]

    def book(self):
        book = Book()
        for record in self.records():
            book.add(record)
        return book

    def stands(self, record, ack_limit=900.0):
        return self.book().get(record.id).stands(self.now, ack_limit)

    def write(self, who, data):
        """Append bytes to a log, as a shell can."""
        with self.path(who).open("ab") as file:
            file.write(data)

    def lines(self, who):
        return self.path(who).read_bytes().splitlines()


def run_of(at):
    """Return a run, and who takes part in it."""
    return participant(at, "lead"), participant(at, "coordinator")


def line_of(**changes):
    """Return the line of a valid record of ONE, with some keys changed, or left out where they are `...`."""
    keys = {
        "v": 1, "id": f"{ONE}:1", "at": "2026-02-16T14:33:40.112Z", "from": ONE, "to": TWO, "type": "chat",
        "phase": None, "plan": None, "re": None, "try": 1, "body": "hello", "facts": {},
    }  # fmt: skip
    keys |= {name.rstrip("_"): value for name, value in changes.items()}
    return json.dumps(
        {name: value for name, value in keys.items() if value is not ...}, separators=(",", ":")
    ).encode()
