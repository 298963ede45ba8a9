"""The status report: its seven sections as values, made of the situation of the project and its history."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from orchestrator.budget.totals import Spending
from orchestrator.checks.figures import Figure
from orchestrator.report.history import Happened, happened_since, last_report, status_before
from orchestrator.report.phase_list import FAMILY
from orchestrator.report.situation import Situation
from orchestrator.runs.live import doing_of
from orchestrator.runs.project_step import open_todo
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.gates import GateAnswer
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status.read import Deliverable, Phase, Status, milestone_percent, slug
from orchestrator.state.facts import percent
from tickets.problems import ProblemError
from tickets.value import Value
from tickets.wording import count_of
from workers.files.locks import is_locked

NOT_RUN = "not run"
_COMPLETE = re.compile(r"\s*\(\d+% complete\)\s*$")


class CurrentState(Value):
    """Section 1, each field as STATUS.md spells it."""

    phase: str
    milestone: str
    deliverable: str
    overall_progress: str


class Mark(Value):
    """One line of a task list."""

    name: str
    done: bool
    status: str
    percent: int | None = None
    """The progress of a milestone, None for a deliverable."""


class Progress(Value):
    """Section 2; `tests` are Unit, Integration, Smoke and Overall."""

    milestones: tuple[Mark, ...]
    deliverables: tuple[Mark, ...]
    tests: Mapping[str, str]


class WorkerShown(Value):
    """A running worker, or one whose verdict is open."""

    worker: str
    title: str
    scope: str
    status: str
    output: str


class ActiveWork(Value):
    """Section 3."""

    lead: str
    workers: tuple[WorkerShown, ...]
    next_p0: str
    command: str
    spending: Spending


class RecentCompletions(Value):
    """Section 4."""

    since: str
    completed: tuple[str, ...]
    commits: tuple[str, ...]
    tests_added: tuple[str, ...]
    documentation: tuple[str, ...]


class NextSteps(Value):
    """Section 5."""

    immediate: tuple[str, ...]
    this_phase: tuple[str, ...]
    next_phase: tuple[str, ...]


class Blocker(Value):
    """Work that cannot continue by itself."""

    title: str
    priority: str
    root_cause: str
    impact: str
    mitigation: str


class Approval(Value):
    """A decision that the user must approve."""

    request: str
    reason: str
    evidence: str
    alternatives: str
    impact: str
    needed_by: str


class StatusReport(Value):
    """All seven sections, with the header."""

    generated: str
    report_for: str
    lead_agent: str
    current_state: CurrentState
    progress: Progress
    active_work: ActiveWork
    recent_completions: RecentCompletions
    next_steps: NextSteps
    blockers: tuple[Blocker, ...]
    approval_requests: tuple[Approval, ...]


def report_on(found: Situation, reader: str, lead: str) -> StatusReport:
    """Return the report on a project; unknown values are marked as unknown, never left out."""
    status = found.status
    since = last_report(found.repository.root) or _day(found.log.started)
    before = status_before(found.repository.root, since)
    happened = happened_since(found.repository.root, since, found.families)
    lead, step = found.lead or lead, found.step
    return StatusReport(
        found.at.isoformat(timespec="seconds"),
        reader,
        lead,
        _current(status),
        Progress(_milestones(status), _deliverables(status), tests_of(found.figures)),
        ActiveWork(
            lead,
            tuple(_workers(found)),
            step.p0 or "none",
            step.said,
            found.spending,
        ),
        _completions(status, before, happened, since),
        _next_steps(status),
        blockers_of(found),
        approvals_of(found),
    )


def tests_of(figures: tuple[Figure, ...]) -> dict[str, str]:
    """Return the test status; overall is the result of all tests, else the sum of the parts at one commit."""
    by = {one.name: one for one in figures}
    said = {
        name.title(): by[name].in_words() if name in by else NOT_RUN
        for name in ("unit", "integration", "smoke")
    }
    parts = [by[name] for name in ("unit", "integration") if name in by]
    if "test" in by:
        said["Overall"] = by["test"].in_words()
    elif parts and len({one.commit for one in parts}) == 1:
        whole = parts[0]._replace(
            good=sum(one.good for one in parts),
            total=sum(one.total for one in parts),
            passed=all(one.passed for one in parts),
            changed=any(one.changed for one in parts),
            ended="see above",
        )
        said["Overall"] = whole.in_words()
    else:
        said["Overall"] = NOT_RUN
    return said


def _day(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def _current(status: Status | None) -> CurrentState:
    if status is None:
        return CurrentState(*["not known"] * 4)
    name = _COMPLETE.sub("", status.milestone) or (status.current.milestone if status.current else "")
    done, total = status.milestones
    deliverable = status.deliverable
    word = deliverable.status.upper() or "PLANNED"
    return CurrentState(
        status.phase or "not known",
        f"{name} ({milestone_percent(status.current)}% complete)" if name else "none",
        f"{deliverable.name} ({word})" if deliverable.name else "none",
        f"{percent(done, total)}% ({done}/{total} milestones complete)",
    )


def _milestones(status: Status | None) -> tuple[Mark, ...]:
    marks = []
    for phase in status.phases if status else ():
        blocked = phase.status.upper().startswith("BLOCKED")
        word = "COMPLETE" if phase.achieved else "BLOCKED" if blocked else "PLANNED"
        if word == "PLANNED" and (phase == (status.current if status else None) or _begun(phase)):
            word = "IN PROGRESS"
        marks.append(Mark(phase.milestone or phase.title, phase.achieved, word, milestone_percent(phase)))
    return tuple(marks)


def _begun(phase: Phase) -> bool:
    return phase.status.upper().startswith("IN PROGRESS") or any(one.done for one in phase.deliverables)


def _deliverables(status: Status | None) -> tuple[Mark, ...]:
    current = status.current if status else None
    return tuple(Mark(one.name, one.done, _word(one)) for one in (current.deliverables if current else ()))


def _word(one: Deliverable) -> str:
    if one.done:
        return "COMPLETE"
    word = one.status.upper()
    return word if word in {"IN PROGRESS", "NEXT", "BLOCKED"} else "PLANNED"


def _workers(found: Situation) -> list[WorkerShown]:
    shown = []
    runs = {state.run.id: state for state in found.runs}
    lost = {(one.run, one.worker) for one in found.lost}
    for one in found.status.active if found.status else ():
        state, output = runs.get(one.run), "none"
        if state is not None and one.worker in state.workers:
            worker = state.workers[one.worker]
            doing = doing_of(state, one.worker, lives=is_locked(state.run.path / "run.lock"))
            word = ", ".join(part for part in (doing, worker.outcome, worker.verdict) if part)
            output = worker.evidence.output or "none yet"
        else:
            word = "lost with its run" if (one.run, one.worker) in lost else "not known: a manual entry"
        pending = f" ({one.pending})" if one.pending else ""
        shown.append(WorkerShown(one.worker, one.title, one.scope or "none", word + pending, output))
    return shown


def _completions(
    status: Status | None, before: Status | None, happened: Happened, since: datetime | None
) -> RecentCompletions:
    known = {(phase.title, one.name) for phase in (before.phases if before else ())
             for one in phase.deliverables if one.done}  # fmt: skip
    integrated = {(one.worker, one.run) for one in (before.completions if before else ())}
    completed = [
        f"{one.name} (deliverable of {phase.title})"
        for phase in (status.phases if status else ())
        for one in phase.deliverables
        if one.done and (phase.title, one.name) not in known
    ]
    completed += [
        f"{one.worker}: {one.title} ({one.outcome}, {one.verdict}, integrated {one.date})"
        for one in (status.completions if status else ())
        if (one.worker, one.run) not in integrated
    ]
    return RecentCompletions(
        since.isoformat(timespec="minutes") if since else "the beginning",
        tuple(completed),
        tuple(f"{sha} {subject}" for sha, subject in happened.commits),
        happened.tests,
        happened.documents,
    )


def _next_steps(status: Status | None) -> NextSteps:
    if status is None:
        return NextSteps((), (), ())
    current = status.current
    open_ones = [
        f"{one.name} ({_word(one)})" for one in (current.deliverables if current else ()) if not one.done
    ]
    later = list(status.phases)
    at = later.index(current) + 1 if current in later else 0
    following = next((phase for phase in later[at:] if not phase.complete), None) if current else None
    ahead: list[str] = []
    if following is not None:
        ahead = [f"{following.title}: {one.name}" for one in following.deliverables if not one.done]
        ahead = ahead or [following.title]
    return NextSteps(open_todo(status, "P0"), (*open_ones, *open_todo(status, "P1")), tuple(ahead))


# What asks something of the reader


def blockers_of(found: Situation) -> tuple[Blocker, ...]:
    """Return blocked work: deliverables, workers of the newest runs, failing checks; P0 comes first."""
    blockers = [*_blocked_deliverables(found.status), *_blocked_workers(found), *_blocked_plans(found)]
    blockers += [
        Blocker(
            f"The {one.name} check fails",
            "P0",
            f"`{one.command}`: {one.good}/{one.total} passing, {one.ended}",
            "work based on this commit may not work",
            f"see {one.output}; fix it and verify again: `orchestrate report --verify`",
        )
        for one in found.figures
        if not one.passed
    ]
    return tuple(sorted(blockers, key=lambda one: one.priority))


def approvals_of(found: Situation) -> tuple[Approval, ...]:
    """Return open approvals: a completed phase, a pool that is too large, proposed decisions."""
    answers = _answers(found.text(DECISIONS))
    asked = [*_transition(found.status, answers), *_pool(found)]
    for one in found.log.recent:
        if one.status.lower().startswith(("proposed", "pending")):
            what = f"Decide on: {one.title}"
            asked.append(
                Approval(what, one.decision or "it is proposed", f"DECISIONS.md, entry of {one.date}",
                         "leave it as it is", "the decision stays open until then", "not stated")
            )  # fmt: skip
    return tuple(asked)


def _blocked_deliverables(status: Status | None) -> list[Blocker]:
    found = []
    for phase in status.phases if status else ():
        # Open work of a phase that was completed nevertheless blocks nothing.
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


def _blocked_workers(found: Situation) -> list[Blocker]:
    """Return blocked workers; only the newest attempt of a ticket counts."""
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


def _blocked_plans(found: Situation) -> list[Blocker]:
    """Return what phase workers wait for an answer to."""
    if FAMILY not in found.families or found.status is None:
        return []
    from orchestrator.report.phase_plans import phase_shown  # noqa: PLC0415 - most projects have none

    shown = (phase_shown(found.text, slug(phase.title), phase) for phase in found.status.phases)
    return [
        Blocker(
            f"{phase.name} {one.name}: {one.title}",
            "P1",
            f"attempted: {one.attempted}" if one.attempted else "not stated",
            f"{one.task or one.plan or 'a part of the phase'} cannot go on"
            + (", its worker waits" if one.mode == "pause" else ""),
            f"needs {one.needs or 'an answer'}: `orchestrate msg inbox` has the command for it",
        )
        for phase in shown
        for one in phase.waiting
        if one.state == "open"
    ]


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
    listed = count_of(len(phase.deliverables), "deliverable")
    met = sum(done for done, _ in phase.criteria)
    return [
        Approval(
            f"{what}: `orchestrate approve {gate} --by NAME`",
            f"all deliverables of {phase.title} are complete",
            f"{listed}, {met}/{len(phase.criteria)} acceptance criteria met",
            f"add to {phase.title} what is missing",
            f"work on {following.title} waits" if following else "the project stays open",
            f"before {following.title} begins" if following else "before the project is closed",
        )
    ]


def _is_done(phase: Phase) -> bool:
    made = bool(phase.deliverables) and all(one.done for one in phase.deliverables)
    return phase.complete or (made and all(met for met, _ in phase.criteria))


def _pool(found: Situation) -> list[Approval]:
    return [
        Approval(
            f"A larger pool: {one.what}",
            "AGENTS.md states more workers than are approved",
            one.place,
            f"stay with {found.approved_pool}",
            "runs are held to the approved number until then",
            "before the next run",
        )
        for one in found.rules.problems
        if rules.asks_approval(one)
    ]
