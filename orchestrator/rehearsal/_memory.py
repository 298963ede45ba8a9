"""The state of a fake agent between two starts: its threads, and when it first met a limit.

Part of a program of its own (`orchestrator.rehearsal.agent`): standard library only. Every file
is created and never written again, so fakes that share a directory do not disturb each other.
"""

import json
import os
from typing import Any

HOMES = {"codex": "CODEX_HOME", "claude": "CLAUDE_CONFIG_DIR", "gemini": "GEMINI_CLI_HOME"}
BELOW = {"codex": ".codex", "claude": ".claude", "gemini": ".gemini"}

Record = dict[str, Any]


class AgentMemory:
    """The files of one fake below its configuration directory, else below the worker's scratch directory."""

    def __init__(self, agent: str) -> None:
        home = os.environ.get(HOMES[agent]) or os.environ.get("TMPDIR")
        self.folder = home and os.path.join(home, "fake-threads")  # noqa: PTH118 - pathlib is half of a start

    def knows(self, thread: str) -> bool:
        """Return whether a thread is its own; True for every one where no state can be kept."""
        return self.folder is None or self._read(f"{thread}.steps") is not None

    def begin(self, thread: str, steps: list[Record]) -> None:
        """Keep a thread with its prompt's steps."""
        self._create(f"{thread}.steps", steps)

    def plan(self, thread: str, steps: list[Record]) -> None:
        """Keep the steps that a thread plays at its next turn."""
        self._create(f"{thread}.then", steps)

    def steps(self, thread: str) -> list[Record]:
        """Return the steps of a thread's next turn: the planned ones, else the same again."""
        planned = self._read(f"{thread}.then")
        found: list[Record] = (planned if planned is not None else self._read(f"{thread}.steps")) or []
        return found

    def use(self, thread: str, taken: int, given: int) -> tuple[int, int]:
        """Keep the tokens of one more turn, and return the sum of the thread's turns."""
        turn, spent = 1, (taken, given)
        while (earlier := self._read(f"{thread}.used.{turn}")) is not None:
            taken, given, turn = taken + earlier[0], given + earlier[1], turn + 1
        self._create(f"{thread}.used.{turn}", spent)
        return taken, given

    def first(self, name: str, now: float) -> float:
        """Return when something happened first; now, where that is not known."""
        self._create(f"first.{name}", now)
        return float(self._read(f"first.{name}") or now)

    def is_first(self, name: str) -> bool:
        """Return whether something happens for the first time; always True where no state is kept."""
        return self._create(f"once.{name}", 1)

    def _create(self, name: str, value: object) -> bool:
        """Keep a value, and return whether there was none."""
        if self.folder is None:
            return True
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - as above
        try:
            with open(os.path.join(self.folder, name), "x", encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
                json.dump(value, file)
        except FileExistsError:
            return False
        return True

    def _read(self, name: str) -> Any:
        if self.folder is None:
            return None
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None  # not there, or still being written
