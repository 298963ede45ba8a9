"""Workers that send messages by their logs, and what became of them."""

import json
import sys

from support.paths import ROOT
from support.runtimes import UNFENCED
from support.templates import front

from workers.messages.logs import Logs
from workers.messages.own_log import OwnLog
from workers.messages.record import Record
from workers.messages.standing import Book

SENDS = f"""
import os, pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
from workers.messages.own_log import OwnLog
run, name = os.environ["ORCHESTRATE_RUN"], os.environ["ORCHESTRATE_WORKER"]
folder = pathlib.Path(os.environ["ORCHESTRATE_PROJECT"], ".taskers/messages")
log = OwnLog(str(folder / f"{{run}}.{{name}}.jsonl"), f"{{run}}.{{name}}")
def send(type, to, body, **more):
    return log.append(type, f"{{run}}.{{to}}", body, **more)
"""
"""The beginning of a worker's script: `send(type, to, body)`."""


class Talk:
    """A project whose workers send messages, and those of its newest run."""

    python = sys.executable

    def __init__(self, lab):
        self.lab = lab
        settings = lab.root / "orchestrate.toml"
        if not settings.exists() or settings.read_text() != UNFENCED:
            lab.commit({"orchestrate.toml": UNFENCED})

    def commit(self, *scripts):
        """Commit a template for each script; the first may write below src, the others below out."""
        texts = {f"do-{at}.py": script for at, script in enumerate(scripts, 1)}
        for at in range(1, len(scripts) + 1):
            texts[f"docs/worker-ticket-templates/command-{at}.md"] = front(f"""
                agent: command
                command: ["{self.python}", "do-{at}.py"]
                phase: phase-1
                title: Work {at}
                mode: write
                owns: ["{"src" if at == 1 else "out"}/**"]
            """)
        self.lab.commit(texts)

    @property
    def run(self):
        return max((self.lab.root / ".taskers/runs").iterdir())

    @property
    def base(self):
        return json.loads((self.run / "run.json").read_text())["base"]

    @property
    def folder(self):
        return self.lab.root / ".taskers/messages"

    def book(self):
        return book_of(self.lab.root)

    def messages(self):
        """Return the messages by type, the last of each."""
        return {message.record.type: message for message in self.book()}

    def answer(self, message: Record, body):
        """Answer a message as the lead does."""
        log = OwnLog(str(self.folder / f"{self.run.name}.lead.jsonl"), f"{self.run.name}.lead")
        log.append("answer", message.sender, body, re=message)

    def journal(self, event):
        lines = (self.run / "events.jsonl").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["event"] == event]


def book_of(root):
    """Read all messages of a project."""
    book = Book()
    for seen in Logs(str(root / ".taskers/messages")).read_all().records:
        book.add(seen.record)
    return book
