"""In which order the tickets of a phase would start, by the rules of the queue, if all took as long. Pure."""

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class Starter(NamedTuple):
    """What decides when a ticket starts."""

    ticket: str
    agent: str
    priority: str
    waits_for: Sequence[str]


def starting_order(
    tickets: Sequence[Starter], never: Collection[str], total: int, rooms: Mapping[str, int]
) -> list[list[str]]:
    """Give the tickets that start together, then those that do when these have ended, and so on.

    `never` are those that nobody does: they and what waits for them do not start. `rooms` says how many of an
    agent may run at once; one that it does not name has no limit beside the `total`.
    """
    place = {one.ticket: at for at, one in enumerate(tickets)}
    left = {one.ticket: set(one.waits_for) for one in tickets}
    after: dict[str, list[Starter]] = {}
    for one in tickets:
        for before in one.waits_for:
            after.setdefault(before, []).append(one)
    waiting: dict[str, list[tuple[str, int, str]]] = {}
    age = 0
    ready = [one for one in tickets if not left[one.ticket]]
    waves: list[list[str]] = []
    while True:
        # Priority, then age: whoever became ready first; of those who did together, as the plan has them.
        for one in ready:
            if one.ticket not in never:
                heappush(waiting.setdefault(one.agent, []), (one.priority, age, one.ticket))
                age += 1
        wave = _granted(waiting, total, rooms)
        if not wave:
            return waves
        waves.append(wave)
        ready = []
        for ended in wave:
            for one in after.get(ended, ()):
                left[one.ticket].discard(ended)
                if not left[one.ticket]:
                    ready.append(one)
        ready.sort(key=lambda one: place[one.ticket])


def _granted(
    waiting: Mapping[str, list[tuple[str, int, str]]], total: int, rooms: Mapping[str, int]
) -> list[str]:
    """Take those that have room, each time the first of an agent's line that goes before the others."""
    held: dict[str, int] = {}
    wave: list[str] = []
    while len(wave) < total:
        agents = [
            name for name, line in waiting.items() if line and held.get(name, 0) < rooms.get(name, total)
        ]
        if not agents:
            break
        best = min(agents, key=lambda name: waiting[name][0])
        held[best] = held.get(best, 0) + 1
        wave.append(heappop(waiting[best])[2])
    return wave
