"""A checkpoint as it reads: its seven keys and its notes, also where somebody else has written them."""

import re

from orchestrator.state.checkpoints.form import KEYS, Checkpoint, ProgressNote, status_of
from orchestrator.state.document import opened, section_like, state_errors
from tickets.markdown import Document, Item, Part, front_problems, front_value, items, plain

NOTES = "Progress Notes"
_NEEDED = ("feature", "agent", "status")
_NOTE = re.compile(r"\[(?P<at>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d)\]\s+")


def is_checkpoint(document: Document) -> bool:
    """Return whether a file of docs/progress/ is a checkpoint: any other is its author's."""
    return all(front_value(document, key) is not None for key in _NEEDED)


def read(path: str, text: bytes) -> Checkpoint | None:
    """Read a checkpoint; None for another file. Raises StateError where it is empty or not UTF-8."""
    document = opened(path, text)
    with state_errors():
        if not is_checkpoint(document):
            return None
        feature, team, agent, phase, said, last_action, updated = (
            front_value(document, key) or "" for key in KEYS
        )
        part = section_like(document, NOTES)
        notes = tuple(map(_note, own_items(document, part))) if part else ()
    status = status_of(said)
    spelled = "" if said == status else said
    return Checkpoint(path, feature, team, agent, phase, status, last_action, updated, notes, spelled)


def own_items(document: Document, part: Part) -> list[Item]:
    """Return the items of the first depth of a section."""
    return [item for item in items(document, part) if item.depth == 0]


def has_faults(document: Document) -> bool:
    """Return whether the front matter is no sound YAML: its keys cannot be told."""
    return bool(front_problems(document))


def _note(item: Item) -> ProgressNote:
    text = plain(item.text)
    found = _NOTE.match(text)
    return ProgressNote(found["at"], text[found.end() :]) if found else ProgressNote("", text)
