"""The plan in STATUS.md grows: a further phase, a deliverable of a phase, a criterion."""

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.plan import CRITERIA, MADE, criteria_part, phase_part, show_current
from orchestrator.state.canonical.status.read import (
    DELIVERABLE,
    Deliverable,
    Phase,
    labelled_items,
    read,
)
from orchestrator.state.canonical.status.todo import boxed
from orchestrator.state.document import needed, section_like, with_items
from orchestrator.state.events import CriterionAdded, DeliverableAdded, PhaseAdded
from tickets.markdown import Document, insert, labelled, one_line, parse, plain, sections, set_item
from tickets.problems import Problem

GrowthEvent = PhaseAdded | DeliverableAdded | CriterionAdded
_PLAN = "Phase Plan"


def grown(document: Document, event: GrowthEvent) -> Document:
    """Show the event in the plan; figures are counted elsewhere. Raises StateError, MarkdownError.

    A plan that holds exactly this already stays as it is.
    """
    if isinstance(event, PhaseAdded):
        return _with_phase(document, event)
    if isinstance(event, DeliverableAdded):
        return _with_deliverable(document, event)
    return _with_criterion(document, event)


def next_number(phases: tuple[Phase, ...]) -> str:
    """Give the number of the phase that would come after all that the plan has."""
    known = [int(phase.number.partition(".")[0]) for phase in phases if phase.number]
    return str(max(known, default=0) + 1)


def _with_phase(document: Document, event: PhaseAdded) -> Document:
    plan = needed(document, _PLAN)
    phases = read(document.data).phases
    title = f"Phase {event.number}: {one_line(event.name)}"
    # The words of a heading are those that are left when its marks are read.
    wanted = parse(f"# {title}\n".encode(), document.place).headings[0].title
    if wanted in {phase.title for phase in phases}:
        return document
    if next_number(phases) != event.number:
        what = f"the plan has changed meanwhile: Phase {event.number} is not the next one any more"
        raise StateError(Problem(document.place, what, "do it again"))
    inside = sections(document, plan)
    level = inside[-1].level if inside else plan.level + 1
    made = [f"- [ ] {one_line(name)} (PLANNED)" for name in event.deliverables]
    lines = [
        "#" * level + f" {title}", "", "**Status:** PLANNED", f"**Milestone:** {one_line(event.milestone)}",
        "", f"**{MADE}:**", *made, "", f"**{CRITERIA}:**",
        *(f"- [ ] {one_line(text)}" for text in event.criteria),
    ]  # fmt: skip
    return insert(document, plan.content_end, "\n" + "\n".join(lines))


def _with_deliverable(document: Document, event: DeliverableAdded) -> Document:
    phase = _phase(document, event.phase)
    if plain(one_line(event.name)) in {one.name for one in phase.deliverables}:
        return document
    status = read(document.data)
    is_current = status.current is not None and status.current.title == event.phase
    # A phase that has nothing open names what comes next, as it does where a deliverable is completed.
    is_next = event.next or (is_current and all(one.done for one in phase.deliverables))
    if is_next:
        document = _without_next(document, event.phase)
    line = f"- [ ] {one_line(event.name)} ({'NEXT' if is_next else 'PLANNED'})"
    document = _below_label(document, event.phase, MADE, line)
    busy = status.deliverable.status.upper() in ("IN PROGRESS", "BLOCKED") and bool(status.deliverable.name)
    if not is_next or not is_current or busy:
        return document
    return show_current(document, Deliverable(plain(one_line(event.name)), "NEXT", "Lead", done=False))


def _with_criterion(document: Document, event: CriterionAdded) -> Document:
    part = criteria_part(document, event.section)
    plan = section_like(document, _PLAN)
    line = f"- [ ] {one_line(event.text)}"
    if plan is None or not plan.start < part.start < plan.end:
        there = {plain(item.text) for item in boxed(document, part)}
        return document if plain(one_line(event.text)) in there else with_items(document, part, [line])
    phase = _phase(document, event.section)
    if plain(one_line(event.text)) in {text for _, text in phase.criteria}:
        return document
    return _below_label(document, event.section, CRITERIA, line)


def _phase(document: Document, title: str) -> Phase:
    phase_part(document, title)
    return next(phase for phase in read(document.data).phases if phase.title == title)


def _without_next(document: Document, phase: str) -> Document:
    """Put off what was next: only one is."""
    for number in range(len(labelled_items(document, phase_part(document, phase), MADE))):
        item = labelled_items(document, phase_part(document, phase), MADE)[number]
        match = DELIVERABLE.match(item.text) if item.done is False else None
        if match and match["status"].upper() == "NEXT":
            at = match.start("status")
            document = set_item(document, item, f"{item.text[:at]}PLANNED{item.text[at + 4 :]}")
    return document


def _below_label(document: Document, phase: str, label: str, line: str) -> Document:
    """Add a line to a list of a phase; a phase that has no such list gains its label."""
    part = phase_part(document, phase)
    below = labelled(document, part, label) or section_like(document, label, part)
    if below is not None:
        return with_items(document, below, [line])
    criteria = labelled(document, part, CRITERIA) if label == MADE else None
    text = f"**{label}:**\n{line}"
    if criteria is not None:
        return insert(document, criteria.start, f"{text}\n\n")
    return insert(document, part.own_content_end, f"\n{text}")
