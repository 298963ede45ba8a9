"""A large project: STATUS.md, DECISIONS.md and history of any size, seeded, in our own formats."""

import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lab import repository

NOW = datetime.now(UTC)
TICKET = {"command-1": '---\nphase: phase-1\ntitle: One\ncommand: ["true"]\n---\nx\n'}
VERBS = ("Port", "Rewrite", "Measure", "Document", "Harden", "Split", "Review", "Retire", "Cache", "Test")
PARTS = ("the lexer", "the `parse()` entry point", "request routing", "the **retry** policy", "log rotation",
         "the schema of `events.jsonl`", "path handling on Windows", "the import hook", "session tokens",
         "the migration of old indexes")  # fmt: skip
WHYS = ("it fails on files above 2 GB", "users asked for it in the last survey", "the benchmark shows a gap",
        "a review found that nothing tests it", "it stands in the way of the release",
        "see src/core/engine.py:214 and docs/spec.md", "two workers met there before")  # fmt: skip
AGENTS = ("Codex-Worker-1", "Claude-Worker-2", "Gemini-Worker-1", "Codex-Worker-4")
PHASES = 30
DELIVERABLES, CRITERIA = 8, 6
FILLING = 1_760
"""TODO items that make a STATUS.md of 300 KB."""
_NUMBERED = re.compile(r"- \[ \] \d{5}: ")


@contextmanager
def project(todo: int, decisions: int) -> Iterator[Path]:
    """Make a repository with such state files, committed, and remove it afterwards."""
    with repository(TICKET) as folder:
        write_state(folder, todo, decisions)
        yield folder


def write_state(folder: Path, todo: int, decisions: int) -> None:
    """Write state files of that many entries over the existing ones, and commit them."""
    (folder / "STATUS.md").write_text(status_text(todo))
    (folder / "DECISIONS.md").write_text(decisions_text(decisions))
    for command in (["git", "add", "-A"], ["git", "commit", "-qm", f"{todo} and {decisions} entries"]):
        subprocess.run(command, cwd=folder, check=True)


def status_text(todo: int) -> str:
    """Return a STATUS.md with that many open TODO items, each with its own text."""
    chance = random.Random(f"status {todo}")
    stamp = f"{NOW - timedelta(minutes=5):%Y-%m-%d %H:%M}"
    items = [f"- [ ] {number:05}: {_task(chance)}" for number in range(todo)]
    low, high = todo // 5, todo // 2
    levels = zip(("P0 (Critical)", "P1 (High Priority)", "P2 (Nice to Have)"),
                 (items[:low], items[low:high], items[high:]), strict=True)  # fmt: skip
    listed = "\n\n".join("\n".join([f"### {title}", *part]) for title, part in levels)
    return f"""# Project Status

**Last Updated:** {stamp}
**Lead Agent:** Bench
**Phase:** Phase {PHASES - 1} - {_phase_name(PHASES - 1)}
**Milestone:** Everything ported (50% complete)

---

## Current Deliverable

Deliverable 4 of phase {PHASES - 1}
**Status:** IN PROGRESS
**Owner:** Lead

---

## Phase Plan

{_plan(chance)}
---

## Progress

**Overall:** {100 * (PHASES - 2) // PHASES}% ({PHASES - 2}/{PHASES} milestones complete)
**Current Phase:** 50% (4/{DELIVERABLES} deliverables complete)
**Tests:** 812/812 passing

---

## TODO (Prioritized)

{listed}

---

## Worker Roster

**Active Workers:**

**Recent Completions:**
{_completions(chance)}

---

## Resume Checklist

1. Read STATUS.md
2. Read DECISIONS.md
3. Run `orchestrate resume`

```sh
# not a heading, and not a field: in a fence
orchestrate status   # [ ] not a checkbox
```

---

## Acceptance Checklists

### v1 Done Criteria
- [x] The checks pass on a clean checkout
- [ ] The documentation says what the code does

### v2 Phase-Entry Checklist
- [ ] All v1 criteria above are met

---

**Status File End**
"""


def decisions_text(count: int) -> str:
    """Return a log of that many decisions, newest first, four a day."""
    chance = random.Random(f"decisions {count}")
    entries = [_decision(chance, number) for number in range(count, 0, -1)]
    start = NOW - timedelta(days=count // 4 + 1)
    # The newest stands at the top; their dates follow from their numbers.
    dated = [entry.format(date=f"{start + timedelta(days=number // 4):%Y-%m-%d}")
             for entry, number in zip(entries, range(count, 0, -1), strict=True)]  # fmt: skip
    head = f"# Architectural Decision Log\n\n**Project:** bench\n**Started:** {start:%Y-%m-%d}\n"
    return "\n---\n\n".join([head, *dated, "**Decision Log End**\n"])


def open_items(text: str) -> list[str]:
    """Return the numbers of the open TODO items, those in the middle of STATUS.md first."""
    found = [line[6:12] for line in text.splitlines() if _NUMBERED.match(line)]
    return sorted(found, key=lambda number: abs(int(number[:-1]) - len(found) // 2))


def with_history(folder: Path, count: int) -> None:
    """Make a log of that many decisions, each committed by itself."""
    head, *entries, tail = decisions_text(count).split("\n---\n\n")
    for number in range(1, count + 1):
        (folder / "DECISIONS.md").write_text("\n---\n\n".join([head, *entries[count - number :], tail]))
        subprocess.run(["git", "commit", "-qam", f"Decision {number}"], cwd=folder, check=True)


def _task(chance: random.Random) -> str:
    owner = chance.choice(("", "", " (Owner: Lead)", " (found by Codex-Worker-3)"))
    words = f"{chance.choice(VERBS)} {chance.choice(PARTS)} and {chance.choice(PARTS)}"
    return f"{words}, because {chance.choice(WHYS)}; first asked for in review {chance.randrange(400)}{owner}"


def _phase_name(number: int) -> str:
    return ("Foundations", "Core", "Interfaces", "Hardening", "Release")[number % 5]


def _plan(chance: random.Random) -> str:
    phases = []
    for number in range(1, PHASES + 1):
        done = DELIVERABLES if number < PHASES - 1 else DELIVERABLES // 2 if number == PHASES - 1 else 0
        met = CRITERIA if number < PHASES - 1 else CRITERIA // 2 if number == PHASES - 1 else 0
        word = "COMPLETE" if number < PHASES - 1 else "IN PROGRESS" if number == PHASES - 1 else "NOT STARTED"
        made = [
            f"- [x] Deliverable {at} of phase {number} (COMPLETE, Owner: {chance.choice(AGENTS)})"
            if at <= done
            else f"- [ ] Deliverable {at} of phase {number} (PLANNED)"
            for at in range(1, DELIVERABLES + 1)
        ]
        criteria = [
            f"- [{'x' if at <= met else ' '}] {chance.choice(PARTS)} stands; {chance.choice(WHYS)}"
            for at in range(1, CRITERIA + 1)
        ]
        phases.append(f"""### Phase {number}: {_phase_name(number)}

**Status:** {word}
**Milestone:** Part {number} ported

**Deliverables:**
{_lines(made)}

**Acceptance Criteria:**
{_lines(criteria)}
""")
    return "\n".join(phases)


def _lines(found: list[str]) -> str:
    return "\n".join(found)


def _completions(chance: random.Random) -> str:
    days = (NOW - timedelta(days=number) for number in range(1, 21))
    return "\n".join(
        f"- {chance.choice(AGENTS)}: {chance.choice(VERBS)} {chance.choice(PARTS)} "
        f"(COMPLETE, accepted, integrated {day:%Y-%m-%d}, run {day:%Y%m%d}_142834)"
        for day in days
    )


def _decision(chance: random.Random, number: int) -> str:
    pick = chance.choice
    return f"""## {{date}}: {pick(VERBS)} {pick(PARTS)} (decision {number:05})

**Context:** {pick(WHYS).capitalize()}; {pick(PARTS)} was looked at in review {chance.randrange(400)}.

**Decision:** {pick(VERBS)} {pick(PARTS)} before {pick(PARTS)}, and keep `make test` green on the way.

**Alternatives Considered:**
1. {pick(VERBS)} {pick(PARTS)} - Rejected because {pick(WHYS)}
2. Leave it as it is - Rejected because {pick(WHYS)}

**Consequences:**
- Positive: {pick(PARTS)} can be changed on its own
- Negative: {pick(PARTS)} waits
- Neutral: {pick(WHYS)}

**Status:** Accepted
**Supersedes:** none
"""
