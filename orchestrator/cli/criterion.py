"""`orchestrate criterion done|undo|list`: the acceptance criteria of phases, and the v1/v2 checklists."""

import argparse

from orchestrator.cli.answer import Answer
from orchestrator.cli.parsing import add_actions
from orchestrator.cli.planning import add_options, message, plan_of, tested
from orchestrator.cli.recording import chosen, record, shortened, shown
from orchestrator.events import CriterionMet
from orchestrator.state.canonical.plan_edits import criteria_sections
from orchestrator.state.canonical.status_reading import PATH
from tickets.markdown import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    done, undo = action("done", "tick a criterion that is met"), action("undo", "take the tick away")
    for one in (done, undo):
        one.add_argument("words", nargs="+", metavar="TEXT", help="its number, or a unique part of it")
        add_options(one)
    for one in (done, undo, action("list", "show them with their numbers")):
        one.add_argument("--in", dest="section", metavar="HEADING",
                         help="a part of the heading that it stands under: `Phase 2`, `v1`")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Do it."""
    plan = plan_of(arguments)
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
    event = CriterionMet(section, text, met, plan.desk.at, plan.desk.lead)
    after = plan.after(event)
    subject = f"Criterion {'met' if met else 'open again'}: {shortened(text)}"
    bullets = [f"Updated STATUS.md ({section}; milestone {after.milestone})"]
    fact = {"in": section, "text": text, "met": met}
    return record(plan.desk, event, message(subject, bullets, tests), [subject, *bullets],
                  criterion=fact, milestone=after.milestone)  # fmt: skip
