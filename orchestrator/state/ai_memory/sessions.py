"""ai_memory/session_history/session_DAY_NNN.md: what each session of a lead has done, as it goes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from orchestrator.errors import StateError
from orchestrator.state.ai_memory.session_entries import NOTE, PLAN_UPDATED
from orchestrator.state.ai_memory.session_read import (
    CHANGELOG,
    COMPLETED,
    FOLDER,
    FOR_NEXT,
    KEYS,
    OF_RUNTIME,
    OPEN,
    SUMMARY,
    Session,
    id_of,
    moment,
    newest_part,
    read,
)
from orchestrator.state.document import damage, editable, inert, needed, opened, section_like, state_errors
from orchestrator.state.events import Event, SessionEntered, SessionLine, SessionRetired, SessionStarted
from orchestrator.state.facts import Facts, second
from tickets.markdown import (
    Document,
    add_items,
    add_section,
    front_problems,
    front_value,
    insert_front,
    one_line,
    plain,
    set_front,
    set_section,
)
from tickets.problems import Problem

OWNS: tuple[str, ...] = (f"{FOLDER}/*.md",)

NOTHING = "Nothing was recorded yet."
"""The runtime's summary of a session that has only begun."""
TEXT = 300
"""Characters of one text of an entry."""
LONGEST_SUMMARY = 600
"""Characters of a summary: one to three sentences."""
YOUNG = timedelta(minutes=10)
"""The age of an entry that changes of the plan still join."""


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the file of the session that the event names."""
    del tree
    return (event.path,) if isinstance(event, SessionStarted | SessionEntered | SessionRetired) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes | None]:
    """Return the session's file as the event makes it; None where it retires. Raises StateError."""
    if isinstance(event, SessionRetired):
        return {event.path: None} if tree.get(event.path) is not None else {}
    if isinstance(event, SessionStarted):
        if tree.get(event.path) is not None:
            raise StateError(Problem(event.path, "there is a session of this name", "start another one"))
        return {event.path: _begun(event)}
    if isinstance(event, SessionEntered):
        new = _entered(event, tree)
        return {} if new == tree.get(event.path) else {event.path: new}
    return {}


def problems(text: bytes) -> list[Problem]:
    """Return the problems of a session, graded."""
    document = opened(OWNS[0], text)
    with state_errors():
        found = list(front_problems(document))
        if not found:
            found += _of_keys(document)
        for title in (SUMMARY, CHANGELOG, FOR_NEXT):
            if section_like(document, title) is None:
                do = f"add `## {title}`"
                what = f"section `{title}` is missing, or there twice"
                found.append(Problem(f"{document.place}:1", what, do, "warning"))
    return [*found, *damage(OWNS[0], text)]


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: the first change of a lead begins it."""
    return text


def _of_keys(document: Document) -> list[Problem]:
    line = f"{document.place}:1"
    found = [
        Problem(line, f"front matter has no `{key}`", "add it", "warning")
        for key in KEYS
        if front_value(document, key) is None
    ]
    status = front_value(document, "status")
    if status is not None and status not in (OPEN, COMPLETED):
        what = f"`status: {one_line(status)}` is neither {OPEN} nor {COMPLETED}"
        found.append(Problem(line, what, "write one of them", "warning"))
    for key in KEYS[:2]:
        value = front_value(document, key)
        if value is not None and moment(value) is None:
            found.append(Problem(line, f"`{key}: {one_line(value)}` is no time", "write it as ISO 8601"))
    return found


# Writing


def _begun(event: SessionStarted) -> bytes:
    at = second(event.at.astimezone(UTC))
    values = (at, at, event.task_id, OPEN, "0", "0")
    front = "".join(f"{key}: {value}\n" for key, value in zip(KEYS, values, strict=True))
    where = f"on {code(event.branch)}" if event.branch else "on no branch"
    commit = f" at {code(event.commit)}" if event.commit else ""
    return (
        f"---\n{front}---\n\n# Session {id_of(event.path)}\n\n"
        f"## {SUMMARY}\n\n{NOTHING}{OF_RUNTIME}\n\n"
        f"## {CHANGELOG}\n\n### {at[11:16]} — Session started\n"
        f"- **Note**: led by {inert(cut(event.lead, TEXT))}, {where}{commit}\n\n"
        f"## {FOR_NEXT}\n\nnone\n"
    ).encode()


def _entered(event: SessionEntered, tree: Mapping[str, bytes | None]) -> bytes:
    document = editable(event.path, tree)
    before = read(event.path, document.data)
    with state_errors():
        if event.once and _has(before, event):
            return document.data
        document = _with_lines(document, list(map(_line, event.before)))
        document = _with_entry(document, event, before)
        document = _with_summary(document, event)
        if event.for_next:
            document = _with_note(document, event.for_next)
        return _with_values(document, _values(event, before, document)).data


def _has(session: Session, event: SessionEntered) -> bool:
    """Return whether an entry is there already, as after a crash; commits may be told elsewhere by now."""

    def told(lines: Sequence[str]) -> list[str]:
        return [line for line in lines if not line.startswith("Commit: ")]

    wanted = told([plain(_line(one)[2:]).replace("**", "", 2) for one in event.lines])
    title = plain(_title(event))
    return any(one.title == title and told(one.lines) == wanted for one in session.entries)


def _with_entry(document: Document, event: SessionEntered, before: Session) -> Document:
    at = event.at.astimezone(UTC)
    lines = list(map(_line, event.lines))
    newest = before.entries[-1] if before.entries else None
    if event.joins and newest and _is_young(newest.at, at, newest.title):
        return _with_lines(document, lines)
    began = moment(before.started)
    day = "" if began and began.date() == at.date() else f" ({at:%Y-%m-%d})"
    heading = f"### {at:%H:%M}{day} — {_title(event)}"
    return add_section(document, needed(document, CHANGELOG), "\n".join([heading, *lines]))


def _title(event: SessionEntered) -> str:
    return inert(cut(event.title, TEXT)) or NOTE


def _is_young(then: datetime, now: datetime, title: str) -> bool:
    # A heading has no seconds. Where the clock went back, the newest is young.
    return now - then < YOUNG or (title == PLAN_UPDATED and now < then)


def _with_lines(document: Document, lines: Sequence[str]) -> Document:
    """Add lines to the newest entry."""
    newest = newest_part(document)
    if not lines or newest is None:
        return document
    return add_items(document, newest, list(lines))


def _with_summary(document: Document, event: SessionEntered) -> Document:
    if not (event.said or event.headline):
        return document
    part = needed(document, SUMMARY)
    if event.said:
        return set_section(document, part, one_line(cut(event.said, LONGEST_SUMMARY)))
    text = document.text(part.body, part.content_end).strip()
    if text and (not text.endswith(OF_RUNTIME.strip()) or "\n" in text):
        return document  # its author's
    return set_section(document, part, f"{inert(cut(event.headline, TEXT))}{OF_RUNTIME}")


def _with_note(document: Document, text: str) -> Document:
    part = needed(document, FOR_NEXT)
    line = f"- {inert(cut(text, TEXT))}"
    is_empty = document.text(part.body, part.content_end).strip() in ("", "none", "none.")
    return set_section(document, part, line) if is_empty else add_items(document, part, [line])


def _values(event: SessionEntered, before: Session, after: Document) -> dict[str, str]:
    at = event.at.astimezone(UTC)
    was = before.touched
    changed = read(event.path, after.data)
    files = len(changed.paths_listed) if event.files_changed is None else event.files_changed
    commits = len(changed.commits_listed) if event.commits is None else event.commits
    values = {"files_changed": str(files), "commits": str(commits)}
    # It never goes back, though the clock may.
    if not event.is_late and (was is None or was < at):
        values["last_updated"] = second(at)
    if event.closes:
        values["status"] = COMPLETED
    return {key: values[key] for key in KEYS if key in values}


def _with_values(document: Document, values: Mapping[str, str]) -> Document:
    for key, value in values.items():
        had = front_value(document, key)
        if had is None:
            document = insert_front(document, "status", key, value)
        elif had != value:
            document = set_front(document, key, value=value)
    return document


def _line(line: SessionLine) -> str:
    text = inert(cut(line.text, TEXT))
    subject = f"{code(line.subject)} — " if line.subject else ""
    resolved = f" → **Resolution**: {inert(cut(line.resolution, TEXT))}" if line.resolution else ""
    return f"- **{line.mark}**: {subject}{text}{resolved}"


def code(text: str) -> str:
    """Return a name as code; one that holds a mark of code stands as text."""
    line = plain(one_line(text)) if "`" not in text else ""
    return f"`{line}`" if line else inert(text)


def cut(text: str, most: int) -> str:
    """Return a text of others as one plain line of at most so many characters."""
    line = plain(one_line(text))
    return line if len(line) <= most else f"{line[: most - 1]}…"
