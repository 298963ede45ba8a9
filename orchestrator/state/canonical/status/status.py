"""STATUS.md: the state of the project. The home of phase, milestone, TODO and active workers."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.errors import StateError
from orchestrator.state.canonical.status import plan as plan_edits
from orchestrator.state.canonical.status import todo as todo_edits
from orchestrator.state.canonical.status.read import (
    ACTIVE,
    PATH,
    RECENT,
    Completed,
    Status,
    active_workers,
    completed,
    milestone_percent,
    phase_matches,
    read,
    read_of,
    slug,
)
from orchestrator.state.document import (
    below,
    doubled,
    editable,
    inert,
    opened,
    present,
    section_like,
    sections_like,
    state_errors,
    with_fields,
)
from orchestrator.state.events import (
    Completion,
    Event,
    PhaseMoved,
    RosterEntry,
    RunClosed,
    RunDeployed,
    RunIntegrated,
    TodoAdded,
    TodoDone,
    TodoMoved,
)
from orchestrator.state.facts import Facts, day, heading_of, minute, new_file, percent
from tickets.markdown import (
    Document,
    MarkdownError,
    Part,
    append_section,
    field,
    front_problems,
    header,
    insert,
    items,
    key_of,
    labelled,
    remove_items,
    set_field,
    set_item,
    set_items,
)
from tickets.problems import Problem

__all__ = ["OWNS", "Status", "changes", "complete", "initial", "phase_matches", "problems", "read"]

OWNS: tuple[str, ...] = (PATH,)
INTERRUPTED = "interrupted"
KEPT = 20
"""How many completions stay, beside the newest of each open phase; git has the others."""

SECTIONS = (
    "Current Deliverable", "Phase Plan", "Progress", "TODO", "Worker Roster", "Resume Checklist",
    "Acceptance Checklists",
)  # fmt: skip

_COUNT = re.compile(r"\d+% \(\d+/\d+(?= )")
_MET = re.compile(r"(?<!\\)\(\d+%(?= complete\))")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2})?)?(?!\d)")
_NOTE = r"(?:\s+[-\u2013\u2014(]|\s*[,;])"
"""How a note begins behind a value."""
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2})?$")
READING = "Read the reports under `.taskers/runs/`"
"""The item of a new file that the end of the phase ticks, unless work of it is left open."""
_INIT = "`orchestrate init` appends what is missing"
_NEW = Path(__file__).with_name("new.md")
_Shown = RunDeployed | RunIntegrated | RunClosed | TodoAdded | TodoDone | TodoMoved | plan_edits.PlanEvent


_Own = TodoAdded | TodoDone | TodoMoved | plan_edits.PlanEvent | RunDeployed | RunIntegrated | RunClosed


def needs(_: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the file where the event is about todo list, plan or roster: else a fault of it is no matter."""
    return (PATH,) if isinstance(event, _Own) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return STATUS.md after the event; nothing where it shows the event already.

    Raises StateError where the file is missing or lacks what the event needs.
    """
    if isinstance(event, TodoAdded | TodoDone | TodoMoved):
        with state_errors():
            before = editable(PATH, tree)
            return _stamped(before, todo_edits.edited(before, event), event)
    if isinstance(event, plan_edits.PlanEvent):
        with state_errors():
            before = editable(PATH, tree)
            after = _recounted(plan_edits.edited(before, event))
            if isinstance(event, PhaseMoved) and event.ended:
                read_all = () if event.left_open else (READING,)
                after = todo_edits.ticked(after, *read_all, _running(slug(event.ended)))
            return _stamped(before, after, event)
    if not isinstance(event, RunDeployed | RunIntegrated | RunClosed):
        return {}
    before = opened(PATH, present(PATH, tree.get(PATH)))
    with state_errors():
        _needed(before)
        if isinstance(event, RunDeployed):
            after = _deployed(before, event)
        elif isinstance(event, RunIntegrated):
            after = _recounted(_integrated(before, event))
        else:
            stopped = event.status == "interrupted"
            after = _waiting(before, event.run) if stopped else _left(before, event.run, None)
        return _stamped(before, after, event)


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the file: missing parts, repeated statements, wrong figures."""
    try:
        document = opened(PATH, text)
    except StateError as error:
        return list(error.problems)
    found = [*front_problems(document), *_missing(document)]
    status = read(text)
    if status.last_updated and not _STAMP.match(status.last_updated):
        more = "holds more than a date" if _DATE.match(status.last_updated) else "holds no date"
        what = f"Last Updated {more}: `{status.last_updated}`"
        found.append(
            Problem(_place(document, "Last Updated"), what, "write it as 2026-02-16 14:28 (UTC)", "warning")
        )
    if status.phase and status.phases and status.current is None:
        what = f"the current phase `{status.phase}` is not in the Phase Plan"
        found.append(Problem(_place(document, "Phase"), what, "add it, or name one that is there", "warning"))
    try:
        again = _recounted(document)
    except MarkdownError as error:
        return [*found, *error.problems]
    for old, new in zip(document.lines, again.lines, strict=True):
        if document.data[old.start : old.end] != again.data[new.start : new.end]:
            says = again.text(new.start, new.end)
            place = f"{PATH}:{document.line_at(old.start)}"
            found.append(
                Problem(place, "the figure does not follow from the checkboxes", f"{says}", "warning")
            )
    return found


def initial(facts: Facts) -> str:
    """Return the text of a new file."""
    return new_file(_NEW, facts).text


def complete(text: bytes, facts: Facts) -> bytes:
    """Return the file with its missing parts added; existing content stays, byte for byte.

    Raises StateError where the file cannot be read, or would read differently afterwards.
    """
    if not text.strip():
        return initial(facts).encode()
    before = opened(PATH, text)
    with state_errors():
        return _completed_file(before, facts).data


def _completed_file(before: Document, facts: Facts) -> Document:
    new = new_file(_NEW, facts)
    document = with_fields(before, new.title, new.fields)
    for title, section in new.sections.items():
        if not sections_like(document, title):
            document = append_section(document, section)
    todo = section_like(document, "TODO")
    for level in re.split(r"\n+(?=### )", new.sections["TODO"])[1:]:
        if todo and not sections_like(document, heading_of(level), todo):
            document = insert(document, todo.content_end, f"\n{level}\n")
            todo = section_like(document, "TODO")
    for label in (ACTIVE, RECENT):
        roster = section_like(document, "Worker Roster")
        if roster and labelled(document, roster, label) is None:
            document = insert(document, roster.own_content_end, f"\n**{label}:**")
    return document


def _stamped(before: Document, after: Document, event: _Shown) -> dict[str, bytes]:
    if after.data == before.data:
        return {}
    return {PATH: _led(dated(after, event.at), inert(event.lead) or "Lead").data}


def dated(document: Document, at: datetime) -> Document:
    """Set when the file was last updated; words behind the date stay."""
    found = field(document, header(document), "Last Updated")
    date = _DATE.match(found.value) if found else None
    if found and date:
        return set_field(document, header(document), found.key, minute(at) + found.value[date.end() :])
    return _with_value(document, "Last Updated", minute(at), keeps=" " in found.value if found else False)


def _led(document: Document, lead: str) -> Document:
    """Set who leads; a note behind the same name stays, one behind another name gets a line of its own."""
    found = field(document, header(document), "Lead Agent")
    if found and re.match(re.escape(lead) + _NOTE, found.value):
        return document
    return _with_value(document, "Lead Agent", lead, keeps=bool(found and re.search(_NOTE, found.value)))


def _with_value(document: Document, key: str, value: str, *, keeps: bool) -> Document:
    found = field(document, header(document), key)
    if found and keeps:
        line = f"(before: {found.value})"
        known = document.text(document.body, header(document).own_end).splitlines()
        document = document if line in known else insert(document, found.line_after, line)
    return set_field(document, header(document), key, value)


def _place(document: Document, key: str) -> str:
    found = field(document, header(document), key)
    return f"{PATH}:{found.line}" if found else PATH


def _needed(document: Document) -> None:
    lacking = [one for one in _missing(document) if one.severity == "error"]
    if lacking:
        raise StateError(*lacking)


def _missing(document: Document) -> list[Problem]:
    """Return missing or repeated parts; an error where no event can be recorded without the part."""
    found: list[Problem] = []
    top = header(document)
    for key, severity in {
        "Last Updated": True,
        "Lead Agent": True,
        "Phase": False,
        "Milestone": False,
    }.items():
        found += _field_problem(document, top, key, needed=severity)
    for title in SECTIONS:
        needed = title == "Worker Roster"
        if not sections_like(document, title):
            what = f"section `{title}` is missing"
            found.append(Problem(PATH, what, _INIT, "error" if needed else "warning"))
        elif twice := doubled(document, title):
            found.append(twice)
    roster = section_like(document, "Worker Roster")
    for label in (ACTIVE, RECENT) if roster else ():
        found += _field_problem(document, roster, label, needed=True)
    todo = section_like(document, "TODO")
    for level in todo_edits.GRADES if todo else ():
        if not sections_like(document, level, todo):
            found.append(Problem(PATH, f"section `TODO > {level}` is missing", _INIT, "warning"))
    return found


def _field_problem(document: Document, part: Part | None, key: str, *, needed: bool) -> list[Problem]:
    try:
        if part is not None and field(document, part, key) is not None:
            return []
    except MarkdownError as error:
        return list(error.problems)
    return [Problem(PATH, f"field `{key}` is missing", _INIT, "error" if needed else "warning")]


def _below(document: Document, label: str) -> Part:
    roster = section_like(document, "Worker Roster")
    part = labelled(document, roster, label) if roster else None
    if part is None:
        raise StateError(Problem(PATH, f"`{label}` is missing from the Worker Roster", _INIT))
    return part


def _listed(document: Document, label: str, lines: list[str], *, at: int | None = None) -> Document:
    """Add list lines below a label: at `at`, else behind its last item, else directly below it."""
    if not lines:
        return document
    nothing = [one for one in items(document, _below(document, label)) if key_of(one.text) in {"", "none"}]
    if nothing:
        document = remove_items(document, nothing)
        at = None
    part = _below(document, label)
    last = [item.end for item in items(document, part)]
    place = at if at is not None else max(last, default=part.body)
    below = document.data[place:].splitlines()[:1]
    starts = {document.lines[document.line_at(item.start) - 1].start for item in document.items}
    # A paragraph right below would read on as the last line's own text, and leave with it.
    gap = "\n\n" if below and below[0].strip() and place not in starts else ""
    return insert(document, place, "\n".join(lines) + gap)


def _deployed(document: Document, event: RunDeployed) -> Document:
    own = (one for one in active_workers(document) if one.run == event.run)
    waiting = (one.item for one in own if one.pending.startswith(INTERRUPTED))
    document = set_items(document, [(item, _bare(item.text, event.run)) for item in waiting])
    known = {(one.worker, one.run) for one in active_workers(document)}
    known |= {(one.worker, one.run) for one in completed(document)}
    new = [entry for entry in event.workers if (entry.worker, event.run) not in known]
    return _listed(document, ACTIVE, [_active_line(entry, event.run) for entry in new])


def _active_line(entry: RosterEntry, run: str) -> str:
    scope = inert(", ".join(entry.scope)) or "none"
    return f"- {inert(entry.worker)}: {inert(entry.title) or 'untitled'} (Scope: {scope}, run {run})"


def _integrated(document: Document, event: RunIntegrated) -> Document:
    for worker in event.workers:
        if worker.verdict == "pending":
            document = _held(document, worker, event.run)
    settled = [worker for worker in event.workers if worker.verdict != "pending"]
    left = {one.worker for one in active_workers(document) if one.run == event.run}
    document = _left(document, event.run, {worker.worker for worker in settled})
    document = _completed(document, settled, event, left)
    is_over = len(settled) == len(event.workers) and any(worker.is_done for worker in settled)
    is_over = is_over and not event.left_out
    document = plan_edits.tested(document, event.tests)
    return todo_edits.ticked(document, _running(event.phase)) if is_over else document


def _running(phase: str) -> str:
    """Return the text of a TODO item that waits for a phase to be run."""
    return f"`orchestrate run {phase}`"


def _held(document: Document, worker: Completion, run: str) -> Document:
    """Keep a pending worker on the roster, with the reason why it waits."""
    note = f" \u2014 pending: {inert(worker.reason) or 'the lead decides'}"
    known = [one for one in active_workers(document) if (one.worker, one.run) == (worker.worker, run)]
    if not known:
        done = {(one.worker, one.run) for one in completed(document)}
        entry = RosterEntry(worker.worker, worker.title, ("not recorded",))
        line = _active_line(entry, run) + note
        return document if (worker.worker, run) in done else _listed(document, ACTIVE, [line])
    return set_item(document, known[0].item, _bare(known[0].item.text, run) + note)


def _bare(text: str, run: str) -> str:
    """Return a roster line without the reason why its worker waits."""
    return text[: text.rindex(f", run {run})")] + f", run {run})"


def _waiting(document: Document, run: str) -> Document:
    """Mark the workers of an interrupted run as pending, with the command that continues it."""
    note = f" \u2014 pending: {INTERRUPTED}, `orchestrate resume {run}` goes on"
    idle = (one.item for one in active_workers(document) if one.run == run and not one.pending)
    return set_items(document, [(item, item.text + note) for item in idle])


def _left(document: Document, run: str, workers: set[str] | None) -> Document:
    gone = [one.item for one in active_workers(document) if one.run == run]
    if workers is not None:
        gone = [one.item for one in active_workers(document) if one.run == run and one.worker in workers]
    return remove_items(document, gone)


def _completed(
    document: Document, settled: list[Completion], event: RunIntegrated, left: set[str]
) -> Document:
    top: list[str] = []
    below: list[str] = []
    listed = completed(document)
    pruned = _pruned(listed, event.run)
    for worker in settled:
        known = [one for one in listed if (one.worker, one.run) == (worker.worker, event.run)]
        outcome, verdict = worker.outcome.upper(), worker.verdict or "no verdict"
        line = (
            f"{inert(worker.worker)}: {inert(worker.title) or 'untitled'} "
            f"({outcome}, {verdict}, integrated {day(event.at)}, run {event.run}, {inert(event.phase)})"
            + (f" \u2014 {inert(worker.result)}" if worker.result else "")
        )
        if not worker.is_done:
            document = remove_items(document, [one.item for one in known])
            listed = completed(document)
        elif known and (known[0].outcome, known[0].verdict) != (outcome, verdict):
            document = set_item(document, known[0].item, line)
            listed = completed(document)
        elif not known and (worker.worker in left or not pruned):
            run_is_there = any(one.run == event.run for one in listed)
            (below if run_is_there and worker.worker not in left else top).append(f"- {line}")
    # Of a run with more than KEPT workers the last fell off: recorded again, they belong below its first.
    same = [one.item.end for one in completed(document) if one.run == event.run]
    document = _listed(document, RECENT, below[:KEPT], at=max(same, default=None))
    document = _listed(document, RECENT, top[:KEPT], at=_below(document, RECENT).body)
    return remove_items(document, [one.item for one in _outdated(document)])


def _outdated(document: Document) -> list[Completed]:
    """Return the completions that are removed from the list; one of each open phase stays."""
    listed = completed(document)
    if len(listed) <= KEPT:
        return []
    over = {slug(phase.title) for phase in read_of(document).phases if phase.complete}
    told = {"", *over, *(slug(one.phase) for one in listed[:KEPT])}
    gone = []
    for one in listed[KEPT:]:
        # What a person wrote below it would go with it.
        if slug(one.phase) in told and not below(document, one.item):
            gone.append(one)
        told.add(slug(one.phase))
    return gone


def _pruned(listed: Sequence[Completed], run: str) -> bool:
    """Return whether a run is older than all runs in the full list, so that its lines were removed."""
    runs = [one.run for one in listed[:KEPT] if one.run]
    return len(listed) >= KEPT and bool(runs) and run < min(runs)


def _recounted(document: Document) -> Document:
    """Write the figures that follow from the checkboxes, on the lines that show them."""
    status = read_of(document)
    current = status.current
    if status.phases:
        document = _counted(document, "Overall", *status.milestones)
    if current is not None:
        document = _counted(document, "Current Phase", *current.made)
    milestone = field(document, header(document), "Milestone")
    if milestone and current is not None and (current.criteria or current.achieved):
        text = _MET.sub(f"({milestone_percent(current)}%", milestone.value)
        document = set_field(document, header(document), "Milestone", text)
    return document


def _counted(document: Document, key: str, done: int, total: int) -> Document:
    progress = section_like(document, "Progress")
    said = field(document, progress, key) if progress else None
    if progress is None or said is None:
        return document
    figure = _COUNT.sub(f"{percent(done, total)}% ({done}/{total}", said.value, count=1)
    return set_field(document, progress, key, figure)
