"""The status report: its seven sections as values, from what was gathered; pure but for the history."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from orchestrator.budget.totals import Spending
from orchestrator.checks.figures import Figure
from orchestrator.report._blockers import Approval, Blocker, approvals_of, blockers_of
from orchestrator.report.gather import Gathered, open_todo
from orchestrator.report.history import Happened, happened_since, last_report, status_before
from orchestrator.report.summary import step_of
from orchestrator.runs.live import doing_of
from orchestrator.runs.state import RunState
from orchestrator.state.canonical.status.read import Deliverable, Phase, Status, milestone_percent
from orchestrator.state.facts import percent
from workers.files.locks import is_locked

NOT_RUN = "not run"
_COMPLETE = re.compile(r"\s*\(\d+% complete\)\s*$")


class CurrentState(NamedTuple):
    """Section 1, each as it is spelled there."""

    phase: str
    milestone: str
    deliverable: str
    overall_progress: str


class Mark(NamedTuple):
    """One line of a task list."""

    name: str
    done: bool
    status: str
    percent: int | None = None
    """How far a milestone is, None for a deliverable."""


class Progress(NamedTuple):
    """Section 2; `tests` are Unit, Integration, Smoke and Overall."""

    milestones: tuple[Mark, ...]
    deliverables: tuple[Mark, ...]
    tests: Mapping[str, str]


class WorkerShown(NamedTuple):
    """A worker that is out, or whose verdict is open."""

    worker: str
    title: str
    scope: str
    status: str
    output: str


class ActiveWork(NamedTuple):
    """Section 3."""

    lead: str
    workers: tuple[WorkerShown, ...]
    next_p0: str
    command: str
    spending: Spending


class RecentCompletions(NamedTuple):
    """Section 4."""

    since: str
    completed: tuple[str, ...]
    commits: tuple[str, ...]
    tests_added: tuple[str, ...]
    documentation: tuple[str, ...]


class NextSteps(NamedTuple):
    """Section 5."""

    immediate: tuple[str, ...]
    this_phase: tuple[str, ...]
    next_phase: tuple[str, ...]


class StatusReport(NamedTuple):
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


def report_on(found: Gathered, reader: str, lead: str, waiting: tuple[RunState, ...]) -> StatusReport:
    """Return the report on a project; what is unknown is marked as unknown, never left out."""
    status = found.status
    since = last_report(found.repository.root) or _day(found.started)
    before = status_before(found.repository.root, since)
    happened = happened_since(found.repository.root, since)
    step = step_of(found, waiting)
    return StatusReport(
        found.at.isoformat(timespec="seconds"),
        reader,
        (status.lead if status else "") or lead,
        _current(status),
        Progress(_milestones(status), _deliverables(status), tests_of(found.figures)),
        ActiveWork(
            (status.lead if status else "") or lead,
            tuple(_workers(found)),
            step.p0 or "none",
            step.command,
            found.spending,
        ),
        _completions(status, before, happened, since),
        _next_steps(status),
        blockers_of(found),
        approvals_of(found),
    )


def as_json(value: Any) -> Any:
    """Return values in the form of JSON."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_json(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    return value


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


def _workers(found: Gathered) -> list[WorkerShown]:
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
            word = "lost with its run" if (one.run, one.worker) in lost else "not known: put there by hand"
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
