"""The documents of the family `phases` in the middle of a run, and the events that change them."""

from datetime import UTC, datetime

from orchestrator.state.phases.phase_status.read import read

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
