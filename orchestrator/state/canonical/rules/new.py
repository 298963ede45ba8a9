"""The text of a new AGENTS.md. Workers read it too, so each section says whom it is for."""

from orchestrator.state.facts import Facts, day

TITLE = "# Agent Orchestration Protocol"
TRAILER = "**Agents File End**"
READERS = """Who reads what: a **worker** (you were started with a ticket, and `ORCHESTRATE_WORKER` is
set) follows its ticket and the section *Worker Orchestration*, and skips what is marked for the lead.
The **lead** reads all of it. If you have a ticket, you are a worker."""


def fields(facts: Facts) -> dict[str, str]:
    """Give the header's fields, in order."""
    return {"Last Updated": day(facts.at), "Version": "1.0"}


SECTIONS = {
    "Lead Conductor Role": """## Lead Conductor Role

*For the lead. A worker skips this section.*

The lead keeps the plan in STATUS.md, the reasons in DECISIONS.md and these rules in AGENTS.md; writes
the ticket templates in `docs/worker-ticket-templates/`; sends workers out, judges what comes back, and
answers for it.

- Take stock: `orchestrate status`, `orchestrate resume`, `orchestrate report`
- Prepare: `orchestrate plan PHASE` proves that no two tickets can touch the same file
- Work: `orchestrate run PHASE`, or `orchestrate deploy PHASE --detach`, then `orchestrate wait RUN`
- Judge: `orchestrate integrate RUN`, with `--accept WORKER` or `--reject WORKER --reason TEXT` for the rest
- Record: `orchestrate todo`, `orchestrate decide`, `orchestrate deliverable`, `orchestrate phase`
- Check: `orchestrate validate` and `orchestrate doctor`

The lead does not do a worker's ticket at the same time, does not edit files that a running worker
owns, and takes no step that needs approval without it. Every command takes `--json` and names the next
one in `next_action`.""",
    "Worker Orchestration": """## Worker Orchestration

*For workers and the lead.*

**Pool Configuration:**
- Maximum workers: 15
  - Codex: 5 workers
  - Claude: 5 workers
  - Gemini: 5 workers (optional, disabled by default)

**Worker Constraints:**
- Read-only repository access, unless the ticket says `mode: write`
- Scoped tickets only: read what you need, change nothing outside the scope that your ticket states
- No overlapping file ownership: if your work collides with somebody else's scope, stop and report BLOCKED
- Report findings, do not commit: no commit, push, branch or change of git's configuration
- STATUS.md, DECISIONS.md, AGENTS.md and the other state files are not yours: propose changes in your report
- The lead's commands are refused inside a worker; do not start other agents

**Worker Report:** your final answer, in Markdown, with these headings:
1. Summary - what you did or found, in a few sentences
2. Analysis - the evidence, with file paths and line numbers
3. Proposal - Affected Files, Sketch, Testing, Integration Notes
4. Risks and Alternatives
5. Status - `COMPLETE`; or `BLOCKED` with the blocker, what you attempted and what you need; or
   `NEEDS_CLARIFICATION` with the question, its context and its impact""",
    "Status Report Protocol": """## Status Report Protocol

*For the lead. `orchestrate report` writes it.*

Seven sections, in this order, none added or left out:

1. Current State - phase, milestone, deliverable, overall progress
2. Progress - milestones, deliverables of the current phase, test status
3. Active Work - the lead, the workers with their scopes, the next P0
4. Recent Completions - what was finished since the last report
5. Next Steps - immediate, this phase, next phase
6. Blockers - each with priority, root cause, impact and mitigation
7. Approval Requests - each with reason, evidence, alternatives, impact and the date it is needed by

Due at each milestone, phase end, major blocker, approval request and handoff, and when it is asked for.""",
    "Approval Gates": """## Approval Gates

*For the lead.*

**The user's approval is needed for:**
- The first plan
- Each phase transition and each major milestone
- A breaking change of an API or of the architecture
- A change of technology
- A change of scope
- A worker pool above 15

**No approval is needed for:**
- Foundation work (phase 0)
- Fixes inside the agreed scope
- Tests and documentation

`orchestrate approve GATE --by NAME` records the answer in DECISIONS.md. An approval that comes from
inside a worker is refused.""",
}
