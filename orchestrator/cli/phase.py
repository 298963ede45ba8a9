"""`orchestrate phase start|complete|list`: from one phase of the plan to the next."""

import argparse
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.parsing import add_actions
from orchestrator.cli.planning import Plan, add_options, message, pass_gate, plan_of, tested, with_report
from orchestrator.cli.recording import record, shown
from orchestrator.events import PhaseMoved
from orchestrator.refusal import Refusal
from orchestrator.state.canonical.gates import gate_between
from orchestrator.state.canonical.status_reading import PATH, Phase, slug
from tickets.problems import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    start = action("start", "begin a phase: its first deliverable is next")
    start.add_argument("phase", metavar="PHASE", help="its number, its short name, or a part of its title")
    complete = action("complete", "end the current phase and begin the next one of the plan")
    complete.add_argument(
        "phase", nargs="?", metavar="PHASE", help="the one to end (default: the current one)"
    )
    add_options(start)
    add_options(complete)
    action("list", "show the phases of the plan")


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = plan_of(arguments)
    if arguments.action == "list":
        listed = [_shown(phase) for phase in plan.status.phases]
        lines = [f"{one['name']:<10} {one['status'] or '-':<12} {one['title']}" for one in listed]
        return shown(lines or ["the plan has no phase"], "orchestrate status", phases=listed)
    phase = plan.phase(arguments.phase)
    if arguments.action == "start":
        return _move(plan, arguments, None, phase)
    _refuse_open(phase)
    later = plan.status.phases[plan.status.phases.index(phase) + 1 :]
    follows = next((one for one in later if not one.complete), None)
    return _move(plan, arguments, phase, follows)


def _move(plan: Plan, arguments: argparse.Namespace, ended: Phase | None, begun: Phase | None) -> Answer:
    is_current = begun is not None and begun == plan.status.current and begun.status.startswith("IN PROGRESS")
    if begun is not None and begun.complete:
        problem = Problem(
            f"{PATH}:{begun.line}", f"{begun.title} is complete", "change its status line by hand"
        )
        raise Refusal(problem)
    gate = "" if is_current and ended is None else gate_between(plan.status, ended, begun)
    about = f"going on to {begun.title}" if begun else f"completing {ended.title if ended else 'the plan'}"
    is_over = ended is not None and ended.complete and (begun is None or begun == plan.status.current)
    is_so = is_over or (is_current and ended is None)
    if not is_so:
        pass_gate(plan.desk, gate, about)
    tests = tested(plan.desk, arguments)
    event = PhaseMoved(
        ended.title if ended else None, begun.title if begun else None, gate, tests,
        plan.desk.at, plan.desk.lead,
    )  # fmt: skip
    after = plan.after(event)
    subject = f"Phase complete: {ended.title}" if ended else f"Phase started: {begun.title if begun else ''}"
    done, total = after.milestones
    bullets = [
        f"Updated STATUS.md ({done}/{total} milestones complete)",
        "Logged the transition in DECISIONS.md",
    ]
    if begun and ended:
        bullets.append(f"Next: {begun.title}")
    next_action = f"orchestrate plan {slug(begun.title)}" if begun else "orchestrate status"
    facts: dict[str, Any] = {
        "ended": event.ended, "begun": event.begun, "gate": gate or None,
        "phase": after.phase, "milestone": after.milestone, "progress": dict(after.progress),
    }  # fmt: skip
    recorded = record(
        plan.desk, None if is_so else event, message(subject, bullets, tests), [subject, *bullets],
        next_action=next_action, **facts,
    )  # fmt: skip
    return with_report(plan.desk, recorded)


def _refuse_open(phase: Phase) -> None:
    """Stop where a phase has work left. Raises Refusal with all of it."""
    if phase.complete:
        return
    do, also = "`orchestrate deliverable done`", "`orchestrate criterion done`"
    left = [
        Problem(PATH, f"deliverable not complete: {one.name} ({phase.title})", do)
        for one in phase.deliverables
        if not one.done
    ]
    left += [
        Problem(PATH, f"criterion not met: {text} ({phase.title})", also)
        for met, text in phase.criteria
        if not met
    ]
    if left:
        raise Refusal(*left, next_action="orchestrate deliverable list")


def _shown(phase: Phase) -> dict[str, Any]:
    return {
        "name": slug(phase.title),
        "title": phase.title,
        "status": phase.status,
        "milestone": phase.milestone,
        "deliverables": [sum(one.done for one in phase.deliverables), len(phase.deliverables)],
        "criteria": [sum(met for met, _ in phase.criteria), len(phase.criteria)],
    }
