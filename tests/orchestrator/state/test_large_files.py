"""State files that grow: ten times the entries cost ten times the work, and no text is read twice."""

import gc
import time
from datetime import UTC, datetime

import pyromark
import pytest

from orchestrator.state import document as opening
from orchestrator.state.canonical.decisions import decisions, gates
from orchestrator.state.canonical.decisions import read as decision_reading
from orchestrator.state.canonical.decisions.append_only import edits, log_of
from orchestrator.state.canonical.status import backlog, status
from orchestrator.state.canonical.status import read as status_reading
from orchestrator.state.document import opened
from orchestrator.state.events import Decided, Decision, TodoAdded, TodoDone
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
LATER = datetime(2026, 2, 16, 15, 0, tzinfo=UTC)
FACTS = Facts("sample", "Ada", AT)
FEW = 250
MOST = 13
"""How much more ten times the entries may cost: ten, and what a busy machine adds."""


def todo_list(count):
    items = "".join(
        f"- [ ] {number}: port `part {number}`, because it waits\n"
        for number in range(100_000, 100_000 + count)
    )
    return (
        status.initial(FACTS).replace("### P1 (High Priority)\n", f"### P1 (High Priority)\n{items}").encode()
    )


def log(count):
    tree = {decisions.PATH: decisions.initial(FACTS).encode()}
    made = tuple(
        Decision(f"Part {number}", "It was asked for", "Port it", ("Leave it",), ("Positive: it is there",))
        for number in range(count)
    )
    first = decisions.changes(tree, Decided(made[:1], AT, "Ada"))[decisions.PATH].decode()
    start = first.index("## 2026-02-16: Part 0")
    entry = first[start : first.index("## ", start + 3)]
    entries = "".join(entry.replace("Part 0", f"Part {number}") for number in reversed(range(count)))
    return (first[:start] + entries + first[start + len(entry) :]).encode()


def finish(text):
    tree = {status.OWNS[0]: text}
    event = TodoDone("100101: port `part 100101`, because it waits", "P1", LATER, "Ada")
    backlog.changes(tree, event)
    assert b"- [x] 100101" in status.changes(tree, event)[status.OWNS[0]]


def add(text):
    event = TodoAdded(("write the manual",), "P1", AT, "Ada")
    assert b"write the manual" in status.changes({status.OWNS[0]: text}, event)[status.OWNS[0]]


def decide(text):
    event = Decided((Decision("Go on", "It grew", "Measure"),), AT, "Ada")
    assert b"Go on" in decisions.changes({decisions.PATH: text}, event)[decisions.PATH]


CALLS = {
    "status is read": (todo_list, status_reading.read),
    "status is checked": (todo_list, status.problems),
    "an item is done": (todo_list, finish),
    "an item is added": (todo_list, add),
    "the log is read": (log, decision_reading.spans),
    "the log is checked": (log, decisions.problems),
    "gates are looked up": (log, gates.answers),
    "a decision is added": (log, decide),
    "the log is compared": (log, lambda text: edits(log_of([text]), log_of([text]))),
}


@pytest.mark.parametrize("what", CALLS)
def test_ten_times_the_entries_cost_ten_times_the_work(what):
    make, call = CALLS[what]
    few, many = make(FEW), make(10 * FEW)
    # What grows faster than the file does so each time; a machine that is busy does not.
    ratios = []
    while len(ratios) < 4 and min(ratios, default=MOST + 1) > MOST:
        ratios.append(least(call, many, 2) / least(call, few, 5))
    assert min(ratios) <= MOST


def least(call, text, times):
    """Return the least processor time of some calls that have not seen the text yet."""
    found = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            opening._parsed.clear()
            begin = time.process_time()
            call(text)
            found.append(time.process_time() - begin)
    finally:
        gc.enable()
    return min(found)


@pytest.fixture
def parsed(monkeypatch):
    """Count the bytes that are parsed as Markdown."""
    sizes, inner = [], pyromark.events_with_range

    def counted(text, **named):
        sizes.append(len(text.encode()))
        return inner(text, **named)

    monkeypatch.setattr(pyromark, "events_with_range", counted)
    opening._parsed.clear()
    return sizes


def test_a_text_is_parsed_once_however_often_it_is_read(parsed):
    text = todo_list(5)
    for _ in range(3):
        status_reading.read(text)
        opened(status_reading.PATH, bytes(bytearray(text)))
    assert len(parsed) == 1


def test_an_edit_parses_the_file_once_before_and_once_for_each_place_it_changes(parsed):
    text = todo_list(200)
    finish(text)
    # The tick and the stamp; the lead's name is there already.
    assert len([size for size in parsed if size > len(text) / 2]) == 3
