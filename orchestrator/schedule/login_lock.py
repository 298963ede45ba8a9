"""Logins that workers have in common: where no key is set, each CLI of an agent uses the user's own.

Its access token runs out after an hour or so. Whoever starts then has its CLI fetch a new one and write it
into the login's directory; two that do so at once may log each other out. So the first start after a while
goes alone, in all processes on the repository, until its provider has answered. Best effort: nothing keeps
a running CLI from fetching a token as well.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio

from tickets.types import AgentName
from workers.agents.agent import agent_named
from workers.agents.executables import present
from workers.files.locks import try_lock

WINDOW = 2400.0
"""Seconds after an answer for which a token is taken to hold; the shortest known holds for an hour."""
ALONE = 20.0
"""Seconds after which the next one starts, answered or not: a model may think for long."""
SLACK = 1.0
"""Seconds more for which others wait, so that it can let go by itself."""
LOOK = 0.1


class Alone(NamedTuple):
    """The turn of one that goes alone."""

    descriptor: int
    since: float


class Logins:
    """The logins of this machine's user, as the runtimes on one repository share them."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], clock: Callable[[], float], alone: float = ALONE
    ) -> None:
        """Take the folder of the locks, the environment that may hold keys, and the time (epoch seconds)."""
        self._longest = alone
        self._folder = folder
        self._environ = environ
        self._clock = clock
        self._alone: dict[AgentName, Alone] = {}

    def is_shared(self, agent: AgentName) -> bool:
        """Tell whether an agent's workers use the user's own login, for want of a key."""
        return agent != "command" and not present(agent_named(agent).KEYS, self._environ)

    async def turn(self, agent: AgentName, tell: Callable[[str], None] | None = None) -> Alone | None:
        """Wait until a CLI of an agent may start beside the others that use its login; `tell` hears why.

        Gives its turn where it goes alone: nobody else starts until `answered`, until that turn is `ended`,
        or has taken too long.
        """
        if not self.is_shared(agent):
            return None
        waited: dict[str, float] = {}
        while not self._is_fresh(agent):
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                if (alone := self._goes_alone(agent)) is not None:
                    return alone
                holder = self._lock_of(agent).read_text()
            except (OSError, ValueError):
                return None  # best effort: no file of ours keeps a worker from its work
            # Whoever is stopped (Ctrl-Z) while it goes alone does not let go by itself.
            if anyio.current_time() - waited.setdefault(holder, anyio.current_time()) > self._longest + SLACK:
                return None
            if tell is not None:
                tell(f"another {agent} worker goes first, since it may renew the login")
                tell = None
            await anyio.sleep(LOOK)
            self.look()
        return None

    def answered(self, agent: AgentName) -> None:
        """Note that an agent's provider has answered: its login holds for a while."""
        if self.is_shared(agent) and (agent in self._alone or not self._is_fresh(agent)):
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._answered(agent)
                path.touch()
                os.utime(path, (self._clock(), self._clock()))
            self.ended(agent, self._alone.get(agent))

    def ended(self, agent: AgentName, alone: Alone | None) -> None:
        """Let the next one start, where the one that went alone has ended without an answer.

        One whose turn was taken from it, since it took too long, has none to give back: it is another's.
        """
        if alone is not None and self._alone.get(agent) is alone:
            del self._alone[agent]
            os.close(alone.descriptor)

    def look(self) -> None:
        """Let the next one start where the one that goes alone has taken long enough."""
        for agent, alone in list(self._alone.items()):
            if anyio.current_time() > alone.since + self._longest:
                self.ended(agent, alone)

    def _is_fresh(self, agent: AgentName) -> bool:
        try:
            age = self._clock() - self._answered(agent).stat().st_mtime
        except OSError:
            return False
        return 0 <= age < WINDOW

    def _goes_alone(self, agent: AgentName) -> Alone | None:
        if agent in self._alone:
            return None
        descriptor = os.open(self._lock_of(agent), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not try_lock(descriptor, fcntl.LOCK_EX):
            os.close(descriptor)
            return None
        # Who it is, for those who wait: each is waited for anew.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {self._clock()}".encode(), 0)
        self._alone[agent] = alone = Alone(descriptor, anyio.current_time())
        return alone

    def _lock_of(self, agent: AgentName) -> Path:
        return self._folder / f"{agent}.lock"

    def _answered(self, agent: AgentName) -> Path:
        return self._folder / f"{agent}.answered"
