"""Faults around an agent: limits, logins, refusals, locks, questions, incomplete reports.

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
"""Seconds: longer than any caller waits."""


class Player(Protocol):
    """The interface of the fake agent that a step needs."""

    name: str
    memory: AgentMemory

    def read_prompt(self) -> None:
        """Read the prompt from standard input."""

    def steps(self) -> list[Record]:
        """Return the steps to play, and keep them with the thread."""

    def stream(self) -> Codex | Claude | Gemini:
        """Return the stream format."""

    def print_records(self, records: Iterable[Record]) -> None:
        """Print records."""

    def print_error(self, text: str) -> None:
        """Print to standard error."""

    def play(self, steps: Iterable[Record]) -> None:
        """Play steps in order."""

    def do_answer(self, step: Record) -> None:
        """Print the final answer."""

    def do_error(self, step: Record) -> None:
        """Fail as a provider does."""

    def exit(self, code: int) -> NoReturn:
        """Exit."""


def limit(fake: Player, step: Record) -> None:
    """Be refused for `seconds` from the first time on, or until `at`: `kind` rate, quota or overloaded."""
    now, kind = clock(), str(step.get("kind", "rate"))
    span = float(step.get("seconds", 5))
    until = float(step["at"]) if "at" in step else fake.memory.first(f"limit-{kind}-{span:g}", now) + span
    if until > now:
        # Played from the arguments, it comes before the prompt: an unknown thread could not be resumed.
        fake.read_prompt()
        fake.steps()
        status, said = fake.stream().limited(kind, until - now, until)
        fake.do_error({**step, "status": status, "whole": said, "retries": step.get("retries", 0)})


def once(fake: Player, step: Record) -> None:
    """Play a `step` in the first attempt that comes to it, and skip it in later ones."""
    inner = dict(step["step"])
    if fake.memory.is_first(str(step.get("name", inner.get("do")))):
        fake.play([inner])


def login(fake: Player, _step: Record) -> None:
    """Fail with an expired login."""
    records, said, code = fake.stream().expired()
    if records:
        fake.print_records(records)
    fake.print_error(said)
    fake.exit(code)


def untrusted(fake: Player, _step: Record) -> None:
    """Refuse to work in a directory that is not trusted."""
    said, code = fake.stream().untrusted()
    fake.print_error(said)
    fake.exit(code)


def lock(fake: Player, step: Record) -> None:
    """Hold a lock on one `file` of the configuration directory for `seconds`; fail where another holds it."""
    import fcntl  # noqa: PLC0415 - for start-up time

    home = os.environ.get(HOMES[fake.name]) or os.path.join(os.environ.get("HOME", "."), BELOW[fake.name])  # noqa: PTH118 - pathlib is half of a start
    os.makedirs(home, exist_ok=True)  # noqa: PTH103 - as above
    path = os.path.join(home, str(step.get("file", "fake-state.sqlite")))  # noqa: PTH118 - as above
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fake.print_error("Error: database is locked\n")
        fake.exit(1)
    time.sleep(float(step.get("seconds", 1)))
    os.close(descriptor)


def ask(fake: Player, step: Record) -> None:
    """Ask for permission and wait for an answer that never comes.

    `how` is `text` (and a prompt), `tool` (a tool call that stays open), or `refused`: permission for a
    `command` is refused at once, and the answer says that it could not go on.
    """
    how, question = str(step.get("how", "text")), str(step.get("text", "May I run `rm -rf build`?"))
    if how == "refused":
        fake.print_records(fake.stream().refused(str(step.get("command", "rm -rf build"))))
        fake.do_answer({"text": "I was not allowed to, so I stop here.", "report": False})
        return
    fake.print_records(fake.stream().asked(question) if how == "tool" else fake.stream().said(question))
    if how != "tool":
        fake.print_error(f"{question} [y/N] ")
        sys.stdin.buffer.read()
    time.sleep(AGES)


def unreported(fake: Player, step: Record) -> None:
    """Answer without the section `lacks`; with it at a follow-up if it `learns`, or play `then`."""
    learns = bool(step.get("learns", True))
    again = {key: value for key, value in step.items() if key not in ("do", "lacks", "learns", "then")}
    then = {**again, "do": "answer"} if learns else step
    fake.memory.plan(fake.stream().session, step.get("then", [then]))
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
