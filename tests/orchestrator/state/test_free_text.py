"""Any text of a lead's stands on its line, is read back, and leaves all else unchanged."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from support.plans import PLAN

from orchestrator.state import ALWAYS, documents
from orchestrator.state.canonical.decisions import decisions, gates
from orchestrator.state.canonical.decisions.append_only import edits, log_of
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.canonical.status import status
from orchestrator.state.events import (
    Decided,
    Decision,
    DeliverableChanged,
    GateAnswered,
    TodoAdded,
    TodoDone,
    TodoMoved,
)
from orchestrator.state.facts import Facts
from tickets.markdown import one_line, plain

AT = datetime(2026, 2, 17, 9, 0, tzinfo=UTC)
FACTS = Facts("Demo", "Ada", AT)
START = status.initial(FACTS).encode()
LOG = decisions.initial(FACTS).encode()
HOSTILE = [
    "# x",
    "- [ ] y",
    "```",
    "<!--",
    "---",
    "**Status:** DONE",
    "## 2026-01-01: z",
    "1. a",
    "a (b",
    "\u202e",
    "|",
]
WORDS = st.one_of(st.text(min_size=1, max_size=30), st.sampled_from(HOSTILE),
                  st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=4).map("\n".join))  # fmt: skip
SAID = WORDS.filter(lambda text: plain(one_line(text)).strip())


def after(texts, event):
    texts = dict(texts)
    for document in documents(ALWAYS):
        texts.update(document.changes(texts, event))
    return texts


@settings(max_examples=60, deadline=None)
@given(SAID, st.booleans())
def test_an_item_goes_its_whole_way_whatever_it_says(words, crlf):
    start = START.replace(b"\n", b"\r\n") if crlf else START
    tree = after({"STATUS.md": start}, TodoAdded((words,), "P1", AT, "Ada"))
    _, text = status.read(tree["STATUS.md"]).todo["P1"][-1]
    assert text == plain(one_line(words))
    assert after(tree, TodoAdded((words,), "P1", AT, "Ada")) == tree
    moved = after(tree, TodoMoved(text, "P1", "P2", AT, "Ada"))
    assert status.read(moved["STATUS.md"]).todo["P2"][-1] == (False, text)
    done = after(moved, TodoDone(text, "P2", AT, "Ada"))
    assert status.read(done["STATUS.md"]).todo["P2"][-1] == (True, text)
    off = after(done, TodoMoved(text, "P2", None, AT, "Ada"))
    assert off["STATUS.md"] == start
    assert b"\n- [x] " in off["docs/backlog.md"]


@settings(max_examples=60, deadline=None)
@given(SAID, SAID, st.lists(SAID, max_size=2))
def test_a_decision_is_one_entry_whatever_it_says(title, words, listed):
    made = Decision(title, words, words, tuple(listed), tuple(listed), ())
    tree = after({"DECISIONS.md": LOG, "STATUS.md": START}, Decided((made,), AT, "Ada"))
    new = tree["DECISIONS.md"]
    assert len(spans(new)) == len(spans(LOG)) + 1
    assert edits(log_of([LOG]), log_of([new])) == []
    assert new.endswith(LOG[LOG.index(b"## ") :])
    assert [one for one in decisions.problems(new) if one.severity == "error"] == []
    assert after(tree, Decided((made,), AT, "Ada")) == tree


@settings(max_examples=40, deadline=None)
@given(SAID, SAID)
def test_a_reason_and_an_owner_stay_inside_their_brackets(reason, owner):
    event = DeliverableChanged("Phase 2: Core", "Formatter", "BLOCKED", owner, reason, "", AT, "Ada")
    tree = after({"STATUS.md": PLAN.encode(), "DECISIONS.md": LOG}, event)
    found = status.read(tree["STATUS.md"])
    assert [(one.name, one.status) for one in found.current.deliverables][1] == ("Formatter", "BLOCKED")
    assert (found.deliverable.name, found.deliverable.status) == ("Formatter", "BLOCKED")
    assert after(tree, event) == tree


@settings(max_examples=40, deadline=None)
@given(SAID, st.sampled_from(["", "x", "## y", ", on a condition"]))
def test_an_answer_is_read_back_whoever_gave_it(name, condition):
    event = GateAnswered("phase-3", name, "approved", condition, "a transition", AT, "Ada")
    tree = after({"DECISIONS.md": LOG, "STATUS.md": START}, event)
    found = gates.answers(tree["DECISIONS.md"])["phase-3"]
    assert (found.answer, found.date) == ("approved", "2026-02-17")
