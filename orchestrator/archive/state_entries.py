"""Old entries of the state files: moved to other files, and unchanged on the way."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from orchestrator.errors import StateError
from orchestrator.state import Tree
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.append_only import without_closing
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import Entry, dated_headings
from orchestrator.state.canonical.status import backlog, todo
from orchestrator.state.canonical.status.read import ARCHIVED, MISSED, Phase, read, refuse_doubts, slug
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.status import dated
from orchestrator.state.document import editable, inert, opened, refuse_open_fence, section_like, state_errors
from orchestrator.state.facts import day
from tickets.markdown import (
    Document,
    Heading,
    Item,
    Part,
    append_section,
    field,
    header,
    insert,
    items,
    one_line,
    parse,
    plain,
    remove_items,
    sections,
    set_field,
    set_section,
    trailer_start,
)
from tickets.problems import Problem

MOST = 100
"""How many decisions the log may hold before old ones are moved."""
KEPT = 50


class Moved(NamedTuple):
    """An entry that was moved out of a state file."""

    kind: str
    """`phase`, `decision` or `todo`."""
    what: str
    to: str


class Archived(NamedTuple):
    """New texts by path, and what was moved."""

    texts: dict[str, bytes]
    moved: tuple[Moved, ...]


def targets(texts: Tree) -> tuple[str, ...]:
    """List the files that may receive entries: `archived` needs their content."""
    document = opened(DECISIONS, texts[DECISIONS] or b"#")
    years = {_year_path(entry) for _, entry in dated_headings(document)}
    phases = {_phase_path(phase) for phase in read(texts[STATUS] or b"#").phases}
    return tuple(sorted(years | phases))


def archived(texts: Tree, at: datetime, old_todo: Collection[str] = ()) -> Archived:
    """Move completed phases, old decisions, done TODO items, and the open P2 items that `old_todo` names.

    Raises StateError where a file cannot be read, or would read differently afterwards.
    """
    made: dict[str, bytes] = {}
    moved: list[Moved] = []
    with state_errors():
        for step in (_phases, _decisions):
            done = step({**texts, **made}, at)
            made |= done.texts
            moved += done.moved
        done = _todo({**texts, **made}, at, old_todo)
        made |= done.texts
        moved += done.moved
        if STATUS in made:
            document = parse(made[STATUS], STATUS)
            made[STATUS] = dated(document, at).data
    return Archived(made, tuple(moved))


# Phases


def _phases(texts: Tree, at: datetime) -> Archived:
    document = editable(STATUS, texts)
    refuse_doubts(document.data)
    made: dict[str, bytes] = {}
    moved = []
    while (found := _finished(document)) is not None:
        phase, part = found
        path = _phase_path(phase)
        content = document.text(part.body, part.content_end).strip("\r\n")
        made[path] = _with_phase({**texts, **made}, path, phase, content, at)
        document = set_section(
            document, part, _shortened(phase, f"{_state_of(document, part)} ({ARCHIVED} {path})")
        )
        moved.append(Moved("phase", phase.title, path))
    return Archived({**made, STATUS: document.data} if moved else {}, tuple(moved))


def _finished(document: Document) -> tuple[Phase, Part] | None:
    """Return the completed phases with details in the plan, never the current one."""
    status = read(document.data)
    plan = section_like(document, "Phase Plan")
    parts = {part.line: part for part in sections(document, plan)} if plan else {}
    for phase in status.phases:
        part = parts[phase.line]
        if phase.complete and phase != status.current and ARCHIVED not in phase.status:
            return phase, part
    return None


def _shortened(phase: Phase, state: str) -> str:
    """Return the lines that stay of a phase in the plan."""
    word = " (COMPLETE)" if phase.reached else "" if phase.achieved else f" {MISSED}"
    milestone = [f"**Milestone:** {inert(phase.milestone)}{word}"] if phase.milestone else []
    return "\n".join([f"**Status:** {state}", *milestone])


def _state_of(document: Document, part: Part) -> str:
    found = field(document, part, "Status")
    return found.value.strip() if found else "COMPLETE"


def _with_phase(texts: Tree, path: str, phase: Phase, content: str, at: datetime) -> bytes:
    old = _held(texts, path)
    title = one_line(phase.title)
    if old is None or not old.strip():
        return f"# {title}\n\n**Archived:** {day(at)}, from STATUS.md\n\n---\n\n{content}\n".encode()
    return append_section(opened(path, old), f"## {title} (archived {day(at)})\n\n{content}").data


def _phase_path(phase: Phase) -> str:
    return f"docs/history/{slug(phase.title) or 'phase'}.md"


# Decisions


def _decisions(texts: Tree, at: datetime) -> Archived:
    del at
    document = editable(DECISIONS, texts)
    refuse_open_fence(document)
    entries = list(dated_headings(document))
    if len(entries) <= MOST:
        return Archived({}, ())
    # Commands ask for the newest answer at a gate: in an archive they would not find it.
    binding = {answer.line for answer in gates.answers(document.data).values()}
    # Of one day the upper one is the newer, unless the log begins with its oldest.
    is_oldest_first = entries[0][1].date < entries[-1][1].date
    newest_first = entries[::-1] if is_oldest_first else entries
    newest_first.sort(key=lambda one: one[1].date, reverse=True)
    leaving = [(heading, entry) for heading, entry in newest_first[KEPT:] if entry.line not in binding]
    ends = _ends(document, [heading for heading, _ in entries])
    by_path: dict[str, list[str]] = {}
    moved = []
    for heading, entry in leaving:
        text = document.text(heading.start, ends[heading.start]).replace("\r\n", "\n")
        text = without_closing(text)
        by_path.setdefault(_year_path(entry), []).append(text)
        moved.append(Moved("decision", f"{entry.date}: {plain(entry.title)}", _year_path(entry)))
    made = {path: _with_entries(texts, path, found, document) for path, found in by_path.items()}
    shorter = _without(document, sorted((heading.start, ends[heading.start]) for heading, _ in leaving))
    made[DECISIONS] = _linked(shorter, list(by_path)).data
    return Archived(made, tuple(moved))


def _ends(document: Document, starts: Sequence[Heading]) -> dict[int, int]:
    """Return where each entry ends: at the next one, at a heading above its level, at the end of the file.

    An undated heading of its own level belongs to it.
    """
    trailer = trailer_start(document)
    last = len(document.data) if trailer is None else trailer
    found: dict[int, int] = {}
    dated_at, end = {heading.start for heading in starts}, last
    for heading in reversed(document.headings):
        if heading.start in dated_at:
            found[heading.start] = max(end, heading.end)
        if heading.start in dated_at or heading.level < starts[0].level:
            end = heading.start
    return found


def _without(document: Document, gone: Sequence[tuple[int, int]]) -> Document:
    data = document.data
    for start, end in reversed(gone):
        data = data[:start] + data[end:]
    after = parse(data, DECISIONS)
    kept = [one for one in document.headings if not any(start <= one.start < end for start, end in gone)]
    titles = [heading.title for heading in after.headings]
    for number, heading in enumerate(kept):
        if titles[number : number + 1] != [heading.title]:
            raise _told_apart(heading.line)
    if len(titles) > len(kept):
        raise _told_apart(document.line_at(gone[0][0]))
    return after


def _told_apart(line: int) -> StateError:
    what = "old entries cannot be told apart from the text around them"
    return StateError(Problem(f"{DECISIONS}:{line}", what, "fix it by hand"))


def _with_entries(texts: Tree, path: str, entries: list[str], log: Document) -> bytes:
    old = _held(texts, path)
    if old is not None and old.strip():
        document = opened(path, old)
        newest = next((heading for heading, _ in dated_headings(document)), None)
        above = "".join(f"{entry}\n\n---\n\n" for entry in entries)
        if newest is None:
            return append_section(document, "\n\n---\n\n".join(entries)).data
        return insert(document, newest.start, above.replace("\r\n", "\n")).data
    year = path.rpartition("/")[2].removesuffix(".md")
    head = f"# Architectural Decision Log: {year}\n\n**Moved From:** DECISIONS.md"
    parts = [head, *(entry.replace("\r\n", "\n") for entry in entries), "**Decision Log End**"]
    return ("\n\n---\n\n".join(parts) + "\n").encode().replace(b"\n", log.newline)


def _linked(document: Document, paths: list[str]) -> Document:
    top = header(document)
    said = field(document, top, "Archives")
    links = [
        f"[{path.rpartition('/')[2].removesuffix('.md')}]({path})" for path in sorted(paths, reverse=True)
    ]
    if said is not None:
        new = [link for link in links if link not in said.value]
        return set_field(document, top, "Archives", ", ".join([*new, said.value.strip()]))
    started = field(document, top, "Started")
    at = started.line_after if started else top.own_content_end
    return insert(document, at, f"**Archives:** {', '.join(links)}")


def _year_path(entry: Entry) -> str:
    return f"docs/decisions/{entry.date[:4]}.md"


# The list of what is to be done


def _todo(texts: Tree, at: datetime, old: Collection[str]) -> Archived:
    document = editable(STATUS, texts)
    gone: list[Item] = [*todo.prunable(document, 0), *_put_off(document, old)]
    if not gone:
        return Archived({}, ())
    listed = todo.off_list(document, gone)
    lines = backlog.lines_of(listed, at)
    texts = {**texts, backlog.PATH: texts.get(backlog.PATH)}
    made = {backlog.PATH: backlog.with_lines(texts, lines), STATUS: remove_items(document, gone).data}
    return Archived(made, tuple(Moved("todo", one.text, backlog.PATH) for one in listed))


def _put_off(document: Document, old: Collection[str]) -> list[Item]:
    part = section_like(document, "TODO")
    level = section_like(document, "P2", part) if part else None
    inside = items(document, level) if level else ()
    return [item for item in inside if item.done is False and item.depth == 0 and plain(item.text) in old]


def _held(texts: Tree, path: str) -> bytes | None:
    if path not in texts:
        # It was not read under the lock, so writing it could lose what it holds.
        problem = Problem(path, "the state files changed while it was decided what moves", "do it again")
        raise StateError(problem)
    return texts[path]
