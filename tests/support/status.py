"""A STATUS.md with all of its sections, and the events that change it."""

from datetime import UTC, datetime, timedelta

from orchestrator.state.canonical.status import status
from orchestrator.state.events import Completion, RosterEntry, RunDeployed, RunIntegrated
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
LATER = AT + timedelta(days=1)
FACTS = Facts("Demo", "Ada", AT)
RUN = "20260216_142834"
LITERAL = """# Project Status

**Last Updated:** 2026-02-16 09:00
**Lead Agent:** Ada
**Phase:** Phase 2 - Core
**Milestone:** Reach 90% coverage (0% complete)

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
**Milestone:** Reach 90% coverage

**Deliverables:**
- [x] Parser (COMPLETE)
- [ ] Formatter (IN PROGRESS, Owner: Codex-Worker-2)
- [ ] Command line (NEXT)

**Acceptance Criteria:**
- [x] reads all fixtures
- [ ] formats all fixtures

### Phase 3: Polish

**Status:** PLANNED

---

## Progress

**Overall:** 0% (0/1 milestones complete) and a note
**Current Phase:** 0% (0/1 deliverables complete)
**Tests:** 184/184 passing (100%)

---

## TODO (Prioritized)

### P0 (Critical)
- [ ] Next immediate action
- [x] Done already

### P1 (High Priority)

### P2 (Nice to Have)
- [ ] Future improvement

---

## Worker Roster

**Active Workers:**

**Recent Completions:**
- Codex-Worker-3: Old task (COMPLETE, integrated 2026-02-15)

---

## Resume Checklist

1. Read STATUS.md

---

## Acceptance Checklists

- [ ] one

---

**Status File End**
"""


def entry(worker="Codex-Worker-1", title="Port the parser", scope=("src/parser/**",)):
    """Return a worker that a run begins with."""
    return RosterEntry(worker, title, scope)


def completion(worker="Codex-Worker-1", outcome="complete", verdict="accepted", reason="checks passed"):
    """Return a worker that a run ends with."""
    return Completion(worker, "Port the parser", outcome, verdict, reason, ("src/parser/lex.py",))


def deployed(*entries, run=RUN, at=AT):
    """Return the event of a run that begins."""
    return RunDeployed(run, "phase-2", at, "Ada", entries or (entry(),))


def integrated(*workers, run=RUN, at=LATER):
    """Return the event of a run that is judged."""
    return RunIntegrated(run, "phase-2", at, "Grace", workers or (completion(),), "abc")


def after(text, *events):
    """Return a file's text after some events."""
    for event in events:
        text = status.changes({"STATUS.md": text}, event).get("STATUS.md", text)
    return text


def roster(text):
    """Return the text of the roster's section."""
    return text.decode().split("## Worker Roster\n\n")[1].split("\n\n---")[0]
