"""`orchestrate deliverable add|start|done|block|list`: what the current phase is to bring."""

import argparse
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.arguments import add_actions
from orchestrator.cli.planning import Plan, add_options, message, progress, tested, whole_plan_of, with_report
from orchestrator.cli.recording import (
    add_lead,
    chosen,
    given,
    read_back,
    record,
    refuse_known,
    shortened,
    shown,
)
from orchestrator.state.canonical.status.plan import next_of
from orchestrator.state.canonical.status.read import PATH, Deliverable, Phase
from orchestrator.state.canonical.status.todo import GRADES
from orchestrator.state.events import DeliverableAdded, DeliverableChanged

_STATUS = {"start": "IN PROGRESS", "done": "COMPLETE", "block": "BLOCKED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put one into the plan, at the end of its phase")
    add.add_argument("--next", action="store_true", help="it is what is worked on next")
    start = action("start", "make it the current deliverable")
    start.add_argument(
        "--owner", default="", metavar="NAME", help="who makes it (default: as it was, or Lead)"
    )
    done = action("done", "tick it, count, name the next one; done TODO items go to docs/backlog.md")
    block = action("block", "say that it cannot go on")
    block.add_argument("--reason", required=True, metavar="TEXT", help="what it is stuck on")
    block.add_argument("--impact", default="", metavar="TEXT", help="what cannot be done because of it")
    block.add_argument("--mitigation", default="", metavar="TEXT", help="what is done about it")
    block.add_argument("--priority", choices=GRADES, default="", help="P0 leaves a status report")
    add.add_argument("words", nargs="+", metavar="NAME", help="what is to be made")
    add_lead(add)
    for one in (start, done, block):
        one.add_argument("words", nargs="+", metavar="NAME", help="its number, or a unique part of its name")
        add_options(one, by_default=one is done)
    for one in (add, start, done, block, action("list", "show them with their numbers")):
        one.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = whole_plan_of(arguments)
    phase = plan.phase(arguments.phase)
    if arguments.action == "list":
        return _list(phase)
    if arguments.action == "add":
        return _add(plan, plan.open_phase(arguments.phase), arguments)
    names = [one.name for one in phase.deliverables]
    made = phase.deliverables[chosen(PATH, " ".join(arguments.words), names, "deliverable")]
    owner = read_back(getattr(arguments, "owner", "")).strip() or (
        "Lead" if arguments.action == "start" and not made.owner else ""
    )
    reason = given("--reason", arguments.reason) if arguments.action == "block" else ""
    tests = tested(plan.desk, arguments)
    event = DeliverableChanged(
        phase.title, made.name, _STATUS[arguments.action], owner, reason, tests,  # type: ignore[arg-type]
        plan.desk.at, plan.desk.lead,
        *(read_back(getattr(arguments, name, "")) for name in ("impact", "mitigation", "priority")),
    )  # fmt: skip
    answered = _record(plan, event)
    return with_report(plan.desk, answered) if event.priority == "P0" else answered


def _add(plan: Plan, phase: Phase, arguments: argparse.Namespace) -> Answer:
    name = given("deliverable", " ".join(arguments.words))
    refuse_known(PATH, "deliverable", name, [one.name for one in phase.deliverables])
    event = DeliverableAdded(phase.title, name, arguments.next, plan.desk.at, plan.desk.lead)
    after = plan.after(event)
    grown = next(one for one in after.phases if one.title == phase.title)
    made, follows = grown.deliverables[-1], next_of(grown)
    subject = f"Deliverable added: {shortened(name)}"
    bullets = [f"Updated STATUS.md ({progress(grown)})"]
    return record(
        plan.desk, event, message(subject, bullets, ""), [subject, *bullets],
        next_action="orchestrate deliverable list", deliverable=_shown(made), phase=phase.title,
        progress=dict(after.progress), next=_shown(follows) if follows else None,
    )  # fmt: skip


def _record(plan: Plan, event: DeliverableChanged) -> Answer:
    after = plan.after(event)
    phase = next(one for one in after.phases if one.title == event.phase)
    made = next(one for one in phase.deliverables if one.name == event.name)
    follows = next_of(phase)
    verb = {"IN PROGRESS": "started", "COMPLETE": "complete", "BLOCKED": "blocked"}[event.status]
    bullets = [f"Updated STATUS.md ({progress(phase)})"]
    if event.reason:
        bullets.append(f"Stuck on: {shortened(event.reason, 200)}")
    bullets += [
        f"{label}: {shortened(said, 200)}"
        for label, said in (("Impact", event.impact), ("Mitigation", event.mitigation))
        if said
    ]
    next_action = "orchestrate status"
    if event.status == "COMPLETE":
        bullets.append(f"Next: {follows.name}" if follows else "It was the last one of the phase")
        if follows:
            next_action = f"orchestrate deliverable start {_quoted(follows.name)}"
        elif all(met for met, _ in phase.criteria):
            next_action = "orchestrate phase complete"
        else:
            next_action = "orchestrate criterion list"
    subject = f"Deliverable {verb}: {shortened(event.name)}"
    lines = [subject, *bullets]
    return record(
        plan.desk, event, message(subject, bullets, event.tests), lines, next_action=next_action,
        deliverable=_shown(made), phase=event.phase, progress=dict(after.progress),
        next=_shown(follows) if follows else None,
    )  # fmt: skip


def _quoted(name: str) -> str:
    from shlex import quote  # noqa: PLC0415 - for start-up time

    return quote(name)


def _list(phase: Phase) -> Answer:
    made = [{"number": number, **_shown(one)} for number, one in enumerate(phase.deliverables, 1)]
    lines = [f"{one['number']:>3}  {one['status'] or '-':<12} {one['name']}" for one in made]
    return shown([phase.title, *lines], "orchestrate status", phase=phase.title, deliverables=made)


def _shown(one: Deliverable) -> dict[str, Any]:
    return {
        "name": one.name,
        "status": one.status,
        "owner": one.owner,
        "reason": one.reason,
        "impact": one.impact,
        "mitigation": one.mitigation,
        "priority": one.priority,
        "done": one.done,
    }
