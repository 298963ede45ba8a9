"""`orchestrate milestone show|complete`: what a phase works towards; a phase has one."""

import argparse
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.arguments import add_actions
from orchestrator.cli.planning import add_options, message, pass_gate, tested, whole_plan_of, with_report
from orchestrator.cli.recording import record, shown
from orchestrator.errors import Refusal
from orchestrator.state.canonical.decisions.gates import phase_gate
from orchestrator.state.canonical.status.read import PATH, Phase, milestone_percent
from orchestrator.state.events import MilestoneReached
from tickets.problems import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    complete = action("complete", "record that it is reached; all criteria of the phase must be met")
    add_options(complete, by_default=True)
    for one in (complete, action("list", "show the milestones of all phases")):
        one.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = whole_plan_of(arguments)
    if arguments.action == "list":
        phases = [plan.phase(arguments.phase)] if arguments.phase else plan.status.phases
        listed = [_shown(phase) for phase in phases]
        lines = [
            f"{one['percent']:>3}%  {one['milestone'] or '(no name)'} ({one['phase']})" for one in listed
        ]
        return shown(lines, "orchestrate status", milestones=listed)
    phase = plan.phase(arguments.phase)
    problems = [Problem(PATH, f"not met: {text} ({phase.title})", "`orchestrate criterion done`")
                for met, text in phase.criteria if not met]  # fmt: skip
    if not phase.milestone:
        problems.append(Problem(PATH, f"{phase.title} has no milestone", "write a `**Milestone:**` line"))
    if problems:
        raise Refusal(*problems, next_action="orchestrate criterion list")
    if phase.number != "0" and not phase.reached:
        pass_gate(plan.desk, phase_gate(phase, "milestone"), f"completing the milestone {phase.milestone}")
    tests = "" if phase.reached else tested(plan.desk, arguments)
    event = MilestoneReached(phase.title, phase.milestone, plan.desk.at, plan.desk.lead, tests)
    after = plan.after(event)
    done, total = after.milestones
    subject = f"Milestone reached: {phase.milestone}"
    bullets = [f"Updated STATUS.md ({done}/{total} milestones complete)", "Logged it in DECISIONS.md"]
    fact = next(_shown(one) for one in after.phases if one.title == phase.title)
    recorded = record(
        plan.desk, None if phase.reached else event, message(subject, bullets, tests), [subject, *bullets],
        next_action="orchestrate phase complete", milestone=fact, progress=dict(after.progress),
    )  # fmt: skip
    return with_report(plan.desk, recorded)


def _shown(phase: Phase) -> dict[str, Any]:
    return {
        "phase": phase.title,
        "milestone": phase.milestone,
        "percent": milestone_percent(phase),
        "reached": phase.achieved,
    }
