"""What goes wrong around an agent: limits, logins, refusals, locks, questions, reports that lack something.

Part of a program of its own (`orchestrator.rehearsal.agent`): standard library only, and little of it. Each
function is a step; in whose words it is played stands in `orchestrator.rehearsal._streams`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol

from orchestrator.rehearsal._memory import BELOW, HOMES, AgentMemory
from orchestrator.rehearsal._streams import Claude, Codex, Gemini, Record, clock

AGES = 10.0**8
"""Seconds: longer than anybody waits."""


class Player(Protocol):
    """What a step needs of the fake that plays it."""

    name: str
    memory: AgentMemory

    def read_prompt(self) -> None:
        """Take what stands on standard input."""

    def steps(self) -> list[Record]:
        """Give what is to be played, and keep it with the thread."""

    def speaker(self) -> Codex | Claude | Gemini:
        """Give the voice."""

    def tell(self, records: Iterable[Record]) -> None:
        """Print records."""

    def mutter(self, text: str) -> None:
        """Print to standard error."""

    def play(self, steps: Iterable[Record]) -> None:
        """Play steps in order."""

    def do_answer(self, step: Record) -> None:
        """Give the final answer."""

    def do_error(self, step: Record) -> None:
        """Fail as a provider does."""

    def leave(self, code: int) -> NoReturn:
        """Exit."""


def limit(fake: Player, step: Record) -> None:
    """Be refused for `seconds` from the first time on, or until `at`: `kind` rate, quota or overloaded."""
    now, kind = clock(), str(step.get("kind", "rate"))
    span = float(step.get("seconds", 5))
    until = float(step["at"]) if "at" in step else fake.memory.first(f"limit-{kind}-{span:g}", now) + span
    if until > now:
        # Played from the arguments, it comes before the prompt: a thread that was never kept could not go on.
        fake.read_prompt()
        fake.steps()
        status, said = fake.speaker().limited(kind, until - now, until)
        fake.do_error({**step, "status": status, "whole": said, "retries": step.get("retries", 0)})


def once(fake: Player, step: Record) -> None:
    """Play a `step` in the first attempt that comes to it, and pass it over in the later ones."""
    inner = dict(step["step"])
    if fake.memory.is_first(str(step.get("name", inner.get("do")))):
        fake.play([inner])


def login(fake: Player, _step: Record) -> None:
    """Find that the login has expired."""
    records, said, code = fake.speaker().expired()
    if records:
        fake.tell(records)
    fake.mutter(said)
    fake.leave(code)


def untrusted(fake: Player, _step: Record) -> None:
    """Refuse to work in a directory that nobody has said to trust."""
    said, code = fake.speaker().untrusted()
    fake.mutter(said)
    fake.leave(code)


def lock(fake: Player, step: Record) -> None:
    """Hold a lock on one `file` of the configuration directory for `seconds`; fail where somebody has it."""
    import fcntl  # noqa: PLC0415 - for start-up time

    home = os.environ.get(HOMES[fake.name]) or os.path.join(os.environ.get("HOME", "."), BELOW[fake.name])  # noqa: PTH118 - pathlib is half of a start
    os.makedirs(home, exist_ok=True)  # noqa: PTH103 - as above
    path = os.path.join(home, str(step.get("file", "fake-state.sqlite")))  # noqa: PTH118 - as above
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fake.mutter("Error: database is locked\n")
        fake.leave(1)
    time.sleep(float(step.get("seconds", 1)))
    os.close(descriptor)


def ask(fake: Player, step: Record) -> None:
    """Ask for leave and wait for an answer that nobody gives.

    `how` is `text` (and a prompt), `tool` (a tool call that stays open), or `refused`: leave for a
    `command` is refused at once, and the answer says that it could not go on.
    """
    how, question = str(step.get("how", "text")), str(step.get("text", "May I run `rm -rf build`?"))
    if how == "refused":
        fake.tell(fake.speaker().refused(str(step.get("command", "rm -rf build"))))
        fake.do_answer({"text": "I was not allowed to, so I stop here.", "report": False})
        return
    fake.tell(fake.speaker().asked(question) if how == "tool" else fake.speaker().said(question))
    if how != "tool":
        fake.mutter(f"{question} [y/N] ")
        sys.stdin.buffer.read()
    time.sleep(AGES)


def unreported(fake: Player, step: Record) -> None:
    """Answer without the section `lacks`; asked in its thread, with it if it `learns`, or play `then`."""
    learns = bool(step.get("learns", True))
    again = {key: value for key, value in step.items() if key not in ("do", "lacks", "learns", "then")}
    then = {**again, "do": "answer"} if learns else step
    fake.memory.plan(fake.speaker().session, step.get("then", [then]))
    fake.do_answer({**again, "lacks": str(step.get("lacks", "Status"))})


TROUBLES: dict[str, Callable[[Player, Record], None]] = {
    "limit": limit,
    "once": once,
    "login": login,
    "untrusted": untrusted,
    "lock": lock,
    "ask": ask,
    "unreported": unreported,
}
