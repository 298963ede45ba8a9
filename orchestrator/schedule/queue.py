"""The order in which the tickets of one runtime get slots: by priority, then by age, each agent apart.

A waiting ticket costs one entry in one heap: of ten thousand each is as quick as of ten.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

Found = TypeVar("Found")


class _Entry:
    """One ticket that waits for its turn or holds it."""

    __slots__ = ("is_gone", "key", "turn")

    def __init__(self, key: tuple[str, int]) -> None:
        self.key = key
        # Not an event of anyio's, which is a kilobyte: ten thousand may wait.
        self.turn: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self.is_gone = False

    def __lt__(self, other: "_Entry") -> bool:
        return self.key < other.key


class Queue:
    """The turns of one runtime: `total` at once, and of each agent as many as `room` returns at that moment.

    `room` returns None for an agent without a limit of its own. Its value may change: `look` reads it again.
    """

    def __init__(self, total: int, room: Callable[[str], int | None]) -> None:
        self.total = total
        self._room = room
        self._numbers = count()
        self._ages: dict[str, int] = {}
        self._waiting: dict[str, list[_Entry]] = {}
        self._held: dict[str, int] = {}
        self._asking: set[str] = set()
        self._is_gathering = False

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Grant no turn inside the block: of all that enter meanwhile, the most urgent goes first."""
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            self._grant()

    @asynccontextmanager
    async def turn(
        self, agent: str, priority: str, ask: Callable[[], Awaitable[Found]] | None = None, who: str = ""
    ) -> AsyncIterator[Found | None]:
        """Wait for a turn and hold it for the block; the block gets the result of `ask`.

        A ticket keeps its age: its next attempt goes ahead of tickets that came later.

        `ask` takes what other processes want, too (a slot of the shared pool), and may take long. Only one
        ticket of an agent asks at a time, so that an urgent one finds at most one ahead of it.
        """
        age = next(self._numbers)
        entry = _Entry((priority, self._ages.setdefault(who, age) if who else age))
        heappush(self._waiting.setdefault(agent, []), entry)
        self._grant()
        turn = entry.turn
        is_asking = True
        try:
            if turn is not None:
                await turn
            found = None if ask is None else await ask()
            is_asking = False
            self._asking.discard(agent)
            self._grant()
            yield found
        finally:
            if entry.turn is None:
                self._held[agent] -= 1
                if is_asking:
                    self._asking.discard(agent)
            entry.is_gone = True
            self._grant()

    def look(self) -> None:
        """Grant turns for room that has become free: a pause is over, a limit is raised."""
        self._grant()

    def waiting(self) -> int:
        """Count the tickets that wait for a turn."""
        return sum(not entry.is_gone for heap in self._waiting.values() for entry in heap)

    def _grant(self) -> None:
        """Grant turns while there is room, each to the first ticket of the agents that have some."""
        if self._is_gathering:
            return
        held = sum(self._held.values())
        rooms: dict[str, bool] = {}
        while held < self.total:
            best: str | None = None
            for agent in list(self._waiting):
                heap = self._waiting[agent]
                while heap and heap[0].is_gone:
                    heappop(heap)
                if not heap:
                    del self._waiting[agent]
                elif (best is None or heap[0] < self._waiting[best][0]) and self._has_room(agent, rooms):
                    best = agent
            if best is None:
                return
            entry = heappop(self._waiting[best])
            self._held[best] = self._held.get(best, 0) + 1
            self._asking.add(best)
            rooms.pop(best, None)
            held += 1
            turn, entry.turn = entry.turn, None
            if turn is not None and not turn.done():  # one that is done was cancelled, and is about to go
                turn.set_result(None)

    def _has_room(self, agent: str, rooms: dict[str, bool]) -> bool:
        """Return whether an agent may have one more turn; asked once a round, since it may read a file."""
        if agent not in rooms:
            if agent in self._asking:
                rooms[agent] = False
            else:
                room = self._room(agent)
                rooms[agent] = room is None or self._held.get(agent, 0) < room
        return rooms[agent]
