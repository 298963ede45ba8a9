"""`orchestrate deliverable start|done|block|list`: what the current phase is to bring."""

import argparse
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.parsing import add_actions
from orchestrator.cli.planning import Plan, add_options, message, plan_of, progress, tested
from orchestrator.cli.recording import chosen, record, shortened, shown
from orchestrator.events import DeliverableChanged
from orchestrator.state.canonical.plan_edits import next_of
from orchestrator.state.canonical.status_reading import PATH, Deliverable, Phase

_STATUS = {"start": "IN PROGRESS", "done": "COMPLETE", "block": "BLOCKED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    start = action("start", "make it the current deliverable")
    start.add_argument(
        "--owner", default="", metavar="NAME", help="who makes it (default: as it was, or Lead)"
    )
    done = action("done", "tick it, count, name the next one; done TODO items go to docs/backlog.md")
    block = action("block", "say that it cannot go on")
    block.add_argument("--reason", required=True, metavar="TEXT", help="what it is stuck on")
    for one in (start, done, block):
        one.add_argument("words", nargs="+", metavar="NAME", help="its number, or a unique part of its name")
        add_options(one)
    for one in (start, done, block, action("list", "show them with their numbers")):
        one.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = plan_of(arguments)
    phase = plan.phase(arguments.phase)
    if arguments.action == "list":
        return _list(phase)
    names = [one.name for one in phase.deliverables]
    made = phase.deliverables[chosen(PATH, " ".join(arguments.words), names, "deliverable")]
    owner = getattr(arguments, "owner", "") or (
        "Lead" if arguments.action == "start" and not made.owner else ""
    )
    reason = " ".join(getattr(arguments, "reason", "").split())
    tests = tested(plan.desk, arguments)
    event = DeliverableChanged(
        phase.title, made.name, _STATUS[arguments.action], owner, reason, tests,  # type: ignore[arg-type]
        plan.desk.at, plan.desk.lead,
    )  # fmt: skip
    return _record(plan, event)


def _record(plan: Plan, event: DeliverableChanged) -> Answer:
    after = plan.after(event)
    phase = next(one for one in after.phases if one.title == event.phase)
    made = next(one for one in phase.deliverables if one.name == event.name)
    follows = next_of(phase)
    verb = {"IN PROGRESS": "started", "COMPLETE": "complete", "BLOCKED": "blocked"}[event.status]
    bullets = [f"Updated STATUS.md ({progress(phase)})"]
    if event.reason:
        bullets.append(f"Stuck on: {shortened(event.reason, 200)}")
    next_action = "orchestrate status"
    if event.status == "COMPLETE":
        bullets.append(f"Next: {follows.name}" if follows else "It was the last one of the phase")
        next_action = (
            f"orchestrate deliverable start {_quoted(follows.name)}"
            if follows
            else "orchestrate phase complete"
        )
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
        "done": one.done,
    }
