"""`milestone complete|list`: the goal of a phase; each phase has one."""

from typing import Any, Literal, NamedTuple

from orchestrator.commands._phase_plan import (
    TIMEOUT,
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
from orchestrator.commands._record import record
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.state.canonical.decisions.gates import phase_gate
from orchestrator.state.canonical.status.read import PATH, Phase, milestone_percent
from orchestrator.state.events import MilestoneReached
from tickets.problems import Problem


class Arguments(NamedTuple):
    """The arguments of `milestone`."""

    action: Literal["complete", "list"]
    phase: str | None = None
    """None: the current one, or all for `list`."""
    verify: bool | None = None
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[Summary]:
    """Record that a milestone is reached, or list them."""
    plan = whole_plan_of(caller)
    if arguments.action == "list":
        phases = [plan.phase(arguments.phase)] if arguments.phase else plan.status.phases
        listed = [_shown(phase) for phase in phases]
        return answer((), "orchestrate status", milestones=listed).showing(())
    phase = plan.phase(arguments.phase)
    if not phase.milestone:
        raise Refusal(Problem(PATH, f"{phase.title} has no milestone", "write a `**Milestone:**` line"))
    if left := [] if phase.reached else left_open(phase):
        raise Refusal(*left, next_action=listing(left))
    if phase.number != "0" and not phase.reached:
        pass_gate(plan.writer, phase_gate(phase, "milestone"), f"completing the milestone {phase.milestone}")
    tests = (
        ""
        if phase.reached
        else tested(plan.writer, Tests(arguments.verify, arguments.timeout, by_default=True))
    )
    event = MilestoneReached(phase.title, phase.milestone, plan.writer.at, plan.writer.lead, tests)
    after = plan.after(event)
    done, total = after.milestones
    subject = f"Milestone reached: {phase.milestone}"
    bullets = [f"Updated STATUS.md ({done}/{total} milestones complete)", "Logged it in DECISIONS.md"]
    fact = next(_shown(one) for one in after.phases if one.title == phase.title)
    recorded = record(
        plan.writer, None if phase.reached else event, message(subject, bullets, tests),
        next_action="orchestrate phase complete", milestone=fact, progress=dict(after.progress),
    )  # fmt: skip
    return with_report(plan.writer, recorded.showing((subject, *bullets)))


def _shown(phase: Phase) -> dict[str, Any]:
    return {
        "phase": phase.title,
        "milestone": phase.milestone,
        "percent": milestone_percent(phase),
        "reached": phase.achieved,
    }
