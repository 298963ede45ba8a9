"""What a status report asks of its reader: what stands in the way, and what waits for an approval."""

from typing import NamedTuple

from orchestrator.report.gather import Gathered, approved_of
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.gates import GateAnswer
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status.read import Phase, Status
from tickets.problems import ProblemError


class Blocker(NamedTuple):
    """Something that cannot go on by itself."""

    title: str
    priority: str
    root_cause: str
    impact: str
    mitigation: str


class Approval(NamedTuple):
    """Something that the user has to agree to."""

    request: str
    reason: str
    evidence: str
    alternatives: str
    impact: str
    needed_by: str


def blockers_of(found: Gathered) -> tuple[Blocker, ...]:
    """Return what is blocked: deliverables, workers of the newest runs, checks that fail; P0 comes first."""
    blockers = [*_deliverables(found.status), *_workers(found)]
    blockers += [
        Blocker(
            f"The {one.name} check fails",
            "P0",
            f"`{one.command}`: {one.good}/{one.total} passing, {one.ended}",
            "what is built on this commit may not work",
            f"see {one.output}; mend it and verify again: `orchestrate report --verify`",
        )
        for one in found.figures
        if not one.passed
    ]
    return tuple(sorted(blockers, key=lambda one: one.priority))


def approvals_of(found: Gathered) -> tuple[Approval, ...]:
    """Return what waits for the user: a phase that is done, a pool that is too large, proposed decisions."""
    answers = _answers(found.texts.get("DECISIONS.md"))
    asked = [*_transition(found.status, answers), *_pool(found)]
    for one in found.decisions:
        if one.status.lower().startswith(("proposed", "pending")):
            what = f"Decide on: {one.title}"
            asked.append(
                Approval(what, one.decision or "it is proposed", f"DECISIONS.md, entry of {one.date}",
                         "leave it as it is", "the decision stays open until then", "not stated")
            )  # fmt: skip
    return tuple(asked)


def _deliverables(status: Status | None) -> list[Blocker]:
    found = []
    for phase in status.phases if status else ():
        # What a phase left open when it was completed all the same holds nobody up.
        for one in phase.deliverables if not phase.complete else ():
            if one.status.upper() == "BLOCKED" and not one.done:
                is_current = status is not None and one.name == status.deliverable.name
                found.append(
                    Blocker(
                        one.name,
                        one.priority or ("P0" if is_current else "P1"),
                        one.reason or "not stated; STATUS.md says BLOCKED",
                        one.impact or f"{phase.title} cannot be completed",
                        one.mitigation or f"settle it with {one.owner or 'the lead'}",
                    )
                )
    return found


def _workers(found: Gathered) -> list[Blocker]:
    """Return blocked workers; only the newest try of a ticket counts."""
    blockers: list[Blocker] = []
    seen: set[tuple[str, str]] = set()
    for state in reversed(found.runs):
        for name, worker in state.workers.items():
            ticket = (state.phase, worker.ticket)
            if ticket in seen or worker.outcome == "skipped":
                continue
            seen.add(ticket)
            if worker.outcome in ("blocked", "needs_clarification"):
                again = f"orchestrate run {state.phase} --only {worker.ticket}"
                blockers.append(
                    Blocker(
                        f"{name}: {state.titles[name]}",
                        "P1",
                        worker.reason or worker.outcome.replace("_", " "),
                        f"nothing of {worker.ticket} has landed",
                        f"answer it in the ticket's template, then `{again}`",
                    )
                )
    return blockers


def _answers(text: bytes | None) -> dict[str, GateAnswer]:
    try:
        return gates.answers(text) if text else {}
    except ProblemError:
        return {}


def _transition(status: Status | None, answers: dict[str, GateAnswer]) -> list[Approval]:
    phase = status.current if status else None
    if status is None or phase is None or not _is_done(phase):
        return []
    after = status.phases[status.phases.index(phase) + 1 :]
    following = next((one for one in after if not one.complete), None)
    gate = gates.gate_between(status, phase, following)
    if not gate or gate in answers:
        return []
    what = f"Begin {following.title}" if following else f"Close {phase.title}, the last phase"
    met = sum(done for done, _ in phase.criteria)
    return [
        Approval(
            f"{what}: `orchestrate approve {gate} --by NAME`",
            f"all deliverables of {phase.title} are complete",
            f"{len(phase.deliverables)} deliverables, {met}/{len(phase.criteria)} acceptance criteria met",
            f"add to {phase.title} what is missing",
            f"work on {following.title} waits" if following else "the project stays open",
            f"before {following.title} begins" if following else "before the project is closed",
        )
    ]


def _is_done(phase: Phase) -> bool:
    made = bool(phase.deliverables) and all(one.done for one in phase.deliverables)
    return phase.complete or (made and all(met for met, _ in phase.criteria))


def _pool(found: Gathered) -> list[Approval]:
    text = found.texts.get("AGENTS.md")
    approved = approved_of(found.texts)
    wrong = [one for one in rules.read_pool(text, approved=approved)[1] if rules.asks_approval(one)]
    return [
        Approval(
            f"A larger pool: {one.what}",
            "AGENTS.md states more workers than are approved",
            one.place,
            f"stay with {approved}",
            "runs are held to the approved number until then",
            "before the next run",
        )
        for one in wrong
    ]
