"""docs/progress/FEATURE-AGENT.md: how far an agent has come with a feature, and its progress notes."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice

from orchestrator.errors import StateError
from orchestrator.state.checkpoints.form import KEYS, STAGES, Checkpoint, front_matter, own_form
from orchestrator.state.checkpoints.names import paths_of, same_pair, slug
from orchestrator.state.checkpoints.read import NOTES, has_faults, is_checkpoint, own_items, read
from orchestrator.state.document import (
    damage,
    doubled,
    editable,
    needed,
    opened,
    parsed,
    section_like,
    state_errors,
)
from orchestrator.state.events import CheckpointWritten, Event
from orchestrator.state.facts import Facts
from tickets.markdown import (
    Document,
    add_items,
    append_section,
    front_problems,
    front_value,
    insert_front,
    one_line,
    plain,
    remove_items,
    set_front,
    set_item,
)
from tickets.problems import Problem, ProblemError

OWNS: tuple[str, ...] = ("docs/progress/*.md",)

LAST_ACTION = 200
"""Characters of the last action."""
NOTE = 300
"""Characters of a note."""
MOST_NOTES = 100
MOST_NAMES = 100
"""Names that are tried: all of them may be taken, or lie behind a link that leads elsewhere."""
_EARLIER = re.compile(r"\((\d+) earlier notes? (?:is|are) in git\)$")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_FIRST_STAGE = "implementation"


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the names that were tried for the checkpoint; the last one is the chosen one."""
    return _tried(tree, event) if isinstance(event, CheckpointWritten) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the checkpoint with what the event says. Raises StateError where it cannot be edited."""
    if not isinstance(event, CheckpointWritten):
        return {}
    tried = _tried(tree, event)
    if not tried:
        return {}  # a run finds no place for it
    path = tried[-1]
    text = tree.get(path)
    if text is None and not event.begins:
        return {}
    new = _begun(event) if text is None else _edited(path, text, event)
    return {} if new == text else {path: new}


def problems(text: bytes) -> list[Problem]:
    """Return the problems of a checkpoint, graded; those of another file are its author's."""
    document = opened(OWNS[0], text)
    with state_errors():
        if not is_checkpoint(document):
            return []
        found = [*front_problems(document), *filter(None, [doubled(document, NOTES)])]
        line = f"{document.place}:1"
        lacking = [key for key in KEYS if front_value(document, key) is None]
        do = "the next checkpoint adds it"
        found += [Problem(line, f"front matter has no `{key}`", do, "warning") for key in lacking]
        stage = front_value(document, "phase")
        if stage is not None and stage not in STAGES:
            what = f"`phase: {one_line(stage)}` is none of {', '.join(STAGES)}"
            found.append(Problem(line, what, "the next checkpoint writes one", "warning"))
        checkpoint = read(OWNS[0], text)
    if checkpoint and checkpoint.spelled:
        what = f"`status: {one_line(checkpoint.spelled)}` is read as {checkpoint.status}"
        found.append(Problem(line, what, "the next checkpoint writes the right word", "warning"))
    return [*found, *damage(OWNS[0], text)]


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: the first stage of an agent's work begins it."""
    return text


def _tried(tree: Mapping[str, bytes | None], event: CheckpointWritten) -> tuple[str, ...]:
    """Return the names up to the first that is free or holds the pair; a run passes over what it cannot edit.

    None where a run cannot use any. Raises ProblemError where a lead's file cannot be read or edited.
    """
    tried: list[str] = []
    for path in islice(paths_of(event.feature, event.agent), MOST_NAMES):
        try:
            text = tree.get(path)
        except ProblemError:  # a folder, a pipe, a link that leads elsewhere
            if not event.is_run:
                raise
            continue
        tried.append(path)
        if text is None or _takes(path, text, event):
            return tuple(tried)
    if event.is_run:
        return ()
    raise StateError(Problem(tried[0], "none of its names is free", "move the other files away"))


def _takes(path: str, text: bytes, event: CheckpointWritten) -> bool:
    """Return whether a file is the pair's and can be edited. Raises StateError for the lead's command."""
    try:
        return _is_of(path, text, (event.feature, event.agent)) and bool(_edited(path, text, event))
    except StateError:
        if not event.is_run:
            raise
        return False


def _is_of(path: str, text: bytes, pair: tuple[str, str]) -> bool:
    """Return whether a file is the checkpoint of a pair. Raises StateError where it cannot be edited."""
    document = opened(path, text)
    if has_faults(document):
        raise StateError(*front_problems(document))
    with state_errors():
        if not is_checkpoint(document):
            return False
        found = (front_value(document, "feature") or "", front_value(document, "agent") or "")
    if not same_pair(found, pair):
        return False
    if harm := damage(path, text):
        raise StateError(*harm)
    return True


def _values(event: CheckpointWritten, before: Checkpoint | None) -> dict[str, str]:
    """Return what the keys of a checkpoint are to say: what the event leaves open stays."""
    was = _moment(before.updated) if before else None
    return {
        "feature": before.feature if before else slug(event.feature),
        "team": _text(event.team, LAST_ACTION) or (before.team if before else ""),
        "agent": before.agent if before else _text(event.agent, LAST_ACTION),
        "phase": event.stage or (before.phase if before and before.phase in STAGES else _FIRST_STAGE),
        "status": event.status,
        "last_action": _text(event.action, LAST_ACTION),
        # It never goes back, though the clock may.
        "updated": before.updated
        if before and was and was > event.at
        else f"{event.at.astimezone(UTC):{_TIME}}",
    }


def _begun(event: CheckpointWritten) -> bytes:
    lines = _lines(event, f"{event.at.astimezone(UTC):%H:%M}")
    body = "".join(f"{line}\n" for line in lines)
    return f"{front_matter(_values(event, None))}\n## {NOTES}\n\n{body}".encode()


@lru_cache(maxsize=4)
def _edited(path: str, text: bytes, event: CheckpointWritten) -> bytes:
    document = editable(path, {path: text})
    before = read(path, text)
    if before is None:
        raise StateError(Problem(path, "it is no checkpoint", "give it the keys of one"))
    values = _values(event, before)
    at = event.at.astimezone(UTC)
    was = _moment(before.updated)
    is_known = event.is_run or was == at.replace(microsecond=0)
    if is_known and all(values[key] == getattr(before, key) for key in KEYS if key != "updated"):
        return document.data  # recorded again, after a crash
    is_other_day = was is not None and was.date() != at.date()
    lines = _lines(event, f"{at:%Y-%m-%d %H:%M}" if is_other_day else f"{at:%H:%M}")
    with state_errors():
        return _with_notes(_with_values(document, values), lines).data


def _with_values(document: Document, values: Mapping[str, str]) -> Document:
    """Set each key in its place; a missing one stands below the one before it."""
    if found := own_form(document.data):
        return parsed(front_matter(values).encode() + document.data[found.end() :], document.place)
    after = None
    for key, value in values.items():
        if front_value(document, key) is None:
            document = insert_front(document, after, key, value)
        elif front_value(document, key) != value:
            document = set_front(document, key, value=value)
        after = key
    return document


def _with_notes(document: Document, lines: Sequence[str]) -> Document:
    """Append notes to their list, whose oldest ones go where it has become too long."""
    part = section_like(document, NOTES)
    if part is None:
        if found := doubled(document, NOTES):
            raise StateError(found)
        return append_section(document, f"## {NOTES}\n\n" + "\n".join(lines))
    document = add_items(document, part, lines)
    own = own_items(document, needed(document, NOTES))
    head = _EARLIER.match(plain(own[0].text)) if own else None
    notes = own[1:] if head else own
    if len(notes) <= MOST_NOTES:
        return document
    surplus = notes[: len(notes) - MOST_NOTES]
    gone = len(surplus) + (int(head[1]) if head else 0)
    # The line about those that went takes the place of the first of them.
    document = remove_items(document, surplus if head else surplus[1:])
    return set_item(
        document, own_items(document, needed(document, NOTES))[0], f"({gone} earlier notes are in git)"
    )


def _lines(event: CheckpointWritten, time: str) -> list[str]:
    return [f"- [{time}] {one_line(_text(text, NOTE))}" for text in (event.action, *event.notes)]


def _text(text: str, most: int) -> str:
    """Return a text of others as one plain line of at most so many characters."""
    line = plain(one_line(text))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _moment(text: str) -> datetime | None:
    """Read a time in any offset, or a bare date; None where it is neither."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
