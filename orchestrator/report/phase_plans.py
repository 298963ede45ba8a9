"""How the plans of phases stand, for commands: the files of a phase as one answer."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from orchestrator.state.canonical.status.read import Phase
from orchestrator.state.phases import plan_file
from orchestrator.state.phases.paths import STATE, plan_path, status_path
from orchestrator.state.phases.phase_status.read import (
    STATES,
    PhaseBlocker,
    PhaseStatus,
    PlanRow,
    pointer,
    read,
)
from tickets.problems import Problem, ProblemError
from tickets.value import Value

Read = Callable[[str], bytes | None]
"""Reads a state file by its path; None where there is none."""


class PhaseShown(Value):
    """One phase with its plans; a missing file is None or empty."""

    name: str
    phase: Phase | None
    """None where the plan of the project does not have it."""
    status: PhaseStatus | None
    plans: tuple[plan_file.PhasePlan, ...]
    problems: tuple[Problem, ...]
    """Why a file of it cannot be read."""

    @property
    def rows(self) -> list[PlanRow]:
        """How each plan stands, in the order of work; one that has left PLAN.md comes last."""
        left = {row.plan: row for row in self.status.plans} if self.status else {}
        new = (PlanRow(one.id, one.title, "not started", None, None, None, None, None) for one in self.plans)
        return [*[left.pop(one.plan, one) for one in new], *left.values()]

    @property
    def waiting(self) -> list[PhaseBlocker]:
        """The blockers that are not closed, the newest first."""
        listed = self.status.blockers if self.status else ()
        return [one for one in reversed(listed) if not one.is_closed]


def phase_shown(read_file: Read, name: str, phase: Phase | None) -> PhaseShown:
    """Read the files of a phase, by its short name."""
    problems: list[Problem] = []
    status: PhaseStatus | None = None
    plans: tuple[plan_file.PhasePlan, ...] = ()
    try:
        if (text := read_file(status_path(name))) is not None:
            status = read(status_path(name), text)
    except ProblemError as error:
        problems += error.problems
    try:
        if (text := read_file(plan_path(name))) is not None:
            plans = plan_file.read(plan_path(name), text)
    except ProblemError as error:
        problems += error.problems
    return PhaseShown(name, phase, status, plans, tuple(problems))


def project_context(read_file: Read) -> list[str]:
    """Return the context of the project; none where STATE.md cannot be read, which `validate` reports."""
    from orchestrator.state.phases.project_state import context_of  # noqa: PLC0415 - one phase needs none of it

    try:
        text = read_file(STATE)
        return list(context_of(text)) if text else []
    except ProblemError:
        return []


def in_brief(shown: PhaseShown) -> dict[str, Any]:
    """Return what a list of phases shows of one."""
    status, rows = shown.status, shown.rows
    counts = Counter(row.state for row in rows)
    return {
        "state": status.state if status else None,
        "worker": status.worker if status else None,
        "counts": {state.replace(" ", "_"): counts[state] for state in STATES} if rows else None,
        "blockers": [_blocker(shown.name, one) for one in shown.waiting],
    }


def in_full(shown: PhaseShown) -> dict[str, Any]:
    """Return all of a phase; what is not known is null."""
    phase, status = shown.phase, shown.status
    brief = in_brief(shown)
    worker = brief["worker"]
    return {
        "phase": shown.name,
        "title": phase.title if phase else status.title if status else None,
        "status": (phase.status or None) if phase else None,
        "state": brief["state"],
        "milestone": (phase.milestone or None) if phase else None,
        "worker": worker,
        "run": worker.partition(".")[0] if worker else None,
        "counts": brief["counts"],
        "plans": [plan_shown(shown, row) for row in shown.rows],
        "blockers": [_blocker(shown.name, one) for one in (status.blockers if status else ())],
        "decisions": [{"date": one.date, "title": one.title} for one in (status.decisions if status else ())],
        "context": [one.text for one in (status.context if status else ())],
    }


def plan_shown(shown: PhaseShown, row: PlanRow) -> dict[str, Any]:
    """Return one plan with its tasks: those that are reported, then those of PLAN.md that are not."""
    plan = next((one for one in shown.plans if one.id == row.plan), None)
    told = shown.status.tasks.get(row.plan, ()) if shown.status else ()
    tasks = [{"task": one.text, "state": one.state, "blocker": one.blocker} for one in told]
    known = {one.text for one in told}
    ahead = [task for task in plan.tasks if task not in known] if plan else []
    return {
        **row._asdict(),
        "title": plan.title if plan else row.title,
        "verify": plan.verify if plan else None,
        "tasks": [*tasks, *({"task": task, "state": "todo", "blocker": None} for task in ahead)],
    }


def _blocker(name: str, one: PhaseBlocker) -> dict[str, Any]:
    return {
        "blocker": one.name,
        "title": one.title,
        "state": one.state,
        "plan": one.plan,
        "task": one.task,
        "mode": one.mode,
        "raised": one.raised or None,
        "message": one.message or None,
        "pointer": pointer(status_path(name), one.name),
    }
