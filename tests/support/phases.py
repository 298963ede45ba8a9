"""The documents of the family `phases` in the middle of a run, and the events that change them."""

from datetime import UTC, datetime

from orchestrator.state.events import (
    BlockerAnswered,
    BlockerRaised,
    Decision,
    PhaseNoted,
    PhaseTaken,
    PlanMoved,
    RosterEntry,
    RunDeployed,
    TaskMoved,
)
from orchestrator.state.phases.phase_status.read import read
from orchestrator.state.transition import transition

RUN = "20260216_142834"
WORKER = f"{RUN}.Claude-Worker-1"
PLAN_PATH = "phases/phase-2/PLAN.md"
STATUS_PATH = "phases/phase-2/STATUS.md"
SHA = "97f3cfdb1b08651d116496a0e5b278530598ff07"
BASE = "4e4488aeee1b130f0ee38d86c3ab77c4ae96694f"


def at(text):
    """Return a time of that day: `14:29:02`."""
    return datetime.fromisoformat(f"2026-02-16T{text}+00:00").astimezone(UTC)


def status_of(tree, path=STATUS_PATH):
    """Read a phase's STATUS.md of a tree."""
    return read(path, tree[path])


PLAN_FILE = """\
# Phase 2: Core - Plan

**Phase:** phase-2

---

## Plans

### 02-01: Lexer

**Verify:** `python -m pytest tests/lexer -q`

Turn bytes into tokens.

**Tasks:**
- Token kinds
- Positions and line ends

### 02-02: Grammar

**Verify:** none

**Tasks:**
- Left recursion

### 02-03: Errors

**Verify:** none

---

**Plan File End**
"""

PHASE_STATUS = f"""\
# Phase 2: Core - Status

**Phase:** phase-2
**State:** in progress
**Worker:** {WORKER}
**Base:** {BASE}
**Last Updated:** 2026-02-16T14:40:02Z

---

## Plans

| Plan | Title | State | Started | Ended | Commit | Verified | Landed |
|---|---|---|---|---|---|---|---|
| 02-01 | Lexer | complete | 2026-02-16T14:29:02Z | 2026-02-16T14:31:07Z | {SHA} | {SHA} | - |
| 02-02 | Grammar | in progress | 2026-02-16T14:31:09Z | - | - | - | - |
| 02-03 | Errors | not started | - | - | - | - | - |

---

## Tasks

### 02-01

- [x] Token kinds (done)
- [x] Positions and line ends (done)

### 02-02

- [ ] Left recursion (blocked: B1)

---

## Blockers

### B1

**Title:** Which licence has the grammar?
**State:** answered
**Plan:** 02-02
**Task:** Left recursion
**Mode:** skip
**Raised:** 2026-02-16T14:33:40Z
**Message:** {WORKER}:7
**Attempted:** read LICENSE and the header of grammar.y
**Needs:** a yes or no to deriving from it
**Answer:** Yes: MIT.
**Answered:** 2026-02-16T14:40:02Z
**Answered By:** {RUN}.lead:3

> grammar.y names two licences.
> Which one holds for what we derive from it?

---

## Decisions

### 2026-02-16: Tokens keep their bytes

**Context:** positions must survive re-encoding
**Decision:** a token is a span of the source, never a copy
**Message:** {WORKER}:4

---

## Context

- the fixtures in tests/lexer are Latin-1 ({WORKER}:5)

---

## Log

- 2026-02-16T14:29:02Z 02-01 not started -> in progress ({WORKER}:2)
- 2026-02-16T14:31:07Z 02-01 in progress -> complete: 12 kinds, all fixtures ({WORKER}:3)
- 2026-02-16T14:31:09Z 02-02 not started -> in progress ({WORKER}:6)

---

**Phase Status File End**
"""


def said(number):
    """Return the id of a message of the phase's worker."""
    return f"{WORKER}:{number}"


TAKEN = PhaseTaken(RUN, "phase-2", "Claude-Worker-1", BASE, at("14:28:34"), "Ada")
STORY = (
    PlanMoved("phase-2", "02-01", "in progress", said(2), at("14:29:02")),
    TaskMoved("phase-2", "02-01", "Token kinds", "doing", said(20), at("14:29:10")),
    TaskMoved("phase-2", "02-01", "Token kinds", "done", said(21), at("14:29:20")),
    TaskMoved("phase-2", "02-01", "Positions and line ends", "done", said(22), at("14:31:00")),
    PlanMoved(
        "phase-2", "02-01", "complete", said(3), at("14:31:07"), "12 kinds, all fixtures", SHA, verified=True
    ),
    PhaseNoted(
        "phase-2", at("14:31:08"), said(4), decision=Decision(
            "Tokens keep their bytes", "positions must survive re-encoding",
            "a token is a span of the source, never a copy",
        ),
    ),
    PhaseNoted("phase-2", at("14:31:08"), said(5), text="the fixtures in tests/lexer are Latin-1"),
    PlanMoved("phase-2", "02-02", "in progress", said(6), at("14:31:09")),
    BlockerRaised(
        "phase-2", "Which licence has the grammar?", said(7), at("14:33:40"), "skip", "02-02",
        "Left recursion", "read LICENSE and the header of grammar.y", "a yes or no to deriving from it",
        "grammar.y names two licences.\nWhich one holds for what we derive from it?",
    ),
    BlockerAnswered("phase-2", said(7), "Yes: MIT.", f"{RUN}.lead:3", at("14:40:02")),
)  # fmt: skip
"""What happened from there to `PHASE_STATUS`."""


def shown(tree, *events):
    """Return a tree after some events, as all documents of a project with the family show them."""
    return {**tree, **transition(tree, events, ("phases",)).texts}


def begun():
    """Return the files of a project in which a run has started whose worker has taken phase 2."""
    tree = {
        "STATUS.md": PROJECT.encode(), "DECISIONS.md": LOG.encode(), "STATE.md": None, STATUS_PATH: None,
        PLAN_PATH: PLAN_FILE.encode(), "phases/phase-1/STATUS.md": FIRST.encode(),
        "phases/phase-1/PLAN.md": FIRST_PLAN.encode(),
    }  # fmt: skip
    return shown(tree, DEPLOYED, PhaseNoted("", at("14:28:34"), text=EVERYWHERE), TAKEN)


def told():
    """Return these files after the story."""
    return shown(begun(), *STORY)


EVERYWHERE = "Everything must run without a network."
DEPLOYED = RunDeployed(
    RUN,
    "phase-2",
    at("14:28:34"),
    "Ada",
    (RosterEntry("Claude-Worker-1", "Lead the core phase", ("src/**",)),),
)
LOG = """\
# Architectural Decision Log

**Project:** demo
**Started:** 2026-02-16

---

## 2026-02-16: Keep one parser

**Context:** two of them differ

**Decision:** the first one stays
"""
FIRST_PLAN = "# Phase 1: Foundation - Plan\n\n## Plans\n" + "".join(
    f"\n### 01-0{n}: P{n}\n" for n in range(1, 5)
)
FIRST = (
    PHASE_STATUS[: PHASE_STATUS.index("| 02-01")].replace("phase-2", "phase-1").replace("Phase 2", "Phase 1")
    + "".join(f"| 01-0{n} | P{n} | complete | - | - | {SHA} | - | {SHA} |\n" for n in range(1, 5))
    + "".join(
        f"\n---\n\n## {title}\n\nNone.\n" for title in ("Tasks", "Blockers", "Decisions", "Context", "Log")
    )
).replace(f"**Worker:** {WORKER}", "**Worker:** -")
PROJECT = """\
# Project Status

**Last Updated:** 2026-02-16 14:00
**Lead Agent:** Ada
**Phase:** Phase 2 - Core
**Milestone:** Parser usable (50% complete)

---

## Current Deliverable

Parser
**Status:** IN PROGRESS
**Owner:** Ada

---

## Phase Plan

### Phase 1: Foundation

**Status:** COMPLETE (archived: docs/history/phase-1.md)

### Phase 2: Core

**Status:** IN PROGRESS
**Milestone:** Parser usable

**Deliverables:**
- [ ] Parser (IN PROGRESS)

**Acceptance Criteria:**
- [x] reads all fixtures
- [ ] formats all fixtures

### Phase 3: Command line

**Status:** PLANNED

---

## Progress

**Overall:** 33% (1/3 milestones complete)

---

## TODO (Prioritized)

### P0 (Critical)

### P1 (High Priority)

### P2 (Nice to Have)

---

## Worker Roster

**Active Workers:**

**Recent Completions:**

---

**Status File End**
"""
BLOCKED = (
    "phase-2 02-02 B1: Which licence has the grammar? (answered, skip, since 2026-02-16T14:33:40Z): "
    f"{STATUS_PATH}#b1"
)
STATE = f"""\
# Project State

**Last Updated:** 2026-02-16T14:40:02Z
**Lead:** Ada
**Current Phase:** phase-2
**Milestone:** Parser usable

---

## Phases

| Phase | Name | Status | Not Started | In Progress | Complete | Failed | Worker | Detail |
|---|---|---|---|---|---|---|---|---|
| phase-1 | Foundation | COMPLETE | 0 | 0 | 4 | 0 | - | phases/phase-1/STATUS.md |
| phase-2 | Core | IN PROGRESS | 1 | 1 | 1 | 0 | {WORKER} | phases/phase-2/STATUS.md |
| phase-3 | Command line | PLANNED | - | - | - | - | - | - |

---

## Blockers

- {BLOCKED}

---

## Decisions

- 2026-02-16: Keep one parser: DECISIONS.md

---

## Context

- Everything must run without a network.

---

**State File End**
"""
