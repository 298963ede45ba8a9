"""`deliverable add|start|done|block|list`: the deliverables of a phase."""

from typing import Any, Literal

from orchestrator.commands._phase_plan import (
    TIMEOUT,
    Plan,
    Summary,
    Tests,
    message,
    plan_of,
    progress,
    tested,
    whole_plan_of,
    with_report,
)
from orchestrator.commands._record import chosen, given, read_back, record, refuse_known, shortened
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.invoke import waits_by
from orchestrator.errors import Refusal
from orchestrator.state.canonical.status.plan import next_of
from orchestrator.state.canonical.status.read import PATH, Deliverable, Phase, slug
from orchestrator.state.events import DeliverableAdded, DeliverableChanged, Grade
from tickets.problems import Problem
from tickets.value import Value

_STATUS = {"start": "IN PROGRESS", "done": "COMPLETE", "block": "BLOCKED"}


class Arguments(Value):
    """The arguments of `deliverable`."""

    action: Literal["add", "start", "done", "block", "list"]
    text: str = ""
    """The name of the new one; or the number or a unique part of the name of an existing one."""
    phase: str | None = None
    """None: the current one."""
    next: bool = False
    """Work on the new one next."""
    owner: str = ""
    reason: str = ""
    """Why it is blocked."""
    impact: str = ""
    mitigation: str = ""
    priority: Grade | Literal[""] = ""
    """P0 writes a status report."""
    finished: bool = False
    """All of which every ticket is done, in place of a name."""
    verify: bool | None = None
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[Summary]:
    """Change a deliverable, or list those of a phase."""
    plan = whole_plan_of(caller)
    phase = plan.phase(arguments.phase)
    if arguments.action == "list":
        listed = [{"number": number, **_shown(one)} for number, one in enumerate(phase.deliverables, 1)]
        keys = {"phase": phase.title, "deliverables": listed}
        return answer((), "orchestrate status", **keys).showing(())
    if arguments.action == "add":
        return _add(plan, plan.open_phase(arguments.phase), arguments)
    if arguments.finished:
        return _finish(caller, plan, phase, arguments)
    names = [one.name for one in phase.deliverables]
    made = phase.deliverables[chosen(PATH, arguments.text, names, "deliverable")]
    owner = read_back(arguments.owner).strip() or (
        "Lead" if arguments.action == "start" and not made.owner else ""
    )
    reason = given("--reason", arguments.reason) if arguments.action == "block" else ""
    is_done = arguments.action == "done"
    event = DeliverableChanged(
        phase.title, made.name, _STATUS[arguments.action], owner, reason, "",  # type: ignore[arg-type]
        plan.writer.at, plan.writer.lead,
        *map(read_back, (arguments.impact, arguments.mitigation, arguments.priority)),
    )  # fmt: skip
    # One that is complete already is tested only if that is asked for.
    tests = Tests(arguments.verify, arguments.timeout, by_default=is_done and not plan.shows(event))
    event = event._replace(tests=tested(plan.writer, tests))
    recorded = _record(plan, event)
    return with_report(plan.writer, recorded) if event.priority == "P0" else recorded


def _add(plan: Plan, phase: Phase, arguments: Arguments) -> Answer[Summary]:
    name = given("deliverable", arguments.text)
    refuse_known(PATH, "deliverable", name, [one.name for one in phase.deliverables])
    event = DeliverableAdded(phase.title, name, arguments.next, plan.writer.at, plan.writer.lead)
    after = plan.after(event)
    grown = next(one for one in after.phases if one.title == phase.title)
    made, follows = grown.deliverables[-1], next_of(grown)
    subject = f"Deliverable added: {shortened(name)}"
    bullets = [f"Updated STATUS.md ({progress(grown)})"]
    return record(
        plan.writer, event, message(subject, bullets, ""),
        next_action="orchestrate deliverable list", deliverable=_shown(made), phase=phase.title,
        progress=dict(after.progress), next=_shown(follows) if follows else None,
    ).showing((subject, *bullets))  # fmt: skip


def _finish(caller: Caller, plan: Plan, phase: Phase, arguments: Arguments) -> Answer[Summary]:
    """Complete all deliverables whose tickets are done; the tests run once, for all of them."""
    from orchestrator.prepare.prepare import finished_deliverables  # noqa: PLC0415 - few calls render templates

    if arguments.action != "done" or arguments.text:
        raise Refusal(
            Problem("--finished", "goes with `deliverable done` and no name", "take one of them out")
        )
    names = finished_deliverables(plan.writer.repository.root, slug(phase.title))
    if not names:
        what = "no open deliverable has all its tickets done"
        problem = Problem(phase.title, what, "name one of `orchestrate deliverable list`")
        raise Refusal(problem, next_action=waits_by([problem], "lead"))
    tests = tested(plan.writer, Tests(arguments.verify, arguments.timeout, by_default=True))
    at, lead = plan.writer.at, plan.writer.lead
    made = [
        _record(
            plan_of(caller),
            DeliverableChanged(phase.title, name, "COMPLETE", "", "", tests, at, lead, "", "", ""),
        )
        for name in names
    ]
    last = made[-1]
    document = {**last.document, "deliverables": [one.document["deliverable"] for one in made]}
    return last._replace(document=document).showing((*(one.view[0] for one in made[:-1]), *last.view))


def _record(plan: Plan, event: DeliverableChanged) -> Answer[Summary]:
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
            from shlex import quote  # noqa: PLC0415 - for start-up time

            next_action = f"orchestrate deliverable start {quote(follows.name)}"
        elif all(met for met, _ in phase.criteria):
            next_action = "orchestrate phase complete"
        else:
            next_action = "orchestrate criterion list"
    subject = f"Deliverable {verb}: {shortened(event.name)}"
    return record(
        plan.writer, event, message(subject, bullets, event.tests), next_action=next_action,
        deliverable=_shown(made), phase=event.phase, progress=dict(after.progress),
        next=_shown(follows) if follows else None,
    ).showing((subject, *bullets))  # fmt: skip


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
