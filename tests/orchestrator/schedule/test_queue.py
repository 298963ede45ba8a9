"""The order in which the tickets of one runtime get their turns."""

import tracemalloc
from collections import Counter
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.schedule.queue import Queue

pytestmark = pytest.mark.anyio
AGENTS = ("codex", "claude", "command")


def queue_of(total, **rooms):
    return Queue(total, rooms.get)


async def settle():
    """Let everybody go as far as they can."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()  # `wait_all_tasks_blocked` may take a tenth of a second


class Crowd:
    """Tickets that wait for their turn, and keep it until they are released."""

    def __init__(self, queue, group):
        self.queue, self.group = queue, group
        self.order, self.gates, self.scopes = [], {}, {}

    async def add(self, name, agent="codex", priority="P1", ask=None):
        self.gates[name], self.scopes[name] = anyio.Event(), anyio.CancelScope()
        self.group.start_soon(self._hold, name, agent, priority, ask)
        await settle()

    async def _hold(self, name, agent, priority, ask):
        with self.scopes[name]:
            async with self.queue.turn(agent, priority, ask):
                self.order.append(name)
                await self.gates[name].wait()

    async def let_go(self, *names):
        for name in names:
            self.gates[name].set()
            await settle()


@pytest.fixture
async def crowd_of():
    """Make crowds, all of which have gone when the test ends."""
    async with anyio.create_task_group() as group:
        yield lambda queue: Crowd(queue, group)
        group.cancel_scope.cancel()


async def test_urgent_tickets_come_first_and_then_the_oldest(crowd_of):
    crowd = crowd_of(queue_of(1))
    for name, priority in (("a", "P1"), ("b", "P2"), ("c", "P1"), ("d", "P0"), ("e", "P0"), ("f", "P1")):
        await crowd.add(name, priority=priority)
    await crowd.let_go("a", "d", "e", "c", "f", "b")
    assert crowd.order == ["a", "d", "e", "c", "f", "b"]
    assert crowd.queue.waiting() == 0


async def test_of_all_who_come_at_once_the_most_urgent_goes_first(crowd_of):
    crowd = crowd_of(queue_of(1))
    with crowd.queue.gathered():
        for name, priority in (("a", "P1"), ("b", "P2"), ("c", "P0")):
            await crowd.add(name, priority=priority)
        assert crowd.order == []
    await crowd.let_go("c", "a", "b")
    assert crowd.order == ["c", "a", "b"]


async def test_a_ticket_whose_agent_has_no_room_blocks_no_other_agent(crowd_of):
    crowd = crowd_of(queue_of(3, codex=1, claude=5))
    await crowd.add("codex-1")
    await crowd.add("codex-2", priority="P0")
    await crowd.add("claude-1", "claude", "P2")
    await crowd.add("command-1", "command", "P2")
    await crowd.add("claude-2", "claude")
    assert crowd.order == ["codex-1", "claude-1", "command-1"]
    await crowd.let_go("codex-1")
    assert crowd.order[3:] == ["codex-2"]
    await crowd.let_go("claude-1")
    assert crowd.order[4:] == ["claude-2"]


async def test_room_that_comes_back_is_taken_up_when_told(crowd_of):
    rooms = {"codex": 0}
    crowd = crowd_of(Queue(15, rooms.get))
    for number in range(3):
        await crowd.add(number)
    assert crowd.order == []
    rooms["codex"] = 2
    crowd.queue.look()
    await settle()
    assert crowd.order == [0, 1]
    rooms["codex"] = 1
    await crowd.let_go(0)
    assert crowd.order == [0, 1]  # one runs still, and that is all there may be
    await crowd.let_go(1)
    assert crowd.order == [0, 1, 2]


async def test_who_is_cancelled_while_it_waits_or_holds_gives_its_turn_to_the_next(crowd_of):
    crowd = crowd_of(queue_of(1))
    for name in "abcd":
        await crowd.add(name)
    crowd.scopes["b"].cancel()
    crowd.scopes["a"].cancel()
    await settle()
    assert crowd.order == ["a", "c"]
    # Granted, and cancelled before it could see it.
    crowd.gates["c"].set()
    crowd.scopes["d"].cancel()
    await settle()
    await crowd.add("e")
    assert crowd.order == ["a", "c", "e"]
    await crowd.let_go("e")
    assert (crowd.queue.waiting(), sum(crowd.queue._held.values())) == (0, 0)


async def test_only_one_of_an_agent_asks_other_processes_so_that_an_urgent_one_is_next(crowd_of):
    crowd, asked, answers = crowd_of(queue_of(15, codex=5)), [], {}

    async def ask(name):
        asked.append(name)
        answers[name] = anyio.Event()
        await answers[name].wait()
        return name

    for name, priority in (("old", "P2"), ("older", "P2"), ("urgent", "P0")):
        await crowd.add(name, priority=priority, ask=partial(ask, name))
    await crowd.add("claude", "claude", "P2", partial(ask, "claude"))
    assert asked == ["old", "claude"]
    answers["old"].set()
    await settle()
    assert asked == ["old", "claude", "urgent"]
    crowd.scopes["urgent"].cancel()
    await settle()
    assert asked[3:] == ["older"]
    answers["older"].set()
    await settle()
    assert crowd.order == ["old", "older"]


async def test_what_was_asked_for_is_given_to_the_block_and_a_failure_frees_the_turn():
    queue = queue_of(1)

    async def answer():
        await anyio.lowlevel.checkpoint()
        return "slot"

    async def fail():
        await anyio.lowlevel.checkpoint()
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        async with queue.turn("codex", "P1", fail):
            pytest.fail("entered without what it asked for")
    async with queue.turn("codex", "P1", answer) as found:
        assert found == "slot"
    async with queue.turn("command", "P1") as found:
        assert found is None
    assert (queue._held, queue._asking) == ({"codex": 0, "command": 0}, set())


TICKETS = st.lists(st.tuples(st.sampled_from(AGENTS), st.sampled_from(("P0", "P1", "P2"))), max_size=15)


@settings(max_examples=20, deadline=None)
@given(TICKETS, st.integers(1, 6), st.integers(0, 3), st.integers(0, 3), st.randoms(use_true_random=False))
def test_limits_hold_and_each_turn_goes_to_the_first_that_has_room(tickets, total, codex, claude, random):
    rooms = {"codex": codex, "claude": claude}
    holding: dict[int, str] = {}
    waiting: dict[int, tuple[str, str, int]] = {}
    gates = {}

    async def one(number, agent, priority):
        waiting[number] = (priority, agent, number)
        async with queue.turn(agent, priority):
            had = Counter(holding.values())
            assert len(holding) < total
            assert had[agent] < rooms.get(agent, total)
            del waiting[number]
            holding[number] = agent
            if has_begun:
                had[agent] += 1
                better = [
                    other
                    for other in waiting.values()
                    if (other[0], other[2]) < (priority, number)
                    and had[other[1]] - (other[1] == agent) < rooms.get(other[1], total)
                ]
                assert better == []
            await gates[number].wait()
            del holding[number]

    async def run():
        nonlocal has_begun
        async with anyio.create_task_group() as group:
            for number, (agent, priority) in enumerate(tickets):
                gates[number] = anyio.Event()
                group.start_soon(one, number, agent, priority)
            await settle()
            has_begun = True
            while holding:
                gates[random.choice(sorted(holding))].set()
                await settle()
            assert all(rooms.get(agent) == 0 for _, agent, _ in waiting.values())
            group.cancel_scope.cancel()

    has_begun = False
    queue = Queue(total, rooms.get)
    anyio.run(run)
    assert sum(queue._held.values()) == 0


async def test_ten_thousand_that_wait_are_ten_times_the_work_of_a_thousand():
    """Comparisons are counted, not seconds: a busy machine cannot blur them."""
    asked = {1_000: 0, 10_000: 0}
    for number in asked:
        queue, done = counting_queue(asked, number), []

        async def one(queue=queue, done=done):
            async with queue.turn("codex", "P1"):
                done.append(1)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for _ in range(number):
                group.start_soon(one)
        assert len(done) == number
    print(f"{asked[1_000]} and {asked[10_000]} questions for room, of 1,000 and 10,000 tickets")
    assert asked[10_000] <= 10.5 * asked[1_000]


def counting_queue(asked, number):
    def room(agent):
        del agent
        asked[number] += 1
        return 5

    return Queue(15, room)


def test_ten_thousand_that_wait_take_less_than_forty_megabytes():
    async def one(queue):
        async with queue.turn("codex", "P1"):
            pass

    def used(number):
        queue = queue_of(15, codex=0)
        turns = [one(queue) for _ in range(number)]
        tracemalloc.start()
        for turn in turns:
            turn.send(None)  # as far as its wait
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert queue.waiting() == number
        for turn in turns:
            turn.close()
        return size

    async def measured():
        await anyio.lowlevel.checkpoint()
        return used(2000)

    size = anyio.run(measured)
    print(f"{size / 2000:.0f} bytes for one that waits, its coroutine included")
    assert size / 2000 * 10_000 < 40e6


def test_a_ticket_that_comes_again_is_as_old_as_it_was():
    order = []

    async def one(queue, who, opened):
        async with queue.turn("codex", "P1", who=who):
            order.append(who)
            await opened.wait()

    async def go():
        queue, opened = Queue(1, lambda _: None), anyio.Event()
        opened.set()
        await one(queue, "first", opened)
        held = anyio.Event()
        async with anyio.create_task_group() as group:
            for who in ("second", "third", "first"):
                group.start_soon(one, queue, who, held)
                await anyio.wait_all_tasks_blocked()
            held.set()

    anyio.run(go)
    assert order == ["first", "second", "first", "third"]
