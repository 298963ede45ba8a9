"""phases/PHASE/STATUS.md: how the plans of a phase stand. The home of plan states, tasks and blockers.

Its owner is the phase worker: only its messages, the end of its run and the lead's commands change it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.read import PATH as PROJECT_STATUS
from orchestrator.state.document import (
    doubled,
    editable,
    fence_problem,
    inert,
    kept,
    needed,
    opened,
    section_like,
    state_errors,
)
from orchestrator.state.events import (
    BlockerAnswered,
    BlockerClosed,
    BlockerRaised,
    Completion,
    Decision,
    Event,
    PhaseEvent,
    PhaseNoted,
    PhaseReported,
    PhaseTaken,
    PlanAdded,
    PlanMoved,
    PlanState,
    RunClosed,
    RunIntegrated,
    TaskMoved,
)
from orchestrator.state.facts import Facts, day, filled, second
from orchestrator.state.phases import plan_file
from orchestrator.state.phases.paths import name_of, plan_path, planned, status_path
from orchestrator.state.phases.phase_status import blockers
from orchestrator.state.phases.phase_status.moves import PhaseMessage, Reported, refusal_of
from orchestrator.state.phases.phase_status.read import (
    COLUMNS,
    ID,
    STATES,
    UNKNOWN,
    PhaseBlocker,
    PhaseStatus,
    PlanRow,
    known,
    read_of,
    rows_of,
)
from tickets.markdown import (
    Document,
    MarkdownError,
    Table,
    add_items,
    add_rows,
    add_section,
    field,
    front_problems,
    header,
    parse,
    plain,
    sections,
    set_cells,
    set_field,
    table,
    take_items,
)
from tickets.problems import Problem

OWNS: tuple[str, ...] = ("phases/*/STATUS.md",)

REASON = 200
"""Characters of a reason in the log."""
_NEW = Path(__file__).with_name("new.md")
_FIELDS = ("Phase", "State", "Worker", "Base", "Last Updated")
_SECTIONS = ("Plans", "Tasks", "Blockers", "Decisions", "Context", "Log")
_MESSAGES: Mapping[PlanState, PhaseMessage] = {
    "in progress": "plan_started", "complete": "plan_complete", "failed": "plan_failed",
}  # fmt: skip
_Begins = PhaseTaken | PlanAdded | PhaseNoted
"""The events that begin the file where there is none."""
_Ends = RunIntegrated | RunClosed
_CANCELLED = "its run was cancelled"


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the STATUS.md of the phase that the event is about, and what that copies."""
    if not isinstance(event, PhaseEvent | _Ends) or not event.phase:
        return ()
    name = name_of(tree, event.phase)
    return (status_path(name), plan_path(name), PROJECT_STATUS)


def missing(path: str) -> StateError:
    """Return the error of a phase's STATUS.md that is not there."""
    do = f"`git restore {path}` where it was committed; else the next run of the phase begins it anew"
    return StateError(Problem(path, "the file is missing", do))


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the STATUS.md of the phase after the event; nothing where it shows the event already.

    `tree` holds PLAN.md as it is after the event. Raises StateError where the file is missing or damaged,
    or where the event is not allowed in it any more.
    """
    if not isinstance(event, PhaseEvent | _Ends) or not event.phase:
        return {}
    name = name_of(tree, event.phase)
    path = status_path(name)
    there = tree.get(path)
    if there is None and not isinstance(event, _Begins):
        if isinstance(event, _Ends):
            return {}  # no phase worker was there
        raise missing(path)
    text = _new_text(tree, name, event.at) if there is None else there
    before = editable(path, {path: text})
    plans = _plans_of(tree, name)
    try:
        with state_errors():
            after = _edited(_synced(before, plans), event, [plan.id for plan in plans])
            if after.data == there:
                return {}
            return {path: kept(set_field(after, header(after), "Last Updated", second(event.at))).data}
    except StateError as error:
        raise StateError(*(_missing(before) or error.problems)) from error


def differences(tree: Mapping[str, bytes | None], name: str) -> list[Problem]:
    """Return the rows of a phase that differ from PLAN.md. Raises StateError where a file cannot be read."""
    path, text = status_path(name), tree.get(status_path(name))
    rows = rows_of(opened(path, text)) if text else ()
    if not rows:
        return []
    planned_text = tree.get(plan_path(name))
    if planned_text is None:
        what, do = f"{plan_path(name)} is missing, which has these plans", f"`git restore {plan_path(name)}`"
        return [Problem(path, what, do)]
    plans = {plan.id: cell_text(plan.title) for plan in plan_file.read(plan_path(name), planned_text)}
    found = table(opened(path, text or b""), needed(opened(path, text or b""), "Plans"))
    lines = {row.cells[0].text: row.line for row in found.rows}
    return [
        Problem(f"{path}:{lines.get(plan, found.line)}", what, do, "warning")
        for plan, what, do in _differing({row.plan: cell_text(row.title) for row in rows}, plans)
    ]


def _differing(rows: Mapping[str, str], plans: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (plan, what is wrong, what to do) of titles by plan, here and in PLAN.md."""
    do = "the next event of the phase copies it"
    for plan, title in rows.items():
        if plan not in plans:
            yield plan, f"the plan `{plan}` has left PLAN.md", "remove the row, or put the plan back"
        elif plans[plan] != title:
            yield plan, f"`{plan}` is `{title}`, and `{plans[plan]}` in PLAN.md", do
    for plan in plans:
        if plan not in rows:
            yield plan, f"the plan `{plan}` has no row", do


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the file: missing parts, unknown words, rows that cannot be told apart."""
    try:
        document = opened("STATUS.md", text)
    except StateError as error:
        return list(error.problems)
    found = [*front_problems(document), *_missing(document)]
    part = section_like(document, "Plans")
    try:
        found += _table_problems(document, table(document, part)) if part else []
        found += _word_problems(document)
    except MarkdownError as error:
        found += error.problems
    return list(dict.fromkeys(found))


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: the first worker of the phase, or the lead's first note, begins it."""
    return text


def _new_text(tree: Mapping[str, bytes | None], name: str, at: datetime) -> bytes:
    phase = planned(tree, name)
    title = inert(phase.title) if phase else name
    return filled(_NEW, title=title, phase=name, at=second(at)).encode()


def _plans_of(tree: Mapping[str, bytes | None], name: str) -> Sequence[plan_file.PhasePlan]:
    """Return the plans of PLAN.md; none where it cannot be read: its rows are copies and stay."""
    path = plan_path(name)
    with suppress(StateError):
        text = tree.get(path)
        return plan_file.read(path, text) if text else ()
    return ()


def _synced(document: Document, plans: Sequence[plan_file.PhasePlan]) -> Document:
    """Add the rows and the titles that plans lack; the row of a plan that has left PLAN.md stays."""
    found = table(document, needed(document, "Plans"))
    titles = {plan.id: cell_text(plan.title) for plan in plans}
    column = found.columns.index("Title") if "Title" in found.columns else 0
    rows: dict[str, int] = {}
    changed: dict[str | int, Mapping[str, str]] = {}
    for at, row in enumerate(found.rows):
        plan = row.cells[0].text
        rows.setdefault(plan, at)
        if plan in titles and not row.problem and row.cells[column].text != titles[plan]:
            changed[at] = {"Title": titles[plan]}
    if changed:
        document = set_cells(document, needed(document, "Plans"), changed)
    for before, names in new_rows([*titles], rows):
        new = [{"Plan": plan, "Title": titles[plan], "State": "not started"} for plan in names]
        document = add_rows(document, needed(document, "Plans"), new, before=before)
    return document


def new_rows(order: Sequence[str], rows: Mapping[str, int]) -> list[tuple[int | None, list[str]]]:
    """Return what a table lacks of an order, in groups: each with the row that it is to stand above.

    `rows` has the places of the rows that there are. The lowest group comes first: it moves no other's place.
    """
    groups: list[tuple[int | None, list[str]]] = []
    before: int | None = None
    for name in reversed(order):
        if name in rows:
            before = rows[name]
        elif groups and groups[-1][0] == before:
            groups[-1][1].insert(0, name)
        else:
            groups.append((before, [name]))
    return sorted(groups, key=lambda one: len(rows) if one[0] is None else one[0], reverse=True)


def cell_text(text: str) -> str:
    """Return foreign text for a cell: programs differ on a pipe behind two backslashes."""
    return inert(re.sub(r"\\+\|", "|", text)) or UNKNOWN


def _edited(document: Document, event: PhaseEvent | _Ends, order: Sequence[str]) -> Document:
    by = getattr(event, "by", "")
    status = read_of(document)
    if ":" in by and by in status.handled:
        return document
    match event:
        case PhaseTaken():
            return _taken(document, status, event)
        case PlanMoved():
            return _moved(document, status, event, order)
        case TaskMoved():
            return _task(document, status, event, order)
        case BlockerRaised():
            return blockers.raised(document, event, order)
        case BlockerAnswered():
            return blockers.answered(document, event)
        case BlockerClosed():
            return blockers.closed(document, _open(status, message=event.blocker))
        case PhaseNoted():
            return _noted(document, status, event)
        case PhaseReported():
            return _reported(document, status, event, order)
        case RunIntegrated():
            return _integrated(document, status, event)
        case RunClosed():
            return _cancelled(document, status, event) if event.status == "cancelled" else document
        case PlanAdded():
            return document  # its row is there


def _taken(document: Document, status: PhaseStatus, event: PhaseTaken) -> Document:
    """Hand the phase to a worker; what another run did not land is to be done once more."""
    if status.worker == event.owner:
        return _taken_again(document, event)
    for row in status.plans:
        if row.state != "not started" and row.landed is None:
            cells = dict.fromkeys(("Started", "Ended", "Commit", "Verified"), UNKNOWN)
            document = _with_cells(document, row.plan, {"State": "not started", **cells})
            change, why = f"{row.plan} {row.state} -> not started", "its run did not land it"
            document = _logged(document, event.at, change, why, _runtime(event))
    document = blockers.closed(document, _open(status))
    after = read_of(document)
    said: dict[str, str] = {"Worker": event.owner, "Base": event.base or UNKNOWN}
    if after.counts["complete"] < len(after.plans) or status.state != "complete":
        said["State"] = "in progress" if after.counts["complete"] else "not started"
    return _with_header(document, said)


def _taken_again(document: Document, event: PhaseTaken) -> Document:
    """Restore to a worker what it had completed: its run had landed nothing, and goes on with an answer."""
    for row in rows_of(document):
        if row.state == "failed" and row.commit and row.landed is None:
            document = _with_cells(document, row.plan, {"State": "complete"})
            change, why = f"{row.plan} failed -> complete", f"run {event.run} goes on"
            document = _logged(document, event.at, change, why, _runtime(event))
    return document


def _moved(document: Document, status: PhaseStatus, event: PlanMoved, order: Sequence[str]) -> Document:
    row = _row(document, status, event, _MESSAGES.get(event.to), order)
    if row is None or row.state == event.to:
        return document
    cells: dict[str, str] = {"State": event.to}
    now = second(event.at)
    if event.to == "in progress":
        cells |= {"Started": now, "Ended": UNKNOWN, "Commit": UNKNOWN, "Verified": UNKNOWN}
    else:
        commit = event.commit or UNKNOWN
        cells |= {"Ended": now, "Commit": commit, "Verified": commit if event.verified else UNKNOWN}
    document = _with_cells(document, row.plan, cells)
    document = _logged(document, event.at, f"{row.plan} {row.state} -> {event.to}", _reason(event), event.by)
    if event.to != "in progress":
        document = blockers.closed(document, _open(status, plan=row.plan))
    # A phase that was complete, or had failed, has work again.
    return _with_header(document, {"State": "in progress"})


def _reason(event: PlanMoved) -> str:
    late = f"commit taken {event.late} s later" if event.late else ""
    room = REASON - len(late) - 2 if late else REASON
    said = _shortened(event.reason, room)
    return "; ".join(part for part in (said, late) if part)


def _task(document: Document, status: PhaseStatus, event: TaskMoved, order: Sequence[str]) -> Document:
    if _row(document, status, event, "task_progress", order) is None:
        return document
    document = blockers.with_task(document, event, order)
    if event.to not in ("doing", "done"):
        return document
    task = plain(blockers.written(event.task))
    return blockers.closed(document, _open(status, plan=event.plan, task=task))


def _row(
    document: Document,
    status: PhaseStatus,
    event: PlanMoved | TaskMoved,
    what: PhaseMessage | None,
    order: Sequence[str],
) -> PlanRow | None:
    """Return the row of a plan that a message may move. Raises StateError where it may not any more.

    What the runtime moves by itself, and finds moved, is None.
    """
    row = status.row(event.plan)
    sender, colon, _ = event.by.rpartition(":")
    if not colon:
        return row if row and row.state == "in progress" else None
    reported = Reported(sender, what or "plan_started", event.plan)
    refusal = refusal_of(status, reported, events="milestones", plans=order or None)
    if refusal or row is None:
        raise StateError(
            Problem(document.place, refusal or f"there is no row of {event.plan}", "read the file")
        )
    return row


def _noted(document: Document, status: PhaseStatus, event: PhaseNoted) -> Document:
    if event.decision is not None:
        return _decided(document, event, event.decision)
    notes = status.context
    if event.removed:
        gone = [one.item for one in notes if one.text == event.removed][:1]
        return take_items(document, needed(document, "Context"), gone) if gone else document
    text = note_text(event.text, event.by)
    if not event.by and plain(inert(event.text)) in {one.text for one in notes if one.by is None}:
        return document
    return add_items(document, needed(document, "Context"), [f"- {text}"])


def note_text(text: str, by: str) -> str:
    """Return a line of context, whose own last words never read as the id of a message."""
    line = inert(text) or "no text"
    return f"{line} ({by})" if by else re.sub(rf" \((?={ID}\)$)", r" \\(", line)


def _decided(document: Document, event: PhaseNoted, made: Decision) -> Document:
    part = needed(document, "Decisions")
    heading = f"{day(event.at)}: {inert(made.title) or 'untitled'}"
    named = parse(f"# {heading}\n".encode(), document.place).headings[0].title
    content = (
        f"**Context:** {inert(made.context) or UNKNOWN}\n**Decision:** {inert(made.decision) or UNKNOWN}\n"
        f"**Message:** {event.by or UNKNOWN}"
    )
    there = {one.title: document.text(one.body, one.content_end).strip() for one in sections(document, part)}
    if there.get(named, "").replace("\r\n", "\n") == content:
        return document
    number = next(number for number in range(1, len(there) + 2) if _numbered(named, number) not in there)
    return add_section(document, part, f"### {_numbered(heading, number)}\n\n{content}")


def _numbered(title: str, number: int) -> str:
    return f"{title} ({number})" if number > 1 else title


def _reported(
    document: Document, status: PhaseStatus, event: PhaseReported, order: Sequence[str]
) -> Document:
    sender = event.by.rpartition(":")[0]
    refusal = refusal_of(status, Reported(sender, "phase_complete"), events="milestones", plans=order or None)
    if refusal:
        raise StateError(Problem(document.place, refusal, "read the file"))
    change = f"phase {status.state} -> complete"
    document = _logged(document, event.at, change, _shortened(event.summary, REASON), event.by)
    return _with_header(document, {"State": "complete"})


# The end of a run


def _integrated(document: Document, status: PhaseStatus, event: RunIntegrated) -> Document:
    """Show what became of the plans of a run: landed, or nothing of them."""
    mine = _own(status, event)
    if mine is None or mine.verdict == "pending":
        return document
    document = _landed(document, event) if mine.is_done else _not_landed(document, event)
    if mine.worker in event.can_resume:
        return document
    document = blockers.closed(document, _open(status))
    return _ended(document, event, f"run {event.run} ended")


def _own(status: PhaseStatus, event: RunIntegrated) -> Completion | None:
    """Return what became of the phase's worker, where that is one of this run.

    A cancelled run has lost the phase, and what it had completed may land nevertheless.
    """
    names = {status.worker} if status.worker else {by.partition(":")[0] for by in status.logged}
    return next((one for one in event.workers if f"{event.run}.{one.worker}" in names), None)


def _landed(document: Document, event: RunIntegrated) -> Document:
    """Write the landing commit beside each plan that the run has completed.

    Where nothing was to land, the plan's own commit is in the branch already.
    """
    for row in rows_of(document):
        if row.landed or not row.commit or row.state not in ("complete", "failed"):
            continue
        if row.state == "failed":
            # The lead had rejected it before.
            change = f"{row.plan} failed -> complete"
            document = _logged(document, event.at, change, f"run {event.run} landed", _runtime(event))
        document = _with_cells(
            document, row.plan, {"State": "complete", "Landed": event.landing or row.commit}
        )
    return document


def _runtime(event: PhaseTaken | RunIntegrated | RunClosed) -> str:
    """Return the participant that the runtime's own entries of the log are by."""
    return f"{event.run}.coordinator"


def _not_landed(document: Document, event: RunIntegrated) -> Document:
    for row in rows_of(document):
        if row.state == "complete" and row.landed is None:
            document = _with_cells(document, row.plan, {"State": "failed"})
            change = f"{row.plan} complete -> failed"
            why = f"nothing of run {event.run} landed"
            document = _logged(document, event.at, change, why, _runtime(event))
    return document


def _cancelled(document: Document, status: PhaseStatus, event: RunClosed) -> Document:
    if not (status.worker or "").startswith(f"{event.run}."):
        return document
    for row in status.plans:
        if row.state == "in progress":
            cells = {"State": "failed", "Ended": second(event.at)}
            document = _with_cells(document, row.plan, cells)
            change = f"{row.plan} in progress -> failed"
            document = _logged(document, event.at, change, _CANCELLED, _runtime(event))
    document = blockers.closed(document, _open(status))
    document = _ended(document, event, _CANCELLED)
    return _with_header(document, {"Worker": UNKNOWN})


def _ended(document: Document, event: _Ends, why: str) -> Document:
    """Show that a phase's run has ended before all of its plans were complete."""
    status = read_of(document)
    counts = status.counts
    left = len(status.plans) - counts["complete"]
    if not left or counts["not started"] == len(status.plans) or status.state == "failed":
        return document
    reason = f"{why} with {counts['complete']} of {len(status.plans)} plans complete"
    change = f"phase {status.state} -> failed"
    document = _logged(document, event.at, change, reason, _runtime(event))
    return _with_header(document, {"State": "failed"})


# Single edits


def _open(
    status: PhaseStatus, *, plan: str | None = None, task: str | None = None, message: str | None = None
) -> list[PhaseBlocker]:
    """Return the blockers that are not closed: all, or those of a plan, a task or a message."""
    return [
        one
        for one in status.blockers
        if not one.is_closed
        and plan in (None, one.plan)
        and task in (None, one.task)
        and message in (None, one.message)
    ]


def _with_cells(document: Document, plan: str, cells: Mapping[str, str]) -> Document:
    part = needed(document, "Plans")
    at = next(at for at, row in enumerate(table(document, part).rows) if known(row.cells[0].text) == plan)
    return set_cells(document, part, {at: cells})


def _with_header(document: Document, said: Mapping[str, str]) -> Document:
    for key, text in said.items():
        document = set_field(document, header(document), key, text)
    return document


def _logged(document: Document, at: datetime, change: str, reason: str, by: str) -> Document:
    why = f": {inert(reason)}" if reason else ""
    return add_items(document, needed(document, "Log"), [f"- {second(at)} {change}{why} ({by})"])


def _shortened(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


def _missing(document: Document) -> list[Problem]:
    """Return the parts that no event can be shown without."""
    found: list[Problem] = []
    top = header(document)
    for key in _FIELDS:
        try:
            if field(document, top, key) is None:
                do = f"write `**{key}:** {UNKNOWN}` below the title"
                found.append(Problem(document.place, f"field `{key}` is missing", do))
        except MarkdownError as error:
            found += error.problems
    for title in _SECTIONS:
        if section_like(document, title) is None:
            missing = Problem(
                document.place, f"section `{title}` is missing", "add it, as other phases have it"
            )
            found.append(fence_problem(document, title) or doubled(document, title) or missing)
    return list(dict.fromkeys(found))


def _table_problems(document: Document, found: Table) -> list[Problem]:
    told = []
    for title in COLUMNS:
        if title not in found.columns:
            what = f"the table of `Plans` has no column `{title}`"
            told.append(Problem(f"{document.place}:{found.line}", what, "add it"))
    seen: dict[str, int] = {}
    for row in (found.header, *found.rows):
        place = f"{document.place}:{row.line}"
        if row.problem:
            do = "give it one cell for each column, and write a pipe that is text as `\\|`"
            told.append(Problem(place, f"the row {row.problem}", do))
        plan = row.cells[0].text if row.cells else ""
        if plan in seen:
            what = f"there is a row of `{plan}` already, on line {seen[plan]}"
            told.append(Problem(place, what, "keep one of them"))
        seen.setdefault(plan, row.line)
    return told


def _word_problems(document: Document) -> list[Problem]:
    """Return the states that are no word of ours: they count as not started."""
    part, said = section_like(document, "Plans"), []
    found = table(document, part) if part else None
    if found and "State" in found.columns:
        at = found.columns.index("State")
        said += [(row.cells[at].text, row.line) for row in found.rows if not row.problem]
    stated = field(document, header(document), "State")
    said += [(stated.value, stated.line)] if stated else []
    do = f"write one of: {', '.join(STATES)}"
    return [
        Problem(f"{document.place}:{line}", f"`{word}` is no state of a plan", do, "warning")
        for word, line in said
        if word not in STATES
    ]
