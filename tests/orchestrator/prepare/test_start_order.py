"""`plan` shows in which order tickets would start, and that is the order in which they do."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.repository import shell, template
from support.runtimes import journal

from orchestrator.prepare.prepare import Starter, starting_order


def starter(ticket, *waits_for, priority="P1", agent="command"):
    return Starter(ticket, agent, priority, waits_for)


def order(*tickets, never=(), total=15, **rooms):
    return starting_order(tickets, never, total, rooms)


def phase(lab):
    lab.templates(
        command_1=shell("true"),
        command_2=shell("true", priority="P2"),
        command_3=shell("true", priority="P0"),
        command_4=shell("true", priority="P0", depends_on=["command-2"]),
        command_5=shell("true", depends_on=["command-3"]),
        command_6=shell("true", matrix={"n": ["a", "b"]}),
        gemini_1=template(None, agent="gemini"),
        command_7=shell("true", priority="P0", depends_on=["gemini-1"]),
    )


@pytest.mark.parametrize("total", [1, 2])
def test_the_order_that_is_shown_is_that_in_which_they_start(lives, total):
    phase(lives.lab)
    lives.pool_of(total)
    lives.lab.commit({})
    document = lives.call("plan", "phase-1", "--json").document
    shown = list(itertools.chain(*document["order"]))
    first = ["command-3", "command-1", "command-6[n=a]", "command-6[n=b]"]
    if total == 1:
        assert shown == [*first, "command-5", "command-2", "command-4"]
        assert {len(wave) for wave in document["order"]} == {1}
    else:
        assert document["order"][0] == first[:2]
        assert sorted(shown) == sorted([*first, "command-2", "command-4", "command-5"])
    run = lives.call("run", "phase-1", "--json").document["run"]
    events = journal(lives.root / ".taskers" / "runs" / run)
    tickets = {one["worker"]: one["ticket"] for one in document["tickets"]}
    begun = [tickets[one["worker"]] for one in events if one["event"] == "started"]
    assert begun == shown if total == 1 else set(begun[:2]) == set(shown[:2])


def test_a_person_sees_priorities_and_the_order_and_who_never_starts(lives):
    phase(lives.lab)
    lives.pool_of(2)
    lives.lab.commit({})
    said = lives.call("plan", "phase-1").out
    assert "the first 2 start at once; the others when slots are free" in said
    rows = re.findall(r"^ *(\d+\.|-) \S+ +(P\d) \S+ +(\S+): ", said, re.MULTILINE)
    assert rows[:3] == [
        ("1.", "P0", "command-3"), ("2.", "P1", "command-1"), ("3.", "P1", "command-6[n=a]"),
    ]  # fmt: skip
    assert rows[-2:] == [("-", "P1", "gemini-1"), ("-", "P0", "command-7")]
    assert [number for number, _, _ in rows[:-2]] == [f"{n}." for n in range(1, 8)]


def test_an_agent_without_room_holds_up_no_other():
    tickets = [
        *(starter(f"codex-{n}", agent="codex", priority="P0") for n in (1, 2, 3)),
        starter("command-1"),
    ]
    assert order(*tickets, codex=1) == [["codex-1", "command-1"], ["codex-2"], ["codex-3"]]
    assert order(*tickets, total=1) == [["codex-1"], ["codex-2"], ["codex-3"], ["command-1"]]


def test_who_became_ready_first_goes_first_among_equals():
    tickets = [starter("a"), starter("b", "a"), starter("c"), starter("d"), starter("e", "a", priority="P0")]
    assert order(*tickets, total=1) == [["a"], ["e"], ["c"], ["d"], ["b"]]


def test_nobody_starts_who_waits_for_one_that_does_not_or_for_itself():
    tickets = [starter("a"), starter("b", "a"), starter("c", "b"), starter("d", "e"), starter("e", "d")]
    assert order(*tickets, never={"b"}) == [["a"]]
    assert order() == []


@given(
    st.lists(st.tuples(st.sampled_from(["codex", "claude", "command"]), st.sampled_from(["P0", "P1", "P2"]))),
    st.data(),
)
def test_each_starts_once_after_what_it_waits_for_and_within_the_limits(kinds, data):
    tickets = []
    for number, (agent, priority) in enumerate(kinds):
        before = data.draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        tickets.append(Starter(str(number), agent, priority, [str(one) for one in before]))
    total, rooms = data.draw(st.integers(1, 4)), {"codex": data.draw(st.integers(1, 3)), "claude": 1}
    waves = starting_order(tickets, (), total, rooms)
    assert sorted(itertools.chain(*waves)) == sorted(one.ticket for one in tickets)
    ended: set[str] = set()
    of = {one.ticket: one for one in tickets}
    for wave in waves:
        assert len(wave) <= total
        assert all(ended >= set(of[name].waits_for) for name in wave)
        for agent, room in rooms.items():
            assert sum(of[name].agent == agent for name in wave) <= room
        ended |= set(wave)
