"""The plan in STATUS.md: deliverables, criteria, milestones and phases, changed and added."""

import re

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.read import (
    BLOCKER,
    DELIVERABLE,
    Deliverable,
    Phase,
    labelled_items,
    milestone_percent,
    phase_of,
    read,
    spelled,
)
from orchestrator.state.canonical.status.todo import boxed, prunable
from orchestrator.state.document import inert, needed, section_like, the_item
from orchestrator.state.events import (
    CriterionAdded,
    CriterionMet,
    DeliverableAdded,
    DeliverableChanged,
    MilestoneReached,
    PhaseAdded,
    PhaseMoved,
)
from tickets.markdown import (
    Document,
    Item,
    Part,
    add_items,
    field,
    fields,
    header,
    insert,
    key_of,
    labelled,
    parse,
    plain,
    remove_items,
    sections,
    set_checkbox,
    set_field,
    set_item,
    set_text,
)
from tickets.problems import Problem

_GrowthEvent = PhaseAdded | DeliverableAdded | CriterionAdded
PlanEvent = CriterionMet | DeliverableChanged | MilestoneReached | PhaseMoved | _GrowthEvent
MADE = "Deliverables"
CRITERIA = "Acceptance Criteria"
_CURRENT = "Current Deliverable"
_PLAN = "Phase Plan"
_LABEL = r"^\*\*(?=[^*]+(?::\*\*|\*\*[ \t]*:))|(?<!\\):(?=\s|$)"
_MARK = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


def edited(document: Document, event: PlanEvent) -> Document:
    """Show the event in the plan; figures are counted elsewhere. Raises StateError, MarkdownError.

    A plan that holds exactly what is to be added stays as it is.
    """
    if isinstance(event, _GrowthEvent):
        return _grown(document, event)
    if isinstance(event, CriterionMet):
        part = criteria_part(document, event.section)
        found = [item for item in _criteria(document, part) if item.done is not None]
        item = the_item(document, found, event.text, event.section)
        document = set_checkbox(document, item, done=event.met)
    elif isinstance(event, MilestoneReached):
        document = _milestone(document, event)
    elif isinstance(event, DeliverableChanged):
        document = _deliverable(document, event)
    else:
        document = _phase(document, event)
    return tested(document, event.tests)


def next_of(phase: Phase | None) -> Deliverable | None:
    """Return the deliverable to work on next: one in progress, else the next, else the first open."""
    is_open = [one for one in phase.deliverables if not one.done] if phase else []
    for word in ("IN PROGRESS", "NEXT", "PLANNED", ""):
        for one in is_open:
            if one.status == word:
                return one
    return is_open[0] if is_open else None


def criteria_sections(document: Document) -> list[tuple[str, list[Item]]]:
    """Return each heading that has criteria: the phases of the plan, then the acceptance checklists."""
    found: list[tuple[str, list[Item]]] = []
    for top in (_PLAN, "Acceptance Checklists"):
        part = section_like(document, top)
        for below in sections(document, part) if part else ():
            inside = [item for item in _criteria(document, below) if item.done is not None]
            found += [(below.title, inside)] if inside else []
    return found


def checklists(document: Document) -> list[tuple[str, list[Item]]]:
    """Return each acceptance checklist with its items, empty ones included."""
    part = section_like(document, "Acceptance Checklists")
    return [(below.title, boxed(document, below)) for below in sections(document, part)] if part else []


def _criteria(document: Document, part: Part) -> list[Item]:
    plan = section_like(document, _PLAN)
    if plan is not None and plan.start < part.start < plan.end:
        return list(labelled_items(document, part, CRITERIA))
    return boxed(document, part)


def criteria_part(document: Document, title: str) -> Part:
    """Return the one section of that heading, in the plan or in the checklists. Raises StateError."""
    for top in (_PLAN, "Acceptance Checklists"):
        part = section_like(document, top)
        inside = sections(document, part) if part else ()
        same = [one for one in inside if one.title == title]
        if len(same) == 1:
            return same[0]
    return needed(document, title, needed(document, _PLAN))


def phase_part(document: Document, title: str) -> Part:
    """Return the section of a phase. Raises StateError."""
    return needed(document, title, needed(document, _PLAN))


def _deliverable(document: Document, event: DeliverableChanged) -> Document:
    found = [item for item in labelled_items(document, phase_part(document, event.phase), MADE)
             if item.done is not None]  # fmt: skip
    same = [item for item in found if _name(item) == event.name]
    if len(same) != 1:
        what = f"`{event.name}` is {len(same)} times among the deliverables of {event.phase}"
        raise StateError(Problem(document.place, what, "read the file"))
    done = event.status == "COMPLETE"
    document = set_item(document, same[0], _line(same[0], event))
    found = [item for item in labelled_items(document, phase_part(document, event.phase), MADE)
             if item.done is not None and _name(item) == event.name]  # fmt: skip
    document = set_checkbox(document, found[0], done=done)
    document = _with_blocker(document, event)
    if not done:
        owner = event.owner or _owner(found[0]) or "Lead"
        return show_current(document, Deliverable(event.name, event.status, owner, done=False))
    document = remove_items(document, prunable(document, 0))
    return _after_completion(document, event)


def _with_blocker(document: Document, event: DeliverableChanged) -> Document:
    """Write priority, impact and mitigation below a blocked deliverable; remove them from any other."""
    item, old = _blocker_lines(document, event)
    given = {"Priority": event.priority, "Impact": event.impact, "Mitigation": event.mitigation}
    said = {one.text.partition(":")[0].capitalize(): one.text for one in old}
    said |= {key: f"{key}: {inert(text)}" for key, text in given.items() if text}
    new = list(said.values()) if event.status == "BLOCKED" else []
    if new == [one.text for one in old]:
        return document
    # Nested lines read differently apart from their item than below it: the item is rewritten as a whole.
    start = document.lines[item.line - 1].start
    whole = document.data[start : item.end]
    for one in reversed(old):
        first = document.lines[one.line - 1].start
        whole = whole[: first - start] + whole[one.end - start :]
    lines = whole.decode().replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    mark = _MARK.match(lines)
    margin = re.sub(r"[^ \t>]", " ", mark[0]) if mark else "  "
    text = "\n".join([lines, *(f"{margin}- {line}" for line in new)])
    return insert(remove_items(document, [item]), start, text)


def _blocker_lines(document: Document, event: DeliverableChanged) -> tuple[Item, list[Item]]:
    listed = labelled_items(document, phase_part(document, event.phase), MADE)
    item = next(one for one in listed if one.done is not None and _name(one) == event.name)
    below = [one for one in listed if item.start < one.start < item.end and one.done is None]
    return item, [one for one in below if re.match(BLOCKER, one.text)]


def _after_completion(document: Document, event: DeliverableChanged) -> Document:
    """Name the next deliverable, if the completed one was the current one."""
    status = read(document.data)
    phase = next((one for one in status.phases if one.title == event.phase), None)
    follows = next_of(phase)
    if follows is None:
        return show_current(
            document, Deliverable(event.name, "COMPLETE", status.deliverable.owner, done=True)
        )
    if follows.status in ("PLANNED", ""):
        document, follows = _with_next(document, event.phase, follows)
    if key_of(status.deliverable.name) not in (key_of(event.name), ""):
        return document
    return show_current(document, follows._replace(owner=follows.owner or "Lead"))


def _with_next(document: Document, phase: str, follows: Deliverable) -> tuple[Document, Deliverable]:
    """Mark a planned deliverable as the next one in its phase, too."""
    found = labelled_items(document, phase_part(document, phase), MADE)
    item = next(item for item in found if item.done is False and _name(item) == follows.name)
    document = set_item(document, item, f"{_raw_name(item)} (NEXT{_with_owner(follows.owner)})")
    return document, follows._replace(status="NEXT")


def _name(item: Item) -> str:
    match = DELIVERABLE.match(item.text)
    return plain(match["name"] if match else item.text)


def _raw_name(item: Item) -> str:
    match = DELIVERABLE.match(item.text)
    return match["name"] if match else item.text


def _owner(item: Item) -> str:
    match = DELIVERABLE.match(item.text)
    return plain(match["owner"] or "").strip() if match else ""


def _line(item: Item, event: DeliverableChanged) -> str:
    if event.status == "COMPLETE":
        return f"{_raw_name(item)} (COMPLETE)"
    why = f": {_bracketless(event.reason)}" if event.reason else ""
    return f"{_raw_name(item)} ({event.status}{why}{_with_owner(event.owner or _owner(item))})"


def _with_owner(owner: str) -> str:
    return f", Owner: {_bracketless(owner)}" if owner else ""


def _bracketless(text: str) -> str:
    """Make a text fit into round brackets, which its first closing bracket would end."""
    return inert(text).replace("(", "[").replace(")", "]")


def show_current(document: Document, made: Deliverable) -> Document:
    """Make the section name a deliverable, its status and its owner; other lines stay."""
    part = needed(document, _CURRENT)
    known = {one.line for one in fields(document, part)}
    # On a line of its own it must not read as a field, nor as code.
    name = re.sub(_LABEL, r"\\\g<0>", inert(made.name, spans=not made.name.startswith("`")))
    for number, line in enumerate(document.lines, start=1):
        is_text = document.data[line.start : line.end].strip() and number not in known
        if part.body <= line.start < part.content_end and is_text and document.opaque_at(line.start) is None:
            text = document.text(line.start, line.end)
            if plain(text.strip()) != made.name:
                document = set_text(document, line.start, line.start + len(text.rstrip().encode()), name)
            break
    else:
        at = next((one.line_start for one in fields(document, part)), part.own_content_end)
        if name:
            document = insert(document, at, ("\n" if at == part.body else "") + name)
    for key, said in (("Status", made.status), ("Owner", inert(made.owner) or "Lead")):
        document = with_field(document, needed(document, _CURRENT), key, said)
    return document


def with_field(document: Document, part: Part, key: str, said: str) -> Document:
    """Set a field of a section, which gains it at its top where it lacks it."""
    if field(document, part, key) is not None:
        return set_field(document, part, key, said)
    own = [one for one in fields(document, part) if not one.in_list]
    line = f"**{key}:** {said}\n"
    if own and key != "Status":
        last = [one for one in own if one.value] or own[:1]
        return insert(document, last[-1].line_after, line)
    if own:
        # A label and its list stay apart from what stands above them.
        return insert(document, own[0].line_start, line if own[0].value else f"{line}\n")
    at = part.own_content_end
    return insert(document, at, f"\n{line}" if at == part.body else line)


def _milestone(document: Document, event: MilestoneReached) -> Document:
    part = phase_part(document, event.phase)
    return with_field(document, part, "Milestone", f"{inert(event.milestone)} (COMPLETE)")


def _phase(document: Document, event: PhaseMoved) -> Document:
    if event.ended is not None:
        part = phase_part(document, event.ended)
        found = phase_of(read(document.data).phases, event.ended)
        if found is None or not found.complete:
            document = with_field(document, part, "Status", "COMPLETE")
            document = _without_next(document, event.ended)
        document = remove_items(document, prunable(document, 0))
    if event.begun is None:
        return document
    document = with_field(document, phase_part(document, event.begun), "Status", "IN PROGRESS")
    begun = phase_of(read(document.data).phases, event.begun)
    if begun is None:
        raise StateError(Problem(document.place, f"there is no phase `{event.begun}`", "read the plan"))
    title = spelled(begun.number, begun.name) or begun.title
    document = with_field(document, header(document), "Phase", inert(title))
    if begun.milestone:
        said = f"{inert(begun.milestone)} ({milestone_percent(begun)}% complete)"
        document = with_field(document, header(document), "Milestone", said)
    follows = next_of(begun)
    if follows is None:
        # That of the phase before would read as this one's.
        return show_current(document, Deliverable("", "PLANNED", "Lead", done=False))
    if follows.status in ("PLANNED", ""):
        document, follows = _with_next(document, event.begun, follows)
    word = "IN PROGRESS" if follows.status == "IN PROGRESS" else "NEXT"
    return show_current(document, follows._replace(status=word, owner=follows.owner or "Lead"))


def tested(document: Document, tests: str) -> Document:
    """Show the newest test figure."""
    progress = section_like(document, "Progress")
    if not tests or progress is None:
        return document
    return with_field(document, progress, "Tests", inert(tests))


# The plan grows


def _grown(document: Document, event: _GrowthEvent) -> Document:
    if isinstance(event, PhaseAdded):
        return _with_phase(document, event)
    if isinstance(event, DeliverableAdded):
        return _with_deliverable(document, event)
    return _with_criterion(document, event)


def next_number(phases: tuple[Phase, ...]) -> str:
    """Return the number that a further phase of the plan gets."""
    known = [int(phase.number.partition(".")[0]) for phase in phases if phase.number]
    return str(max(known, default=0) + 1)


def _with_phase(document: Document, event: PhaseAdded) -> Document:
    plan = needed(document, _PLAN)
    phases = read(document.data).phases
    title = f"Phase {event.number}: {inert(event.name)}"
    # A heading's words are its text without markup.
    wanted = parse(f"# {title}\n".encode(), document.place).headings[0].title
    if wanted in {phase.title for phase in phases}:
        return document
    if next_number(phases) != event.number:
        what = f"the plan has changed meanwhile: Phase {event.number} is not the next one any more"
        raise StateError(Problem(document.place, what, "run the command again"))
    inside = sections(document, plan)
    level = inside[-1].level if inside else plan.level + 1
    made = [f"- [ ] {inert(name)} (PLANNED)" for name in event.deliverables]
    lines = [
        "#" * level + f" {title}", "", "**Status:** PLANNED", f"**Milestone:** {inert(event.milestone)}",
        "", f"**{MADE}:**", *made, "", f"**{CRITERIA}:**",
        *(f"- [ ] {inert(text)}" for text in event.criteria),
    ]  # fmt: skip
    return insert(document, plan.content_end, "\n" + "\n".join(lines))


def _with_deliverable(document: Document, event: DeliverableAdded) -> Document:
    phase = _listed_phase(document, event.phase)
    if plain(inert(event.name)) in {one.name for one in phase.deliverables}:
        return document
    status = read(document.data)
    is_current = status.current is not None and status.current.title == event.phase
    # A phase that has nothing open names what comes next, as it does where a deliverable is completed.
    is_next = event.next or (is_current and all(one.done for one in phase.deliverables))
    if is_next:
        document = _without_next(document, event.phase)
    line = f"- [ ] {inert(event.name)} ({'NEXT' if is_next else 'PLANNED'})"
    document = _below_label(document, event.phase, MADE, line)
    busy = status.deliverable.status.upper() in ("IN PROGRESS", "BLOCKED") and bool(status.deliverable.name)
    if not is_next or not is_current or busy:
        return document
    return show_current(document, Deliverable(plain(inert(event.name)), "NEXT", "Lead", done=False))


def _with_criterion(document: Document, event: CriterionAdded) -> Document:
    part = criteria_part(document, event.section)
    plan = section_like(document, _PLAN)
    line = f"- [ ] {inert(event.text)}"
    if plan is None or not plan.start < part.start < plan.end:
        there = {plain(item.text) for item in boxed(document, part)}
        return document if plain(inert(event.text)) in there else add_items(document, part, [line])
    phase = _listed_phase(document, event.section)
    if plain(inert(event.text)) in {text for _, text in phase.criteria}:
        return document
    return _below_label(document, event.section, CRITERIA, line)


def _listed_phase(document: Document, title: str) -> Phase:
    phase_part(document, title)
    return next(phase for phase in read(document.data).phases if phase.title == title)


def _without_next(document: Document, phase: str) -> Document:
    """Mark the next deliverable as planned: only one is next."""
    for number in range(len(labelled_items(document, phase_part(document, phase), MADE))):
        item = labelled_items(document, phase_part(document, phase), MADE)[number]
        match = DELIVERABLE.match(item.text) if item.done is False else None
        if match and match["status"].upper() == "NEXT":
            at = match.start("status")
            document = set_item(document, item, f"{item.text[:at]}PLANNED{item.text[at + 4 :]}")
    return document


def _below_label(document: Document, phase: str, label: str, line: str) -> Document:
    """Add a line to a list of a phase, with its label where the phase lacks it."""
    part = phase_part(document, phase)
    below = labelled(document, part, label) or section_like(document, label, part)
    if below is not None:
        return add_items(document, below, [line])
    criteria = labelled(document, part, CRITERIA) if label == MADE else None
    text = f"**{label}:**\n{line}"
    if criteria is not None:
        return insert(document, criteria.start, f"{text}\n\n")
    return insert(document, part.own_content_end, f"\n{text}")
