"""A checkpoint as it reads: its seven keys and its notes, also where somebody else has written them."""

import re
from collections.abc import Mapping
from typing import get_args

from orchestrator.state.document import opened, section_like, state_errors
from orchestrator.state.events import Stage, Standing
from tickets.markdown import Document, Item, Part, front_problems, front_value, items, plain
from tickets.value import Value

KEYS = ("feature", "team", "agent", "phase", "status", "last_action", "updated")
"""In the order in which they are written."""
NOTES = "Progress Notes"
STAGES: tuple[Stage, ...] = get_args(Stage)
STANDINGS: tuple[Standing, ...] = get_args(Standing)
_NEEDED = ("feature", "agent", "status")
_UNDERSTOOD: Mapping[str, Standing] = {
    "in-progress": "in_progress",
    "completed": "complete",
    "done": "complete",
}
_NOTE = re.compile(r"\[(?P<at>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d)\]\s+")


_QUOTED = rb'"((?:[^"\\\r\n]|\\["\\]|\\U00(?:00(?!d[89a-f])|0[1-9a-f]|10)[0-9a-f]{4})*)"'
_OWN_FORM = re.compile(
    rb"---\n" + b"".join(key.encode() + b": " + _QUOTED + b"\n" for key in KEYS) + rb"---\n"
)
_ESCAPES = re.compile(r"\\(?:U([0-9a-f]{8})|(.))")
_NOT_PRINTED = re.compile(
    "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def own_form(text: bytes) -> "re.Match[bytes] | None":
    """Match front matter as we write it: the seven keys in their order, in double quotes."""
    return _OWN_FORM.match(text)


def front_matter(values: Mapping[str, str]) -> str:
    """Return the front matter that says some values, as `own_form` matches it."""
    return "---\n" + "".join(f"{key}: {_quoted(values[key])}\n" for key in KEYS) + "---\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _NOT_PRINTED.sub(lambda found: f"\\U{ord(found[0]):08x}", escaped) + '"'


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unquoted(text: bytes) -> str:
    said = text.decode()
    return (
        _ESCAPES.sub(lambda one: chr(int(one[1], 16)) if one[1] else one[2], said) if "\\" in said else said
    )


class ProgressNote(Value):
    """One progress note."""

    at: str
    """`14:44`, of another day `2026-02-17 09:10`; empty where the note has no time."""
    text: str


class Checkpoint(Value):
    """How far one agent has come with one feature. A key that is missing reads as an empty text."""

    path: str
    feature: str
    team: str
    agent: str
    phase: str
    status: Standing
    last_action: str
    updated: str
    notes: tuple[ProgressNote, ...] = ()
    spelled: str = ""
    """The status as the file spells it, where that is none of ours."""


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


def glance(path: str, text: bytes) -> Checkpoint | None:
    """Read a checkpoint without its notes; in our own form without a parser, in a hundredth of its time.

    Raises StateError.
    """
    found = own_form(text) if _is_utf8(text) else None
    if found is None:
        whole = read(path, text)
        return whole and whole._replace(notes=())
    feature, team, agent, phase, said, last_action, updated = map(_unquoted, found.groups())
    status = status_of(said)
    spelled = "" if said == status else said
    return Checkpoint(path, feature, team, agent, phase, status, last_action, updated, spelled=spelled)


def status_of(word: str) -> Standing:
    """Return the status that a word means; whatever is not known is not complete, and waits for somebody."""
    known: dict[str, Standing] = {one: one for one in STANDINGS}
    return known.get(word) or _UNDERSTOOD.get(word.strip().lower(), "blocked")


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
