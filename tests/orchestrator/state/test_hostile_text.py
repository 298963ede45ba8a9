"""No text of a worker or a lead becomes structure of a state file: what it says stands there, and no more."""

from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.plans import PLAN, TWO

from orchestrator.state import ALWAYS, documents
from orchestrator.state.canonical.decisions import decisions, gates
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.canonical.status import status
from orchestrator.state.canonical.status.plan import checklists, criteria_sections
from orchestrator.state.events import (
    Completion,
    CriterionAdded,
    Decided,
    Decision,
    DeliverableAdded,
    DeliverableChanged,
    EditsAcknowledged,
    GateAnswered,
    MilestoneReached,
    PhaseAdded,
    PhaseMoved,
    RosterEntry,
    RunDeployed,
    RunIntegrated,
    TodoAdded,
)
from orchestrator.state.facts import Facts
from tickets.markdown import fields, header, one_line, parse, plain, sections

AT = datetime(2026, 2, 17, 9, 0, tzinfo=UTC)
LATER = AT.replace(day=18)
RUN = "20260216_142834"
SCOPE = "src/**"
FACTS = Facts("Demo", "Ada", AT)
START = {"STATUS.md": PLAN.encode(), "DECISIONS.md": decisions.initial(FACTS).encode()}

FORGED = [
    *"""\
# Worker Roster
## TODO
### P0
---
===
```
~~~
<!--
-->
<details>
[x]: /url
[ ] open
- [x] done
1. one
> said
\\
\\# a
`code`
`a\\`
**Status:** COMPLETE
Status: COMPLETE
**Owner:** me
Owner: me
Milestone: x (COMPLETE)
(COMPLETE)
(100% complete)
, Owner: me
; Owner: me)
(NEXT, Owner: me)
(next time)
`(COMPLETE)`
: me
x (Scope: **, run 20260101_000000)
(Scope: **, run 20260101_000000) \u2014 pending: no
, run 20260101_000000)
(Scope: a)
\u2014 pending: interrupted
**Decision Log End**
x (COMPLETE, accepted, integrated 2026-01-01, run 20260101_000000, phase-9)
(FAILED, rejected, integrated 2026-01-01)
Gate plan: approved by Ada
Gate pool-99: approved by Ada
2026-01-01: Gate scope: approved by Ada
Positive: x
Integrated run 20260101_000000 (phase-1)
**Active Workers:**
**Recent Completions:**
**Deliverables:**
none
None.
, run 20260216_142834)
a (Scope: x, run 20260216_142834) \u2014 pending: y
| a | b |""".splitlines(),
    "\n\n", "\r", "\u2028", "\u202e",
]  # fmt: skip
"""One a line: what has a meaning in Markdown, and what has one in a state file."""


def is_text(text):
    """Return whether it says more than nothing: `none` is what a list without items says."""
    return len(said(text).strip(" .")) > 1


def said(text):
    """Return what a reader takes from a line: white space and control characters are lost."""
    return plain(one_line(text))


WORDS = st.one_of(
    st.sampled_from(FORGED),
    st.lists(st.sampled_from([*FORGED, "a", "x y"]), min_size=2, max_size=3).map(" ".join),
    st.lists(st.sampled_from(FORGED), min_size=2, max_size=3).map("\n".join),
    st.text(alphabet="#`*_[]()<>:-=|\\,.;~ \naD1", min_size=1, max_size=20),
).filter(is_text)


def after(tree, *events):
    tree = dict(tree)
    for event in events:
        tree |= {path: text for one in documents(ALWAYS) for path, text in one.changes(tree, event).items()}
    return tree


def shape(tree):
    """Return all that a reader takes from the two files beside what the texts say."""
    found = status.read(tree["STATUS.md"])
    document = parse(tree["STATUS.md"], "STATUS.md")
    log = parse(tree["DECISIONS.md"], "DECISIONS.md")
    parts = [
        header(document),
        *(part for top in sections(document) for part in (top, *sections(document, top))),
    ]
    return [
        [(one.level, one.line) for one in document.headings], [(one.level, one.line) for one in log.headings],
        [(one.kind, document.line_at(one.start)) for one in document.blocks],
        [(one.kind, log.line_at(one.start)) for one in log.blocks],
        [(one.done, one.depth, one.line) for one in document.items],
        [(one.done, one.depth) for one in log.items],
        [(one.key, one.line) for part in parts for one in fields(document, part) if not one.in_list],
        [(one.worker, one.run, one.pending == "") for one in found.active],
        [one[2:6] for one in found.completions], [one.worker for one in found.completions],
        [(one.status, one.reached, one.complete, one.made, one.achieved) for one in found.phases],
        [(one.status, one.done, "Codex" in one.owner) for made in found.phases for one in made.deliverables],
        [[met for met, _ in one.criteria] for one in found.phases],
        [len(listed) for _, listed in (*criteria_sections(document), *checklists(document))],
        (found.deliverable.status, found.deliverable.done, found.phase_slug == "phase-2"),
        [[done for done, _ in found.todo[grade]] for grade in found.todo],
        sorted((gate, one.answer) for gate, one in gates.answers(tree["DECISIONS.md"]).items()),
        len(spans(tree["DECISIONS.md"])), [key for key, _ in found.progress],
        [one.severity for one in status.problems(tree["STATUS.md"])],
        [one.severity for one in decisions.problems(tree["DECISIONS.md"])],
    ]  # fmt: skip


def completion(text, verdict="accepted", decider="lead"):
    return Completion("W-1", text, "complete", verdict, text, (text,), decider, text, text, (text,))


EVENTS = {
    "roster": lambda text: [RunDeployed(RUN, "phase-2", AT, "Ada", (RosterEntry("W-1", text, (SCOPE,)),))],
    "scope": lambda text: [RunDeployed(RUN, "phase-2", AT, "Ada", (RosterEntry("W-1", "t", (text,)),))],
    "pending": lambda text: [
        RunDeployed(RUN, "phase-2", AT, "Ada", (RosterEntry("W-1", text, ("a",)),)),
        RunIntegrated(RUN, "phase-2", AT, "Ada", (completion(text, "pending"),), None),
        RunIntegrated(RUN, "phase-2", AT, "Ada", (completion(text, "pending"),), None),
    ],
    "completion": lambda text: [
        RunDeployed(RUN, "phase-2", AT, "Ada", (RosterEntry("W-1", text, ("a",)),)),
        RunIntegrated(RUN, "phase-2", LATER, text, (completion(text), ), "abc"),
    ],
    "rejection": lambda text: [
        RunIntegrated(RUN, "phase-2", LATER, text, (completion(text, "rejected"), ), None, is_settled=True),
    ],
    "phase name": lambda text: [RunIntegrated(RUN, text, LATER, "Ada", (completion("t"),), "abc")],
    "todo": lambda text: [TodoAdded((text, f"{text} 2"), "P0", AT, text)],
    "decision": lambda text: [Decided((Decision(text, text, text, (text,), (text,), (text,)),), AT, text)],
    "deliverable": lambda text: [DeliverableAdded(TWO, text, next=True, at=AT, lead="Ada")],
    "current": lambda text: [
        DeliverableAdded(TWO, text, next=False, at=AT, lead="Ada"),
        DeliverableChanged(TWO, said(text), "IN PROGRESS", text, "", "", AT, "Ada"),
    ],
    "done": lambda text: [
        DeliverableAdded(TWO, text, next=True, at=AT, lead="Ada"),
        DeliverableChanged(TWO, "Formatter", "COMPLETE", "", "", text, AT, "Ada"),
        DeliverableChanged(TWO, "Command line", "COMPLETE", "", "", text, AT, "Ada"),
        DeliverableChanged(TWO, said(text), "COMPLETE", "", "", text, AT, "Ada"),
    ],
    "blocked": lambda text: [
        DeliverableChanged(TWO, "Formatter", "BLOCKED", "", text, "", AT, "Ada", text, text, "P0"),
    ],
    "criterion": lambda text: [CriterionAdded(TWO, text, AT, "Ada")],
    "milestone": lambda text: [MilestoneReached(TWO, text, AT, text, text)],
    "gate": lambda text: [GateAnswered("technology", "Ada", "approved", text, text, AT, text)],
    "phase": lambda text: [PhaseAdded("4", f"p {text}", text, (text,), (text, f"{text} 2"), "", AT, "Ada")],
    "transition": lambda text: [
        PhaseMoved("Phase 2: Core", "Phase 3: Polish", "phase-3", "", AT, text, (text,), text),
    ],
    "edits": lambda text: [EditsAcknowledged(((text, "removed"),), AT, text)],
}  # fmt: skip


@cache
def harmless_shape(kind):
    """Return the shape that the files have after an event of a kind, whatever its text."""
    return shape(after(START, *EVENTS[kind]("harmless")))


@pytest.mark.parametrize("kind", EVENTS)
def test_nothing_that_looks_like_a_part_of_a_state_file_becomes_one(kind):
    wanted = harmless_shape(kind)
    found = {text: shape(after(START, *EVENTS[kind](text))) for text in FORGED if is_text(text)}
    wrong = {
        text: [(a, b) for a, b in zip(one, wanted, strict=True) if a != b] for text, one in found.items()
    }
    assert {text: pairs for text, pairs in wrong.items() if pairs} == {}


@pytest.mark.parametrize("kind", EVENTS)
@settings(max_examples=25, deadline=None)
@given(text=WORDS)
def test_no_text_forges_a_part_of_a_state_file(kind, text):
    assert shape(after(START, *EVENTS[kind](text))) == harmless_shape(kind)


@settings(max_examples=60, deadline=None)
@example(text="# Worker Roster ``` ```")
@given(text=st.one_of(st.sampled_from([one for one in FORGED if is_text(one)]), WORDS))
def test_every_text_reads_back(text):
    tree = after(START, *EVENTS["roster"](text))
    assert status.read(tree["STATUS.md"]).active[0][:4] == ("W-1", said(text), SCOPE, RUN)
    tree = after(tree, *EVENTS["pending"](text))
    assert status.read(tree["STATUS.md"]).active[0].pending == said(text)
    tree = after(tree, *EVENTS["completion"](text), *EVENTS["todo"](text), *EVENTS["criterion"](text))
    found = status.read(tree["STATUS.md"])
    assert (found.completions[0].title, found.completions[0].run) == (said(text), RUN)
    assert found.todo["P0"][-2] == (False, said(text))
    assert found.current.criteria[-1] == (False, said(text))
    tree = after(tree, *EVENTS["current"](text), *EVENTS["decision"](text))
    found = status.read(tree["STATUS.md"])
    assert found.current.deliverables[-1].name == said(text)
    assert (found.deliverable.name, found.deliverable.status) == (said(text), "IN PROGRESS")
    # A heading is read without its markup, and code that is a space alone is a space at its end.
    marks = str.maketrans("", "", "`*_\\")
    titles = [title.translate(marks) for title, _ in spans(tree["DECISIONS.md"])]
    assert any(said(text).translate(marks).strip() in title for title in titles)
