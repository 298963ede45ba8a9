"""The text of a new STATUS.md, section by section, so that a file that lacks some can be completed."""

from orchestrator.state.facts import Facts, minute
from tickets.markdown import one_line

TITLE = "# Project Status"
TRAILER = "**Status File End**"


def fields(facts: Facts) -> dict[str, str]:
    """Give the header's fields, in order."""
    return {
        "Last Updated": minute(facts.at),
        "Lead Agent": one_line(facts.lead) or "Lead",
        "Phase": f"Phase 1 - {one_line(facts.phase)}",
        "Milestone": f"{one_line(facts.milestone)} (0% complete)",
    }


def sections(facts: Facts) -> dict[str, str]:
    """Give each section by the title that it is looked for with, in order."""
    return {
        "Current Deliverable": _DELIVERABLE,
        "Phase Plan": _plan(facts),
        "Progress": _PROGRESS,
        "TODO": "## TODO (Prioritized)\n\n" + "\n".join(LEVELS.values()).rstrip("\n"),
        "Worker Roster": "## Worker Roster\n\n**Active Workers:**\n\n**Recent Completions:**",
        "Resume Checklist": _RESUME,
        "Acceptance Checklists": _ACCEPTANCE,
    }


LEVELS = {
    "P0": """### P0 (Critical)
- [ ] Run the first phase: `orchestrate plan phase-1`, then `orchestrate run phase-1`
- [ ] Read the reports that it leaves under `.taskers/runs/` and settle what is pending
""",
    "P1": """### P1 (High Priority)
- [ ] Turn what the reports found into TODO items: `orchestrate todo add`
- [ ] Plan phase 2 in the Phase Plan above, and write its templates in `docs/worker-ticket-templates/`
""",
    "P2": """### P2 (Nice to Have)
- [ ] Replace the acceptance checklists below with this project's own
""",
}

_DELIVERABLE = """## Current Deliverable

Code review
**Status:** NEXT
**Owner:** Lead"""

_PROGRESS = """## Progress

**Overall:** 0% (0/1 milestones complete)
**Current Phase:** 0% (0/5 deliverables complete)
**Tests:** not run"""

_RESUME = """## Resume Checklist

**For new lead agent:**

1. Read STATUS.md (this file); `orchestrate status` is the same at a glance
2. Read DECISIONS.md (recent entries, last 7 days; the newest is at the top)
3. Run `orchestrate resume` (finishes what was interrupted, says what is running and what is next)
4. Check .taskers/runs/ (worker outputs; `orchestrate ps` and `orchestrate logs RUN WORKER`)
5. Run the smoke tests, and `orchestrate validate` (verify the current state)
6. Pick the next P0 from the TODO above
7. Update STATUS.md after any change, by command where there is one, and re-run the tests before a commit

**Target:** Operational in <15 minutes"""

_ACCEPTANCE = """## Acceptance Checklists

### v1 Done Criteria
- [ ] Every finding of phase 1 is fixed, planned or declined in DECISIONS.md
- [ ] The checks pass on a clean checkout
- [ ] The documentation says what the code does

### v2 Phase-Entry Checklist
- [ ] All v1 criteria above are met
- [ ] Phase 2 stands in the Phase Plan with its deliverables and acceptance criteria
- [ ] The phase transition is approved: `orchestrate approve`"""


def _plan(facts: Facts) -> str:
    return f"""## Phase Plan

### Phase 1: {one_line(facts.phase)}

**Status:** IN PROGRESS
**Milestone:** {one_line(facts.milestone)}

**Deliverables:**
- [ ] Code review (NEXT)
- [ ] Test gaps (PLANNED)
- [ ] Design critique (PLANNED)
- [ ] Documentation drift (PLANNED)
- [ ] Checks (PLANNED)

**Acceptance Criteria:**
- [ ] defects and risks are listed with their places
- [ ] code without tests is named, with the tests that it needs
- [ ] the design is judged, with alternatives
- [ ] documentation that contradicts the code is listed
- [ ] the project's checks have run and their result is known"""
