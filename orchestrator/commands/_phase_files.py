"""The files of the family `phases` for the lead's commands: what they show, and what a lead adds to them."""

from collections.abc import Sequence
from typing import Any

from orchestrator.commands._phase_plan import Plan, Summary
from orchestrator.commands._record import Writer, given, read_back, record, shortened
from orchestrator.commands.answer import Answer, answer
from orchestrator.errors import Refusal
from orchestrator.report.phase_list import FAMILY
from orchestrator.report.phase_plans import (
    PhaseShown,
    in_full,
    phase_shown,
    plan_shown,
    project_context,
)
from orchestrator.settings.recording import read_recording
from orchestrator.state.canonical.status.read import slug
from orchestrator.state.events import Decision, NewPlan, PhaseNoted, PlanAdded
from orchestrator.state.phases.paths import STATE, plan_path, status_path
from orchestrator.state.phases.phase_status.read import PlanRow
from orchestrator.state.phases.plan_file import next_id
from tickets.problems import Problem
from tickets.ticket import plan_id_fault


def show(plan: Plan, word: str | None) -> Answer[Summary]:
    """Answer with all of one phase, by default the current one. Raises Refusal."""
    shown = _one(plan, word)
    return answer(shown.problems, "orchestrate status", **in_full(shown)).showing(())


def add_plan(plan: Plan, word: str | None, made: NewPlan) -> Answer[Summary]:
    """Append a plan to PLAN.md. Raises Refusal, StateError."""
    shown = _one(plan, word)
    if shown.problems:
        raise Refusal(*shown.problems)
    known = [row.plan for row in shown.rows]
    made = NewPlan(
        made.id or next_id(shown.name, known),
        given("TITLE", made.title),
        made.verify.strip(),
        tuple(given("--task", task) for task in made.tasks),
    )
    if fault := plan_id_fault(made.id):
        raise Refusal(Problem("--id", f"`{made.id}` {fault}", "give it another"))
    if made.id in known:
        there = f"there are {', '.join(known)}"
        raise Refusal(Problem("--id", f"{shown.name} has a plan `{made.id}` already", there))
    if any(not char.isprintable() for char in made.verify):
        what = "is more than one line, or holds a character that cannot be seen"
        raise Refusal(Problem("--verify", what, "write one command"))
    subject = f"Plan added: {made.id}: {shortened(made.title)}"
    bullets = (
        f"Updated {plan_path(shown.name)}",
        *(f"Complete when `{made.verify}` passes",) * bool(made.verify),
    )
    row = PlanRow(made.id, made.title, "not started", None, None, None, None, None)
    view = plan_shown(shown, row) | {
        "verify": made.verify or None,
        "tasks": [{"task": task, "state": "todo", "blocker": None} for task in made.tasks],
    }
    event = PlanAdded(shown.name, made, plan.writer.at, plan.writer.lead)
    return _recorded(plan.writer, event, subject, bullets, plan=view)


def note(plan: Plan, word: str | None, text: str, remove: int | None) -> Answer[Summary]:
    """Add a line of context, of the project or of a phase, or remove one. Raises Refusal, StateError."""
    _refuse_off(plan)
    shown = None if word is None else _one(plan, word)
    name, place = (shown.name, status_path(shown.name)) if shown else ("", STATE)
    if remove is not None:
        return _without_note(plan, name, _context(plan, shown), remove, text)
    said = given("TEXT", text)
    subject = f"Noted: {shortened(said)}"
    event = PhaseNoted(name, plan.writer.at, text=said, lead=plan.writer.lead)
    return _recorded(plan.writer, event, subject, (f"Updated {place}",), note=said)


def decide_in_phase(plan: Plan, word: str, made: Decision) -> Answer[None]:
    """Add a decision to a phase's own. Raises Refusal, StateError."""
    shown = _one(plan, word)
    event = PhaseNoted(shown.name, plan.writer.at, decision=made, lead=plan.writer.lead)
    subject = f"Decided in {shown.name}: {shortened(made.title)}"
    message = f"{subject}\n\n- {shortened(made.title, 90)}: {shortened(made.decision, 200)}\n"
    facts = {"title": made.title, "date": f"{plan.writer.at:%Y-%m-%d}", "supersedes": []}
    return record(plan.writer, event, message, decisions=[facts])


def _without_note(plan: Plan, name: str, listed: Sequence[str], number: int, text: str) -> Answer[Summary]:
    if text.strip():
        raise Refusal(Problem("--remove", "takes no text", "leave one of the two out"))
    if not 1 <= number <= len(listed):
        known = "; ".join(f"{at}: {shortened(one)}" for at, one in enumerate(listed, 1))
        raise Refusal(
            Problem(
                "--remove", f"there is no line {number}", f"there are: {known}" if known else "there is none"
            )
        )
    gone = listed[number - 1]
    event = PhaseNoted(name, plan.writer.at, removed=gone, lead=plan.writer.lead)
    where = status_path(name) if name else STATE
    subject = f"Note removed: {shortened(gone)}"
    return _recorded(plan.writer, event, subject, (f"Updated {where}",), note=gone)


def _context(plan: Plan, shown: PhaseShown | None) -> list[str]:
    if shown is None:
        return project_context(plan.writer.text)
    return [one.text for one in shown.status.context] if shown.status else []


def _recorded(
    writer: Writer, event: PlanAdded | PhaseNoted, subject: str, bullets: Sequence[str], **facts: Any
) -> Answer[Summary]:
    message = "\n".join([read_back(subject), "", *(f"- {bullet}" for bullet in bullets), ""])
    return record(writer, event, message, **facts).showing((subject, *bullets))


def _one(plan: Plan, word: str | None) -> PhaseShown:
    """Read the files of one phase. Raises Refusal."""
    _refuse_off(plan)
    phase = plan.phase(word)
    return phase_shown(plan.writer.text, slug(phase.title), phase)


def _is_on(plan: Plan) -> bool:
    return FAMILY in read_recording(plan.writer.repository.root).families


def _refuse_off(plan: Plan) -> None:
    if not _is_on(plan):
        what = f"the family `{FAMILY}` is off"
        do = f"`orchestrate init --with {FAMILY}` turns it on"
        raise Refusal(Problem("phase", what, do), next_action=f"orchestrate init --with {FAMILY}")
