"""A STATUS.md with a plan, and the events that change it."""

from datetime import UTC, datetime

from orchestrator.state import ALWAYS, documents
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 17, 9, 0, tzinfo=UTC)
LOG = decisions.initial(Facts("Demo", "Ada", AT)).encode()
TWO = "Phase 2: Core"
PLAN = """# Project Status

**Last Updated:** 2026-02-16 09:00
**Lead Agent:** Ada
**Phase:** Phase 2 - Core
**Milestone:** Parser usable (50% complete)

---

## Current Deliverable

Formatter
**Status:** IN PROGRESS
**Owner:** Codex-Worker-2

---

## Phase Plan

### Phase 1: Foundation

**Status:** COMPLETE (archived: docs/history/phase-1.md)

### Phase 2: Core

**Status:** IN PROGRESS
**Milestone:** Parser usable

**Deliverables:**
- [x] Parser (COMPLETE)
- [ ] Formatter (IN PROGRESS, Owner: Codex-Worker-2)
- [ ] Command line

**Acceptance Criteria:**
- [x] reads all fixtures
- [ ] formats all fixtures

### Phase 3: Polish

Some words.

**Deliverables:**
- [ ] Manual

---

## Progress

**Overall:** 33% (1/3 milestones complete)
**Current Phase:** 33% (1/3 deliverables complete)
**Tests:** not run

---

## TODO (Prioritized)

### P0 (Critical)
- [x] Old thing
- [ ] New thing

### P1 (High Priority)

### P2 (Nice to Have)

---

## Worker Roster

**Active Workers:**

**Recent Completions:**

---

## Resume Checklist

1. Read

---

## Acceptance Checklists

### v1 Done Criteria
- [ ] reads all fixtures
- [ ] is documented

---

**Status File End**
"""


def all_after(text, *events, end="\n"):
    texts = {"STATUS.md": text.replace("\n", end).encode(), "DECISIONS.md": LOG}
    for event in events:
        for document in documents(ALWAYS):
            texts.update(document.changes(texts, event))
    return texts


def after(text, *events, end="\n"):
    return all_after(text, *events, end=end)["STATUS.md"].decode().replace(end, "\n")


def changed(new, old=PLAN):
    """Return the lines that differ, without time stamps."""
    stamps = ("**Last Updated", "**Lead Agent")
    lines = [[line for line in text.splitlines() if not line.startswith(stamps)] for text in (old, new)]
    old_lines, new_lines = lines
    lost = [line for line in old_lines if line not in new_lines]
    return lost, [line for line in new_lines if line not in old_lines]


def finish(lab):
    for name in ("Formatter", "Command line"):
        assert lab.call("deliverable", "done", name).code == 0
    assert lab.call("criterion", "done", "formats").code == 0
