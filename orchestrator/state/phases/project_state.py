"""STATE.md: every phase of the project at a glance, for whoever coordinates. Copies, but for its context."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from orchestrator.errors import StateError
from orchestrator.state import Tree
from orchestrator.state.canonical.decisions._entries import LogEvent
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import read as read_log
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import Phase, Status, slug
from orchestrator.state.canonical.status.read import read as read_project
from orchestrator.state.canonical.status.status import INTERRUPTED
from orchestrator.state.document import (
    doubled,
    editable,
    fence_problem,
    inert,
    kept,
    needed,
    opened,
    present,
    section_like,
    sections_like,
    state_errors,
    with_fields,
)
from orchestrator.state.events import Event, PhaseEvent, PhaseNoted, RunClosed, RunDeployed, RunIntegrated
from orchestrator.state.facts import Facts, new_file, second
from orchestrator.state.phases.paths import STATE as PATH
from orchestrator.state.phases.paths import name_of, status_path
from orchestrator.state.phases.phase_status.phase_status import cell_text, new_rows
from orchestrator.state.phases.phase_status.read import (
    STATES,
    UNKNOWN,
    PhaseBlocker,
    PhaseStatus,
    known,
    list_items,
    pointer,
    read,
)
from tickets.markdown import (
    Document,
    Item,
    MarkdownError,
    Part,
    Table,
    add_items,
    add_rows,
    append_section,
    field,
    front_problems,
    header,
    insert,
    plain,
    set_cells,
    set_field,
    tables,
    take_items,
)
from tickets.problems import Problem
from tickets.wording import rest_of

OWNS: tuple[str, ...] = (PATH,)

BLOCKERS = 20
DECIDED = 10
CONTEXT = 20
"""How many lines each list has at most."""
COLUMNS = (
    "Phase", "Name", "Status", "Not Started", "In Progress", "Complete", "Failed", "Worker", "Detail",
)  # fmt: skip
_COUNTS = COLUMNS[3:7]
"""In the order of the states."""
_SECTIONS = ("Phases", "Blockers", "Decisions", "Context")
_FIELDS = ("Last Updated", "Lead", "Current Phase", "Milestone")
_NEW = Path(__file__).with_name("new.md")
_BLOCKED = re.compile(
    r"\S+(?: \S+)? B\d+: .* \((?:open|answered), (?:skip|pause), since (?P<since>[^ )]*)\)"
    r": phases/(?P<name>[^/]+)/STATUS\.md#b\d+"
)
_MORE = re.compile(r"and \d+ more: phases/(?P<name>[^/]+)/STATUS\.md")
_DECISION = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}: .*: {re.escape(DECISIONS)}")
_WORD_ENDS = re.compile(r"\s*[(,;:\u2013\u2014]|\s-\s")
_PERCENT = re.compile(r"\d\s*%")

_RunEvent = RunDeployed | RunIntegrated | RunClosed
_INIT = "`orchestrate init` appends what is missing"
_AGAIN = "`orchestrate init` copies it again"


def context_of(text: bytes) -> tuple[str, ...]:
    """Return the context of the project. Raises StateError where the file cannot be read."""
    return tuple(plain(item.text) for item in list_items(opened(PATH, text), "Context"))


def needs(tree: Tree, event: Event) -> tuple[str, ...]:
    """Return the file, and the homes of what the event changes in it."""
    if isinstance(event, PhaseNoted) and not event.phase:
        return (PATH,)
    log = (DECISIONS,) if tree.get(PATH) is None or isinstance(event, LogEvent | RunIntegrated) else ()
    return (PATH, STATUS, *log, *map(status_path, _concerned(tree, event)))


def changes(tree: Tree, event: Event) -> dict[str, bytes]:
    """Return STATE.md with the copies that the event changes; a missing file is begun with all of them.

    `tree` holds the homes as they are after the event. Raises StateError where a file cannot be read.
    """
    there = tree.get(PATH)
    document = _opened(there, event.at)
    with _missing_named(document):
        if isinstance(event, PhaseNoted) and not event.phase:
            after = _noted(document, event)
        else:
            after = _copied(document, tree, _concerned(tree, event))
            if DECISIONS in needs(tree, event):
                after = _with_decisions(after, tree)
        return _stamped(after, there, event.at)


def recounted(tree: Tree, at: datetime) -> dict[str, bytes]:
    """Return STATE.md with each copy as its home has it; nothing where it has them all.

    `tree` holds what `homes` names. Raises StateError where a file cannot be read.
    """
    there = tree.get(PATH)
    document = _opened(there, at)
    with _missing_named(document):
        return _stamped(_recounted(document, tree), there, at)


def homes(tree: Tree) -> tuple[str, ...]:
    """Return the files that STATE.md copies from. Raises StateError where STATUS.md cannot be read."""
    return (STATUS, DECISIONS, *(status_path(slug(phase.title)) for phase in _project(tree).phases))


def differences(tree: Tree) -> list[Problem]:
    """Return the copies that differ from their homes. Raises StateError where a file cannot be read."""
    text = tree.get(PATH)
    if text is None or _missing(opened(PATH, text)):
        return []  # that is a problem of its own
    before = opened(PATH, text)
    with state_errors():
        again = _recounted(before, tree)
    found = [*_header_differences(before, again), *_row_differences(before, again)]
    return [*found, *_list_differences(before, again)]


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the file: missing parts, ragged rows, percentages."""
    try:
        document = opened(PATH, text)
    except StateError as error:
        return list(error.problems)
    found = [*front_problems(document), *_missing(document)]
    part = section_like(document, "Phases")
    for one in tables(document, part) if part else ():
        for row in (one.header, *one.rows):
            if row.problem:
                do = "give it one cell for each column, and write a pipe that is text as `\\|`"
                found.append(Problem(f"{PATH}:{row.line}", f"the row {row.problem}", do))
    return [*found, *_percentages(document)]


def initial(facts: Facts) -> str:
    """Return the text of a new file."""
    return new_file(_NEW, facts).text


def complete(text: bytes, facts: Facts) -> bytes:
    """Return the file with the fields and sections that it lacks; the bytes of another tool's file stay.

    Raises StateError where the file cannot be read.
    """
    if not text.strip():
        return initial(facts).encode()
    new = new_file(_NEW, facts)
    with state_errors():
        document = with_fields(opened(PATH, text), new.title, new.fields)
        for title, section in new.sections.items():
            if not sections_like(document, title):
                document = append_section(document, section)
        return _with_table(document, new.sections["Phases"]).data


def _with_table(document: Document, section: str) -> Document:
    """Add our table of phases to a section that another tool has written, below what it holds."""
    part = needed(document, "Phases")
    if _tables_of_ours(document, part):
        return document
    return insert(document, part.own_content_end, "\n" + section.partition("\n\n")[2])


def _opened(text: bytes | None, at: datetime) -> Document:
    """Open the file for a change, or begin it. Raises StateError."""
    return editable(PATH, {PATH: initial(Facts("", "", at)).encode() if text is None else text})


@contextmanager
def _missing_named(document: Document) -> Iterator[None]:
    """Raise StateError with all that a file lacks, where an edit has failed."""
    try:
        with state_errors():
            yield
    except StateError as error:
        raise StateError(*(_missing(document) or error.problems)) from error


def _stamped(document: Document, there: bytes | None, at: datetime) -> dict[str, bytes]:
    if document.data == there:
        return {}
    return {PATH: kept(set_field(document, header(document), "Last Updated", second(at))).data}


def _recounted(document: Document, tree: Tree) -> Document:
    every = [slug(phase.title) for phase in _project(tree).phases]
    return _with_decisions(_copied(document, tree, every), tree)


def _project(tree: Tree) -> Status:
    return _read_project(present(STATUS, tree.get(STATUS)))


# Most events leave STATUS.md as it is, and a runtime asks for it each time.
_read_project = lru_cache(maxsize=2)(read_project)


def _concerned(tree: Tree, event: Event) -> list[str]:
    """Return the phases, by their short names, whose STATUS.md is counted for an event."""
    text = tree.get(PATH)
    phase = getattr(event, "phase", "") if isinstance(event, PhaseEvent | _RunEvent) else ""
    names = [name_of(tree, phase)] if phase else []
    if text is None or not isinstance(event, PhaseEvent | _RunEvent):
        rows = _rows(opened(PATH, text)) if text else {}
        names += [name for one in _project(tree).phases if (name := slug(one.title)) not in rows]
    if phase and text is not None:
        listed = [item.text for item in _ours(opened(PATH, text), "Blockers")]
        # One that goes makes room for one that is not shown: then all of them are listed anew.
        if any(map(_MORE.fullmatch, listed)):
            found = (_BLOCKED.fullmatch(line) or _MORE.fullmatch(line) for line in listed)
            names += [one["name"] for one in found if one]
    return list(dict.fromkeys(names))


def _copied(document: Document, tree: Tree, names: Sequence[str]) -> Document:
    """Copy what STATUS.md says, and count the plans and blockers of some phases."""
    project = _project(tree)
    counted = {
        name: read(status_path(name), text) if (text := tree.get(status_path(name))) else None
        for name in names
    }
    milestone = re.sub(r"\s*\(\d+% complete\).*", "", project.milestone)
    said = {"Lead": project.lead, "Current Phase": project.phase_slug, "Milestone": milestone}
    for key, word in said.items():
        document = set_field(document, header(document), key, inert(word) or UNKNOWN)
    return _with_blockers(_with_rows(document, project, counted), counted)


def _rows(document: Document) -> dict[str, int]:
    """Return where the row of each phase is."""
    rows = _table(document)[1].rows
    return {known(row.cells[0].text) or "": at for at, row in reversed([*enumerate(rows)])}


def _table(document: Document) -> tuple[int, Table]:
    """Return our table among those of the section, with its number."""
    found = _tables_of_ours(document, needed(document, "Phases"))
    if not found:
        raise StateError(Problem(PATH, "the table of the phases is missing", _INIT))
    return found[0]


def _tables_of_ours(document: Document, part: Part) -> list[tuple[int, Table]]:
    return [(at, one) for at, one in enumerate(tables(document, part)) if set(COLUMNS) <= set(one.columns)]


def _with_rows(document: Document, project: Status, counted: Mapping[str, PhaseStatus | None]) -> Document:
    """Update the row of each phase of STATUS.md, and mark those that are gone from it; none is moved."""
    cells = {slug(phase.title): _cells_of_plan(phase) for phase in project.phases}
    gone = {"Status": UNKNOWN}
    number, found = _table(document)
    rows = _rows(document)
    wanted: dict[str | int, Mapping[str, str]] = {}
    for name, at in rows.items():
        # A ragged row stops only what is about its own phase.
        if name in counted:
            wanted[at] = cells.get(name, gone) | _cells_of_status(project, name, counted[name])
        elif name and not found.rows[at].problem:
            wanted[at] = cells.get(name, gone)
    document = set_cells(document, needed(document, "Phases"), wanted, ordinal=number)
    order = list(dict.fromkeys((*cells, *(name for name, one in counted.items() if one))))
    for before, names in new_rows(order, rows):
        new = [
            {"Phase": name} | cells.get(name, gone) | _cells_of_status(project, name, counted.get(name))
            for name in names
        ]
        part = needed(document, "Phases")
        document = add_rows(document, part, new, before=before, ordinal=number)
    return document


def _cells_of_plan(phase: Phase) -> dict[str, str]:
    word = re.split(_WORD_ENDS, phase.status.strip(), maxsplit=1)[0]
    return {"Name": cell_text(phase.name), "Status": cell_text(word)}


def _cells_of_status(project: Status, name: str, status: PhaseStatus | None) -> dict[str, str]:
    counts = status.counts if status and status.plans else {}
    said = {column: str(counts.get(state, UNKNOWN)) for column, state in zip(_COUNTS, STATES, strict=True)}
    worker = _worker(project, status) if status else UNKNOWN
    return {**said, "Worker": worker, "Detail": status_path(name) if status else UNKNOWN}


def _worker(project: Status, status: PhaseStatus) -> str:
    """Return the worker of a phase while its run is running or interrupted, as the roster shows it."""
    for one in project.active:
        is_on = not one.pending or one.pending.startswith(INTERRUPTED)
        if is_on and f"{one.run}.{one.worker}" == status.worker:
            return status.worker
    return UNKNOWN


def _with_blockers(document: Document, counted: Mapping[str, PhaseStatus | None]) -> Document:
    """List the blockers that are not closed, the newest first; those above the limit are counted."""
    lines = [found for item in list_items(document, "Blockers") if (found := _BLOCKED.fullmatch(item.text))]
    # Of phases that are not counted the lines stay as they are.
    every = [(one["since"], one["name"], one[0]) for one in lines if one["name"] not in counted]
    for name, status in counted.items():
        waiting = [one for one in status.blockers if not one.is_closed] if status else []
        every += [(one.raised, name, _blocker_line(name, one)) for one in reversed(waiting)]
    every.sort(key=lambda one: one[0], reverse=True)
    hidden = Counter(name for _, name, _ in every[BLOCKERS:])
    wanted = [line for _, _, line in every[:BLOCKERS]]
    rests = ((name, rest) for name, count in hidden.items() for rest in rest_of(count, 0))
    wanted += [f"{rest}: {status_path(name)}" for name, rest in rests]
    return _relisted(document, "Blockers", wanted)


def _blocker_line(name: str, one: PhaseBlocker) -> str:
    plan = f" {one.plan}" if one.plan else ""
    how = f"({one.state}, {one.mode}, since {one.raised})"
    return f"{name}{plan} {one.name}: {inert(one.title)} {how}: {pointer(status_path(name), one.name)}"


def _with_decisions(document: Document, tree: Tree) -> Document:
    """List the newest decisions of the project, the newest first."""
    text = tree.get(DECISIONS)
    entries = sorted(read_log(text) if text else (), key=lambda one: one.date, reverse=True)
    wanted = [f"{one.date}: {inert(one.title)}: {DECISIONS}" for one in entries[:DECIDED]]
    return _relisted(document, "Decisions", wanted)


def _ours(document: Document, title: str) -> list[Item]:
    """Return the items of a list that are copies; others are a person's."""
    forms = (_BLOCKED, _MORE) if title == "Blockers" else (_DECISION,)
    return [item for item in list_items(document, title) if any(form.fullmatch(item.text) for form in forms)]


def _relisted(document: Document, title: str, wanted: Sequence[str]) -> Document:
    """Make a list hold these lines of ours, in this order; other lines stay where they are."""
    ours = _ours(document, title)
    there = {item.text for item in ours} & set(wanted)
    gone = [item for item in ours if item.text not in there]
    document = take_items(document, needed(document, title), gone)
    for number, line in enumerate(wanted):
        if line in there:
            continue
        later = {text for text in wanted[number + 1 :] if text in there}
        below = next((item for item in list_items(document, title) if item.text in later), None)
        if below is None:
            document = add_items(document, needed(document, title), [f"- {line}"])
        else:
            document = insert(document, document.lines[below.line - 1].start, f"- {line}")
        there.add(line)
    return document


def _noted(document: Document, event: PhaseNoted) -> Document:
    """Add a line of context, or remove one. Raises StateError where there are too many."""
    part = needed(document, "Context")
    listed = list_items(document, "Context")
    if event.removed:
        gone = [item for item in listed if plain(item.text) == event.removed][:1]
        return take_items(document, part, gone)
    line = inert(event.text)
    if plain(line) in {plain(item.text) for item in listed}:
        return document
    if len(listed) >= CONTEXT:
        what = f"the context holds {len(listed)} lines, and {CONTEXT} are the most that a new lead reads"
        raise StateError(Problem(PATH, what, "`orchestrate phase note --remove N` makes room"))
    return add_items(document, part, [f"- {line}"])


def _missing(document: Document) -> list[Problem]:
    """Return the parts that no event can be shown without."""
    found: list[Problem] = []
    top = header(document)
    for key in _FIELDS:
        try:
            if field(document, top, key) is None:
                found.append(Problem(PATH, f"field `{key}` is missing", _INIT))
        except MarkdownError as error:
            found += error.problems
    for title in _SECTIONS:
        part = section_like(document, title)
        if part is None:
            missing = Problem(PATH, f"section `{title}` is missing", _INIT)
            found.append(fence_problem(document, title) or doubled(document, title) or missing)
        elif title == "Phases" and not _tables_of_ours(document, part):
            found.append(Problem(f"{PATH}:{part.line}", "the table of the phases is missing", _INIT))
    return list(dict.fromkeys(found))


def _percentages(document: Document) -> list[Problem]:
    """Return the lines that hold a percentage, but for the words that are copied or a person's."""
    milestone = field(document, header(document), "Milestone")
    free = {item.line for title in _SECTIONS[1:] for item in list_items(document, title)}
    free |= {milestone.line} if milestone else set()
    part = section_like(document, "Phases")
    for _, one in _tables_of_ours(document, part) if part else ():
        name = one.columns.index("Name")
        free |= {
            row.line
            for row in one.rows
            if not any(_PERCENT.search(cell.text) for at, cell in enumerate(row.cells) if at != name)
        }
    what, do = "holds a percentage", "the state of a plan is a word: count the plans in each state"
    return [
        Problem(f"{PATH}:{number}", what, do, "warning")
        for number, line in enumerate(document.lines, start=1)
        if number not in free and _PERCENT.search(document.text(line.start, line.end))
    ]


def _header_differences(before: Document, again: Document) -> list[Problem]:
    found = []
    for key in _FIELDS[1:]:
        old, new = (field(one, header(one), key) for one in (before, again))
        if old and new and old.value != new.value:
            what = f"`{key}` is `{old.value}`, and `{new.value}` in STATUS.md"
            found.append(Problem(f"{PATH}:{old.line}", what, _AGAIN, "warning"))
    return found


def _row_differences(before: Document, again: Document) -> list[Problem]:
    found = []
    (_, old), (_, new) = _table(before), _table(again)
    known_rows = _rows(before)
    for name, at in _rows(again).items():
        if name not in known_rows:
            found.append(Problem(f"{PATH}:{old.line}", f"`{name}` has no row", _AGAIN, "warning"))
            continue
        row = old.rows[known_rows[name]]
        for column, one, other in zip(old.columns, row.cells, new.rows[at].cells, strict=False):
            if one.text != other.text:
                what = f"`{column}` of `{name}` is `{one.text}`, and `{other.text}` in its home"
                found.append(Problem(f"{PATH}:{row.line}", what, _AGAIN, "warning"))
    return found


def _list_differences(before: Document, again: Document) -> list[Problem]:
    found = []
    for title in ("Blockers", "Decisions"):
        old, new = ({item.text: item.line for item in _ours(one, title)} for one in (before, again))
        part = needed(before, title)
        found += [
            Problem(f"{PATH}:{line}", f"its home does not have it: {text}", _AGAIN, "warning")
            for text, line in old.items()
            if text not in new
        ]
        found += [
            Problem(f"{PATH}:{part.line}", f"`{title}` lacks: {text}", _AGAIN, "warning")
            for text in new
            if text not in old
        ]
    return found
