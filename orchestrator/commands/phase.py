"""`phase add|start|complete|list|show|plan|note`: the phases of the project, and the plans of one."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from orchestrator.commands._phase_files import add_plan, note, show
from orchestrator.commands._phase_plan import (
    TIMEOUT,
    Plan,
    Summary,
    Tests,
    left_open,
    listing,
    message,
    pass_gate,
    tested,
    whole_plan_of,
    with_report,
)
from orchestrator.commands._record import given, read_back, record, refuse_known, shortened
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.report.phase_list import FAMILY, phase_listed, phases_listed
from orchestrator.report.phase_plans import project_context
from orchestrator.settings.recording import read_recording
from orchestrator.state.canonical.decisions.gates import gate_between, growth_gate
from orchestrator.state.canonical.status.plan import next_number
from orchestrator.state.canonical.status.read import PATH, Phase, slug
from orchestrator.state.events import NewPlan, PhaseAdded, PhaseMoved
from tickets.problems import Problem
from tickets.wording import count_of


class Arguments(NamedTuple):
    """The arguments of `phase`."""

    action: Literal["add", "start", "complete", "list", "show", "plan", "note"]
    phase: str | None = None
    """The one that is meant: its number, its short name, or a part of its title."""
    force: bool = False
    """Complete it although deliverables or criteria are open; needs a reason."""
    reason: str = ""
    verify: bool | None = None
    timeout: float = TIMEOUT
    text: str = ""
    """The name of the new phase, the title of the new plan, or the note."""
    milestone: str = ""
    criterion: tuple[str, ...] = ()
    deliverable: tuple[str, ...] = ()
    id: str = ""
    """Of the new plan; empty: the next one."""
    check: str = ""
    """The command that shows that the new plan is complete."""
    task: tuple[str, ...] = ()
    remove: int | None = None
    """The line of context that goes, counted from 1."""


def call(caller: Caller, arguments: Arguments) -> Answer[Summary]:
    """Move from phase to phase, add one, or list them; show or extend the plans of one."""
    plan = whole_plan_of(caller)
    if arguments.action == "list":
        return _list(plan)
    if arguments.action == "show":
        return show(plan, arguments.phase)
    if arguments.action == "plan":
        made = NewPlan(arguments.id, arguments.text, arguments.check, arguments.task)
        return add_plan(plan, arguments.phase, made)
    if arguments.action == "note":
        return note(plan, arguments.phase, arguments.text, arguments.remove)
    if arguments.action == "add":
        return _add(plan, arguments)
    phase = plan.phase(arguments.phase)
    if arguments.action == "start":
        return _move(plan, arguments, None, phase)
    left, reason = [] if phase.complete else left_open(phase), read_back(arguments.reason).strip()
    if left and not arguments.force:
        what = f"{_counted([one.what for one in left])} left open"
        do = "finish them, or leave them so: `orchestrate phase complete --force --reason TEXT`"
        raise Refusal(*left, Problem(phase.title, what, do), next_action=listing(left))
    if left and not reason:
        raise Refusal(Problem("--force", "needs a reason", "add `--reason TEXT`: it goes to DECISIONS.md"))
    later = plan.status.phases[plan.status.phases.index(phase) + 1 :]
    follows = next((one for one in later if not one.complete), None)
    return _move(plan, arguments, phase, follows, [one.what for one in left])


def _move(
    plan: Plan, arguments: Arguments, ended: Phase | None, begun: Phase | None, left: Sequence[str] = ()
) -> Answer[Summary]:
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
        pass_gate(plan.writer, gate, about)
    asked = Tests(arguments.verify, arguments.timeout, by_default=arguments.action == "complete")
    tests = "" if is_so else tested(plan.writer, asked)
    event = PhaseMoved(
        ended.title if ended else None, begun.title if begun else None, gate, tests,
        plan.writer.at, plan.writer.lead, tuple(left), read_back(arguments.reason).strip() if left else "",
    )  # fmt: skip
    after = plan.after(event)
    subject = f"Phase complete: {ended.title}" if ended else f"Phase started: {begun.title if begun else ''}"
    done, total = after.milestones
    bullets = [
        f"Updated STATUS.md ({done}/{total} milestones complete)",
        "Logged the transition in DECISIONS.md",
    ]
    if event.left_open:
        bullets.append(f"Left open: {_counted(event.left_open)} (reason: {shortened(event.reason, 200)})")
    if begun and ended:
        bullets.append(f"Next: {begun.title}")
    still = {text for items in after.todo.values() for done, text in items if not done}
    gone = [
        text for items in plan.status.todo.values() for done, text in items if not (done or text in still)
    ]
    bullets += [f"Ticked: {shortened(text, 200)}" for text in gone]
    next_action = "orchestrate status"
    warnings = []
    open_too = plan.status.current
    if begun and not ended and not is_so and open_too not in (None, begun) and not open_too.complete:
        do = f"`orchestrate phase complete {slug(open_too.title)}` completes it, with `--force` as it is"
        what = f"{open_too.title} is not complete, and stays {open_too.status or 'open'}"
        warnings.append(Problem(f"{PATH}:{open_too.line}", what, do, "warning"))
    if begun:
        # Without templates there is nothing to plan yet; the TODO list has the item to write them.
        from orchestrator.runs.project_step import has_templates  # noqa: PLC0415 - `show` needs none of it

        named = slug(begun.title)
        there = has_templates(plan.writer.repository.root, named)
        next_action = f"orchestrate plan {named}" if there else "orchestrate status"
    facts: dict[str, Any] = {
        "ended": event.ended, "begun": event.begun, "gate": gate or None, "left_open": list(event.left_open),
        "phase": after.phase, "milestone": after.milestone, "progress": dict(after.progress),
    }  # fmt: skip
    recorded = record(
        plan.writer, None if is_so else event, message(subject, bullets, tests),
        next_action=next_action, warnings=warnings, **facts,
    )  # fmt: skip
    return with_report(plan.writer, recorded.showing((subject, *bullets)))


def _add(plan: Plan, arguments: Arguments) -> Answer[Summary]:
    writer = plan.writer
    number = next_number(plan.status.phases)
    # A user who reads "Phase 2: Core" in the plan writes the whole of it; the number is added by us.
    name = given("phase", re.sub(rf"(?i)^\s*phase\s+{number}\s*[:-]\s*(?=\S)", "", arguments.text))
    milestone = given("--milestone", arguments.milestone)
    refuse_known(PATH, "phase", name, [phase.name for phase in plan.status.phases])
    refuse_known(PATH, "milestone", milestone, [phase.milestone for phase in plan.status.phases])
    made = [given("--deliverable", text) for text in arguments.deliverable]
    criteria = [given("--criterion", text) for text in arguments.criterion]
    for what, texts in (("deliverable", made), ("criterion", criteria)):
        for at, text in enumerate(texts):
            refuse_known("phase add", what, text, texts[:at])
    gate = growth_gate(writer.log().data, number)
    pass_gate(writer, gate, f"adding Phase {number}: {shortened(name)}")
    event = PhaseAdded(number, name, milestone, tuple(criteria), tuple(made), gate, writer.at, writer.lead)
    after = plan.after(event)
    done, total = after.milestones
    subject = f"Phase added: Phase {number}: {shortened(name)}"
    bullets = [
        f"Updated STATUS.md ({done}/{total} milestones complete)",
        f"Milestone: {shortened(milestone)}",
    ]
    bullets += ["Logged the change of scope in DECISIONS.md"] if gate else []
    return record(
        writer, event, message(subject, bullets, ""), next_action="orchestrate phase list",
        added=phase_listed(after.phases[-1]), gate=gate or None, progress=dict(after.progress),
    ).showing((subject, *bullets))  # fmt: skip


def _list(plan: Plan) -> Answer[Summary]:
    """Show all phases; how their plans stand where the family is on."""
    families = read_recording(plan.writer.repository.root).families
    listed = phases_listed(plan.status, families, plan.writer.text)
    context = project_context(plan.writer.text) if FAMILY in families else []
    return answer((), "orchestrate status", phases=listed, context=context).showing(())


def _counted(left: Sequence[str]) -> str:
    """Count the deliverables and the criteria among open work."""
    made = sum(one.startswith("deliverable") for one in left)
    said = [count_of(made, "deliverable")] if made else []
    said += [count_of(len(left) - made, "criterion", "criteria")] if len(left) > made else []
    return " and ".join(said)
