"""The lock of a login that workers share: without a key, each CLI of an agent uses the user's own login.

Its access token expires after an hour or so. A CLI that starts then fetches a new one and writes it into the
login's directory; two that do so at once may log each other out. So the first start after a while goes
alone, in all processes on the repository, until its provider has answered. Best effort: nothing keeps a
running CLI from fetching a token as well.

The lock is one file an agent with a time in it: `alone TIME OWNER` expires after `ALONE` seconds, so that a
process which died or is stopped (Ctrl-Z) holds up nobody for longer; `answered TIME` frees all for `WINDOW`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import anyio

from tickets.types import AgentName
from workers.agents.agent import agent_named, variables_set
from workers.files.durable import replace_file
from workers.files.locks import GLANCE, held_folder
from workers.files.read import read_whole

WINDOW = 2400.0
"""Seconds for which a token is taken as valid after an answer; the shortest known lasts an hour."""
ALONE = 20.0
"""Seconds after which the next one starts, with or without an answer: a model may think for long."""
POLL = 0.1
_NUMBERS = count()


class LoginLock:
    """The logins of this machine's user, as the runtimes on one repository share them.

    `environ` may hold keys; `clock` returns epoch seconds.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str], clock: Callable[[], float], alone: float = ALONE
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._clock = clock
        self._alone = alone

    def is_shared(self, agent: AgentName) -> bool:
        """Return whether an agent's workers use the user's own login, for want of a key."""
        return agent != "command" and not variables_set(agent_named(agent).KEYS, self._environ)

    async def wait_turn(self, agent: AgentName, tell: Callable[[str], None] | None = None) -> str:
        """Wait until a CLI of an agent may start beside the others that use its login.

        `tell` is called once with the reason if it waits. Return its own mark where it starts alone: no other
        starts until `answered`, until `release` of that mark, or for `ALONE` seconds; else return "".
        """
        if not self.is_shared(agent):
            return ""
        mark = f"{os.getpid()}-{next(_NUMBERS)}"
        while not self._has_answered(agent):
            try:
                if self._acquire(agent, mark):
                    return mark
            except OSError:
                return ""  # best effort: a fault of our own file must not stop a worker
            if tell is not None:
                tell(f"another {agent} worker goes first, since it may renew the login")
                tell = None
            await anyio.sleep(POLL)
        return ""

    def answered(self, agent: AgentName) -> None:
        """Record that an agent's provider has answered: its login holds for a while."""
        if self.is_shared(agent) and not self._has_answered(agent):
            with suppress(OSError), self._changing():
                self._write(agent, f"answered {self._clock()}")

    def release(self, agent: AgentName, mark: str) -> None:
        """Let the next one start, where the one that started alone has ended without an answer.

        One that has expired releases nothing: the lock may be another's by now.
        """
        if mark and mark in self._read(agent):
            with suppress(OSError), self._changing():
                if mark in self._read(agent):
                    self._write(agent, "")

    def _acquire(self, agent: AgentName, mark: str) -> bool:
        with self._changing() as is_ours:
            if not is_ours or self._has_answered(agent) or self._is_within(agent, "alone", self._alone):
                return False
            self._write(agent, f"alone {self._clock()} {mark}")
            return True

    def _has_answered(self, agent: AgentName) -> bool:
        return self._is_within(agent, "answered", WINDOW)

    def _is_within(self, agent: AgentName, state: str, seconds: float) -> bool:
        """Return whether the lock has been in a state for less than so many seconds."""
        with suppress(ValueError):  # another text, or none
            found, at, *_ = self._read(agent)
            # A clock that was set back must not stretch it.
            return found == state and 0 <= self._clock() - float(at) < seconds
        return False

    def _read(self, agent: AgentName) -> list[str]:
        try:
            return read_whole(self._path(agent)).decode(errors="replace").split()
        except OSError:
            return []

    def _write(self, agent: AgentName, text: str) -> None:
        replace_file(self._path(agent), text.encode(), synced=False)

    @contextmanager
    def _changing(self) -> Iterator[bool]:
        """Hold the lock for writing during the block; each process needs it for one small file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with held_folder(self._folder, GLANCE) as is_ours:
            yield is_ours

    def _path(self, agent: AgentName) -> Path:
        return self._folder / f"{agent}.login"
