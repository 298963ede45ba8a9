"""The handoff to a new lead: its eight points, and a document with all that the lead needs."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from orchestrator.checks.figures import Figure
from orchestrator.report.history import HISTORY
from orchestrator.report.situation import Situation
from orchestrator.report.status_report import StatusReport
from orchestrator.report.summary import stale_of
from orchestrator.runs.project_step import open_todo
from orchestrator.state import is_owned
from orchestrator.state.canonical.status import status as status_document
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.canonical.status.status import dated
from orchestrator.state.document import opened, section_like, state_errors
from tickets.markdown import field, items, one_line, set_field
from tickets.problems import ProblemError
from tickets.value import Value

DECISIONS_SHOWN = 10
_VAGUE = frozenset({"", "tbd", "todo", "none", "nothing", "...", "n/a", "-", "next immediate action"})
_FEWEST = 2
"""How many words an item needs to describe an action."""


class Point(Value):
    """One point of the checklist; `missing` is empty where it is met."""

    point: str
    missing: str
    do: str


def points_of(found: Situation) -> tuple[Point, ...]:
    """Check the eight points against STATUS.md."""
    made = []
    for point, check, do in _POINTS:
        missing = "STATUS.md cannot be read" if found.status is None else check(found)
        made.append(Point(point, missing, do if missing else ""))
    return tuple(made)


def path_of(root: Path, at: datetime) -> str:
    """Return the path of a handoff's document; a second one of the same second gets a number."""
    stem = f"{HISTORY}/handoff-{at.strftime('%Y%m%d_%H%M%S')}"
    names = chain([stem], (f"{stem}_{number}" for number in count(2)))
    return next(f"{name}.md" for name in names if not os.path.lexists(root / f"{name}.md"))


def status_at_handoff(text: bytes, at: datetime, tests: str) -> bytes:
    """Return STATUS.md with its date, and with the known test figure. Raises StateError."""
    document = opened(PATH, text)
    with state_errors():
        document = dated(document, at)
        progress = section_like(document, "Progress")
        if tests and progress and field(document, progress, "Tests"):
            document = set_field(document, progress, "Tests", one_line(tests))
    return document.data


def tests_line(figures: Sequence[Figure]) -> str:
    """Return the line of STATUS.md about the tests; empty where no check was run."""
    by = {one.name: one for one in figures}
    chosen = by.get("test") or by.get("unit") or by.get("smoke")
    return chosen.in_words() if chosen else ""


def text_of(found: Situation, report: StatusReport, points: Sequence[Point], *, kept: str | None) -> str:
    """Return the document: the next step, open work, and how to continue."""
    said, step = report.current_state, found.step
    branch = (found.head.branch or "no branch").removeprefix("refs/heads/")
    where = f"{kept} (here alone, not in git)" if kept else "none: no run is kept here"
    parts = [
        "\n".join([
            "# Handoff", "",
            f"**Written:** {found.at.isoformat(timespec='seconds')}",
            f"**From:** {one_line(report.lead_agent)}",
            f"**Commit:** {found.head.sha or 'none'} ({one_line(branch)})",
            f"**Status Report:** {where}",
        ]),
        _section("Next Action", [
            f"`{step.step}`" if isinstance(step.step, str) else one_line(step.said), "",
            f"**P0:** {one_line(step.p0) or 'none'}",
        ]),
        _section("Current State", [
            f"**Phase:** {one_line(said.phase)}",
            f"**Milestone:** {one_line(said.milestone)}",
            f"**Deliverable:** {one_line(said.deliverable)}",
            f"**Overall Progress:** {said.overall_progress}",
            *(f"**{name}:** {figure}" for name, figure in report.progress.tests.items()),
        ]),
        _section("Active Workers", [
            f"- {one_line(one.worker)}: {one_line(one.title)} (Scope: {one_line(one.scope)}; "
            f"{one_line(one.status)}; {one_line(one.output)})"
            for one in report.active_work.workers
        ]),
        _section("Open P0", [f"- [ ] {one_line(text)}" for text in open_todo(found.status, "P0")]),
        _section("Decisions to Know", [
            f"- {one.date}: {one_line(one.title)}" for one in found.log.recent[:DECISIONS_SHOWN]
        ]),
        _section("In the Way", [
            *(f"- {one_line(one.title)}: {one_line(one.root_cause)}" for one in report.blockers),
            *(f"- {one_line(one.request)}" for one in report.approval_requests),
            *(f"- {one_line(one.what)}; {one_line(one.do)}"
              for one in stale_of(found) if one.kind == "worker"),
        ]),
        _section("Not Committed", _uncommitted(found)),
        _section("Handoff Quality Checklist", [_point(one) for one in points]),
        _section("Resume Checklist", _RESUME.splitlines()),
    ]  # fmt: skip
    return "\n\n---\n\n".join([*parts, "**Handoff End**"]) + "\n"


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *(lines or ["None."])])


def _uncommitted(found: Situation) -> list[str]:
    families = found.families
    return [f"- {one_line(path)}" for path in found.not_committed if not is_owned(path, families)]


def _point(one: Point) -> str:
    line = f"- [{' ' if one.missing else 'x'}] {one.point}"
    return f"{line}: {one_line(one.missing)}" if one.missing else line


def _deliverable(found: Situation) -> str:
    one = found.status.deliverable if found.status else None
    if one is None or one.name.casefold() in _VAGUE:
        return "no deliverable is named"
    return "" if one.status else f"`{one.name}` has no status"


def _next_p0(found: Situation) -> str:
    first = (open_todo(found.status, "P0") or ("",))[0]
    if not first:
        return "no P0 is open"
    words = first.strip("[]. ").casefold()
    vague = words in _VAGUE or len(words.split()) < _FEWEST
    return f"`{first}` does not say what is to be done" if vague else ""


def _workers(found: Situation) -> str:
    listed = found.status.active if found.status else ()
    bare = [one.worker for one in listed if not one.scope]
    on_roster = {(one.run, one.worker) for one in listed}
    absent = [
        f"{name} of run {state.run.id}"
        for state in found.unfinished
        for name, worker in state.workers.items()
        if not worker.ended and (state.run.id, name) not in on_roster
    ]
    said = [f"{', '.join(bare)} without a scope"] if bare else []
    said += [f"{', '.join(absent)} not on the roster"] if absent else []
    said += [f"{one.worker} of run {one.run}, which is gone" for one in found.lost]
    return "; ".join(said)


def _progress(found: Situation) -> str:
    said = dict(found.status.progress) if found.status else {}
    absent = [name for name in ("Overall", "Current Phase") if "%" not in said.get(name, "")]
    if absent:
        return f"no percentage for {' and '.join(absent)}"
    text = found.text(PATH) or b""
    wrong = [one for one in status_document.problems(text) if "does not follow" in one.what]
    return f"{wrong[0].place}: {wrong[0].what} ({wrong[0].do})" if wrong else ""


def _resume(found: Situation) -> str:
    try:
        document = opened(PATH, found.text(PATH) or b"")
        part = section_like(document, "Resume Checklist")
        listed = items(document, part) if part else ()
    except ProblemError:
        listed = ()
    return "" if listed else "no section `Resume Checklist` with steps"


def _plan(found: Situation) -> str:
    status = found.status
    if status is None or not status.phases:
        return "the Phase Plan names no phase"
    return "" if status.current else f"`{status.phase}` is not in the Phase Plan"


def _criteria(found: Situation) -> str:
    phase = found.status.current if found.status else None
    if phase is None:
        return "the current phase is not in the plan"
    return "" if phase.criteria else f"{phase.title} has no acceptance criteria"


def _tests(found: Situation) -> str:
    said = dict(found.status.progress) if found.status else {}
    return "" if said.get("Tests", "").strip() else "Progress has no `Tests`"


_Check = Callable[[Situation], str]
_POINTS: tuple[tuple[str, _Check, str], ...] = (
    ("STATUS.md has current deliverable", _deliverable, "`orchestrate deliverable start NAME`"),
    ("Next P0 is clear and actionable", _next_p0, "`orchestrate todo add TEXT --priority P0`"),
    ("Active workers listed with scopes", _workers, "`orchestrate resume` says what became of them"),
    ("Progress percentages calculated", _progress, "write it as `0% (0/1 milestones complete)`"),
    ("Resume checklist present", _resume, "`orchestrate init` appends it"),
    ("Phase plan exists", _plan, "write the Phase Plan, and name one of its phases in the header"),
    ("Acceptance criteria defined", _criteria, "list them below `**Acceptance Criteria:**` of the phase"),
    ("Tests status shown", _tests, "`orchestrate handoff --verify` takes it from `[checks]`"),
)

_RESUME = """1. `orchestrate resume` (reads what follows, finishes interrupted changes, names the next step)
2. STATUS.md: the state of the project
3. DECISIONS.md: recent decisions, the newest at the top
4. AGENTS.md: the rules, the pool and the approval gates
5. `orchestrate resume --verify`: the smoke tests
6. The next action above"""
