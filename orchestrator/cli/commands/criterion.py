"""`orchestrate criterion add|done|undo|list`: the acceptance criteria of phases, and the v1/v2 checklists."""

import argparse

from orchestrator.cli.answer import Answer
from orchestrator.cli.arguments import add_actions
from orchestrator.cli.planning import Plan, add_options, message, tested, whole_plan_of
from orchestrator.cli.recording import add_lead, chosen, given, record, refuse_known, shortened, shown
from orchestrator.errors import Refusal
from orchestrator.state.canonical.status.plan import checklists, criteria_sections
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.events import CriterionAdded, CriterionMet
from tickets.markdown import plain
from tickets.problems import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    add = action("add", "put a criterion under a phase, or on a checklist")
    add.add_argument("words", nargs="+", metavar="TEXT", help="what has to hold")
    where = add.add_mutually_exclusive_group()
    where.add_argument("--phase", metavar="PHASE", help="of this phase (default: the current one)")
    where.add_argument("--list", dest="checklist", metavar="LIST", help="on this checklist: `v1`, `v2`")
    add_lead(add)
    done, undo = action("done", "tick a criterion that is met"), action("undo", "take the tick away")
    for one in (done, undo):
        one.add_argument("words", nargs="+", metavar="TEXT", help="its number, or a unique part of it")
        add_options(one)
    for one in (done, undo, action("list", "show them with their numbers")):
        one.add_argument("--in", dest="section", metavar="HEADING",
                         help="a part of the heading that it stands under: `Phase 2`, `v1`")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = whole_plan_of(arguments)
    if arguments.action == "add":
        return _add(plan, arguments)
    wanted = (arguments.section or "").casefold()
    listed = [
        (title, plain(item.text), bool(item.done))
        for title, found in criteria_sections(plan.document)
        for item in found
        if wanted in title.casefold()
    ]
    if arguments.action == "list":
        criteria = [
            {"number": number, "in": title, "text": text, "met": met}
            for number, (title, text, met) in enumerate(listed, 1)
        ]
        lines = [
            f"{one['number']:>3}  [{'x' if one['met'] else ' '}] {one['text']} ({one['in']})"
            for one in criteria
        ]
        return shown(lines or ["there are no criteria"], "orchestrate status", criteria=criteria)
    word = " ".join(arguments.words)
    section, text, _ = listed[chosen(PATH, word, [text for _, text, _ in listed], "criterion")]
    met = arguments.action == "done"
    tests = tested(plan.desk, arguments)
    event = CriterionMet(section, text, met, plan.desk.at, plan.desk.lead, tests)
    after = plan.after(event)
    subject = f"Criterion {'met' if met else 'open again'}: {shortened(text)}"
    bullets = [f"Updated STATUS.md ({section}; milestone {after.milestone})"]
    fact = {"in": section, "text": text, "met": met}
    return record(plan.desk, event, message(subject, bullets, tests), [subject, *bullets],
                  criterion=fact, milestone=after.milestone)  # fmt: skip


def _add(plan: Plan, arguments: argparse.Namespace) -> Answer:
    text = given("criterion", " ".join(arguments.words))
    section, there = _list_of(plan, arguments) if arguments.checklist else _phase_of(plan, arguments.phase)
    refuse_known(PATH, "criterion", text, there)
    event = CriterionAdded(section, text, plan.desk.at, plan.desk.lead)
    after = plan.after(event)
    subject = f"Criterion added: {shortened(text)}"
    bullets = [f"Updated STATUS.md ({section}; milestone {after.milestone})"]
    return record(plan.desk, event, message(subject, bullets, ""), [subject, *bullets],
                  next_action="orchestrate criterion list",
                  criterion={"in": section, "text": text, "met": False},
                  milestone=after.milestone)  # fmt: skip


def _phase_of(plan: Plan, word: str | None) -> tuple[str, list[str]]:
    phase = plan.open_phase(word)
    if phase.reached:
        what = f"the milestone of {phase.title} is reached already"
        raise Refusal(Problem(f"{PATH}:{phase.line}", what, "add the criterion to a later phase"))
    return phase.title, [text for _, text in phase.criteria]


def _list_of(plan: Plan, arguments: argparse.Namespace) -> tuple[str, list[str]]:
    listed = checklists(plan.document)
    titles = [title for title, _ in listed]
    word = arguments.checklist
    begins = [
        at for at, title in enumerate(titles) if f"{title} ".casefold().startswith(f"{word} ".casefold())
    ]
    at = begins[0] if len(begins) == 1 else chosen(PATH, word, titles, "checklist")
    return titles[at], [plain(item.text) for item in listed[at][1]]
