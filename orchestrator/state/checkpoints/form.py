"""A checkpoint in the form that we write it, read without a parser: there may be thousands."""

import re
from collections.abc import Mapping
from typing import get_args

from orchestrator.state.events import Stage, Standing
from tickets.value import Value

KEYS = ("feature", "team", "agent", "phase", "status", "last_action", "updated")
"""In the order in which they are written."""
STAGES: tuple[Stage, ...] = get_args(Stage)
STANDINGS: tuple[Standing, ...] = get_args(Standing)
_UNDERSTOOD: Mapping[str, Standing] = {
    "in-progress": "in_progress",
    "completed": "complete",
    "done": "complete",
}

_QUOTED = rb'"((?:[^"\\\r\n]|\\["\\]|\\U00(?:00(?!d[89a-f])|0[1-9a-f]|10)[0-9a-f]{4})*)"'
_OWN_FORM = re.compile(
    rb"---\n" + b"".join(key.encode() + b": " + _QUOTED + b"\n" for key in KEYS) + rb"---\n"
)
_ESCAPES = re.compile(r"\\(?:U([0-9a-f]{8})|(.))")
_NOT_PRINTED = re.compile(
    "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
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


def read_own_form(path: str, text: bytes) -> Checkpoint | None:
    """Read a checkpoint without its notes; None where its front matter is not as we write it."""
    found = own_form(text) if _is_utf8(text) else None
    if found is None:
        return None
    feature, team, agent, phase, said, last_action, updated = map(_unquoted, found.groups())
    status = status_of(said)
    spelled = "" if said == status else said
    return Checkpoint(path, feature, team, agent, phase, status, last_action, updated, spelled=spelled)


def status_of(word: str) -> Standing:
    """Return the status that a word means; whatever is not known is not complete, and waits for somebody."""
    known: dict[str, Standing] = {one: one for one in STANDINGS}
    return known.get(word) or _UNDERSTOOD.get(word.strip().lower(), "blocked")
