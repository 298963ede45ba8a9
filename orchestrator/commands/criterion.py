"""`criterion add|done|undo|list`: the acceptance criteria of phases, and the v1/v2 checklists."""

from typing import Literal, NamedTuple

from orchestrator.commands._phase_plan import TIMEOUT, Plan, Summary, Tests, message, tested, whole_plan_of
from orchestrator.commands._record import chosen, given, record, refuse_known, shortened
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.state.canonical.status.plan import checklists, criteria_sections
from orchestrator.state.canonical.status.read import PATH, Status, milestone_percent
from orchestrator.state.events import CriterionAdded, CriterionMet
from tickets.markdown import plain
from tickets.problems import Problem


class Arguments(NamedTuple):
    """The arguments of `criterion`."""

    action: Literal["add", "done", "undo", "list"]
    text: str = ""
    """The criterion to add; or the number or a unique part of an existing one."""
    phase: str | None = None
    """The phase to add it to; None: the current one."""
    checklist: str | None = None
    """The checklist to add it to, instead of a phase."""
    section: str | None = None
    """A part of the heading that it is under."""
    verify: bool | None = None
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[Summary]:
    """Change a criterion, or list them."""
    plan = whole_plan_of(caller)
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
        return answer((), "orchestrate status", criteria=criteria).showing(())
    section, text, _ = listed[chosen(PATH, arguments.text, [text for _, text, _ in listed], "criterion")]
    met = arguments.action == "done"
    tests = tested(plan.writer, Tests(arguments.verify, arguments.timeout))
    event = CriterionMet(section, text, met, plan.writer.at, plan.writer.lead, tests)
    after = plan.after(event)
    subject = f"Criterion {'met' if met else 'open again'}: {shortened(text)}"
    milestone = _milestone(after, section)
    bullets = [f"Updated STATUS.md ({section}; milestone {milestone})"]
    fact = {"in": section, "text": text, "met": met}
    recorded = record(plan.writer, event, message(subject, bullets, tests),
                      criterion=fact, milestone=milestone)  # fmt: skip
    return recorded.showing((subject, *bullets))


def _add(plan: Plan, arguments: Arguments) -> Answer[Summary]:
    text = given("criterion", arguments.text)
    word = arguments.checklist
    section, there = _list_of(plan, word) if word else _phase_of(plan, arguments.phase)
    refuse_known(PATH, "criterion", text, there)
    event = CriterionAdded(section, text, plan.writer.at, plan.writer.lead)
    after = plan.after(event)
    subject = f"Criterion added: {shortened(text)}"
    milestone = _milestone(after, section)
    bullets = [f"Updated STATUS.md ({section}; milestone {milestone})"]
    recorded = record(plan.writer, event, message(subject, bullets, ""),
                      next_action="orchestrate criterion list",
                      criterion={"in": section, "text": text, "met": False},
                      milestone=milestone)  # fmt: skip
    return recorded.showing((subject, *bullets))


def _milestone(after: Status, section: str) -> str:
    """Return the milestone of the phase that a section is; for a checklist, the current one."""
    phase = next((one for one in after.phases if one.title == section), None)
    return f"{phase.milestone or 'none'} ({milestone_percent(phase)}% complete)" if phase else after.milestone


def _phase_of(plan: Plan, word: str | None) -> tuple[str, list[str]]:
    phase = plan.open_phase(word)
    if phase.reached:
        what = f"the milestone of {phase.title} is reached already"
        raise Refusal(Problem(f"{PATH}:{phase.line}", what, "add the criterion to a later phase"))
    return phase.title, [text for _, text in phase.criteria]


def _list_of(plan: Plan, word: str) -> tuple[str, list[str]]:
    listed = checklists(plan.document)
    titles = [title for title, _ in listed]
    begins = [
        at for at, title in enumerate(titles) if f"{title} ".casefold().startswith(f"{word} ".casefold())
    ]
    at = begins[0] if len(begins) == 1 else chosen(PATH, word, titles, "checklist")
    return titles[at], [plain(item.text) for item in listed[at][1]]
