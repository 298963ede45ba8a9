"""`orchestrate phase` on the command line."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead, add_tests
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands._phase_plan import Summary
from orchestrator.commands.answer import Answer
from orchestrator.commands.phase import Arguments
from tickets.wording import count_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    start = action("start", "begin a phase: its first deliverable is next")
    start.add_argument("phase", metavar="PHASE", help="its number, its short name, or a part of its title")
    complete = action("complete", "end the current phase and begin the next one of the plan")
    complete.add_argument(
        "phase", nargs="?", metavar="PHASE", help="the one to end (default: the current one)"
    )
    complete.add_argument("--force", action="store_true",
                          help="though deliverables or criteria are open; needs `--reason`")  # fmt: skip
    complete.add_argument("--reason", metavar="TEXT", help="why, for DECISIONS.md")
    add_tests(start)
    add_tests(complete, by_default=True)
    add = action("add", "put a phase at the end of the plan")
    add.add_argument("text", nargs="+", metavar="NAME", help="what it is called; its number is the next one")
    add.add_argument("--milestone", required=True, metavar="TEXT", help="what it works towards")
    add.add_argument("--criterion", action="append", metavar="TEXT",
                     help="what has to hold at its end; may be repeated")  # fmt: skip
    add.add_argument("--deliverable", action="append", metavar="TEXT",
                     help="what it is to bring; may be repeated")  # fmt: skip
    add_lead(add)
    action("list", "show the phases of the plan")
    show = action("show", "show one phase: its plans, tasks, blockers, decisions and context")
    show.add_argument("phase", nargs="?", metavar="PHASE", help="which one (default: the current one)")
    plan = action("plan", "append a plan to the phase's PLAN.md")
    plan.add_argument("text", nargs="+", metavar="TITLE", help="what it is called")
    plan.add_argument("--phase", metavar="PHASE", help="whose plan it is (default: the current one's)")
    plan.add_argument("--id", metavar="ID", help="by what it is known (default: the next number)")
    plan.add_argument(
        "--verify", dest="check", metavar="CMD", help="the command that passes once it is complete"
    )
    plan.add_argument("--task", action="append", metavar="TEXT", help="a task of it; may be repeated")
    add_lead(plan)
    note = action("note", "add a line of context to STATE.md, or to a phase")
    note.add_argument("text", nargs="*", metavar="TEXT", help="what everybody should know")
    note.add_argument("--phase", metavar="PHASE", help="whose context it is (default: the whole project's)")
    note.add_argument("--remove", type=int, metavar="N", help="remove the line with this number, from 1")
    add_lead(note)


def lines(answer: Answer[Summary], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    if arguments.action == "show":
        return with_ending(_shown(answer.document), answer)
    if arguments.action != "list":
        return recorded_lines(answer.view, answer)
    listed = answer.document["phases"]
    named = [f"{one['name']:<10} {one['status'] or '-':<12} {one['title']}{_counted(one)}" for one in listed]
    return with_ending(named or ["the plan has no phase"], answer)


def _counted(phase: Mapping[str, Any]) -> str:
    """Return how far a phase is, how many plans of it are in each state, and how many blockers wait."""
    counts = phase["counts"] or {}
    figures = {"deliverables": phase["deliverables"], "criteria": phase["criteria"]}
    said = [f"{done}/{count} {name}" for name, (done, count) in figures.items() if count]
    said += [f"{count} {state.replace('_', ' ')}" for state, count in counts.items() if count]
    said += [count_of(len(phase["blockers"]), "blocker")] if phase["blockers"] else []
    return f" ({', '.join(said)})" if said else ""


def _shown(phase: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one phase."""
    yield f"phase         {phase['title']}, {phase['status'] or '-'}; plans: {phase['state'] or 'none yet'}"
    yield f"milestone     {phase['milestone'] or '-'}"
    yield f"worker        {phase['worker'] or '-'}"
    for plan in phase["plans"]:
        commit = f", commit {plan['commit'][:10]}" if plan["commit"] else ""
        check = ", verified" if plan["verified"] else ""
        landed = f", landed as {plan['landed'][:10]}" if plan["landed"] else ""
        yield f"plan          {plan['plan']} {plan['title']}: {plan['state']}{commit}{check}{landed}"
        for task in plan["tasks"]:
            held = f" ({task['blocker']})" if task["blocker"] else ""
            yield f"{'':<14}- {task['task']}: {task['state']}{held}"
    for one in phase["blockers"]:
        if one["state"] != "closed":
            yield f"blocker       {one['blocker']} {one['title']} ({one['state']}): {one['pointer']}"
    yield from (f"decision      {one['date']} {one['title']}" for one in phase["decisions"])
    yield from (f"context {at:<5} {text}" for at, text in enumerate(phase["context"], 1))
