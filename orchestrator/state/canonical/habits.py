"""Habits that lose knowledge: why a new lead could not take over although every file can be read."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from orchestrator.errors import StateError
from orchestrator.state.canonical.decisions import read as decision_reading
from orchestrator.state.canonical.status import read as status_reading
from orchestrator.state.canonical.status.read import Status
from orchestrator.state.document import opened, section_like
from tickets.markdown import Document, items, key_of, plain, sections
from tickets.problems import Problem

STALE = timedelta(days=7)
_LABEL = re.compile(
    r"^[ \t>]*(?:[*+-][ \t]+)?(?:#+[ \t]+(?P<heading>[A-Z][\w ]*?)[ \t]*:?(?=[ \t]*$)"
    r"|(?:\*\*|__)(?P<bold>[A-Z][\w ]*?)[ \t]*(?::(?:\*\*|__)|(?:\*\*|__)[ \t]*:)"
    r"|(?P<word>Context|Decision)[ \t]*:)[ \t]*(?P<said>.*)$",
    re.MULTILINE,
)
_VAGUE = frozenset((
    "", "tbd", "todo", "wip", "work", "misc", "miscellaneous", "various", "stuff", "things", "none", "n/a",
    "deliverable", "task", "next", "fixes", "improvements", "development", "implementation",
))  # fmt: skip
_STATUS, _LOG = status_reading.PATH, decision_reading.PATH


def anti_patterns(
    texts: Mapping[str, bytes], uncommitted: Collection[str], last_commit: datetime | None
) -> list[Problem]:
    """Return the habits that the canonical files show, as warnings. An unreadable file shows none.

    `last_commit` is when anything was last committed, in UTC.
    """
    found = [
        Problem(
            path, "has changes that are not committed", "commit it: what is not committed is lost", "warning"
        )
        for path in sorted(texts)
        if path in uncommitted
    ]
    log = _read_log(texts.get(_LOG))
    if log is not None:
        found += _incomplete(log)
    try:
        text = texts.get(_STATUS)
        document = None if text is None else opened(_STATUS, text)
    except StateError:
        document = None
    if document is None:
        return found
    status = status_reading.read(document.data)
    found += _stale(status, log, last_commit)
    found += [*_unclear_next(document, status), *_unordered(document), *_vague(document, status)]
    return [*found, *_thin(document, status)]


def _read_log(text: bytes | None) -> Document | None:
    try:
        return None if text is None else opened(_LOG, text)
    except StateError:
        return None


def _incomplete(log: Document) -> list[Problem]:
    found = []
    listed = decision_reading.spans(log.data)
    for entry, (title, body) in zip(decision_reading.read(log.data), listed, strict=True):
        said = _labels(body)
        # A form that was not filled in holds its instructions, in brackets.
        lacking = [name for name in ("Context", "Decision") if said.get(name, "[")[:1] in ("", "[")]
        if lacking:
            what = f"`{title}` does not state its {' and '.join(lacking).lower()}"
            found.append(Problem(f"{_LOG}:{entry.line}", what, "a decision needs both", "warning"))
    return found


def _labels(body: str) -> dict[str, str]:
    """Return the text behind or below each label of an entry, without the rules between entries."""
    found = list(_LABEL.finditer(body))
    ends = [*(match.start() for match in found), len(body)][1:]
    return {
        match["heading"] or match["bold"] or match["word"]: (match["said"] + body[match.end() : end]).strip(
            " \t\r\n-*_"
        )
        for match, end in zip(found, ends, strict=True)
    }


def _stale(status: Status, log: Document | None, last_commit: datetime | None) -> list[Problem]:
    try:
        updated = datetime.fromisoformat(status.last_updated).replace(tzinfo=UTC)
    except ValueError:
        return []  # said elsewhere
    newest = max((entry.date for entry in decision_reading.read(log.data)), default="") if log else ""
    why = ""
    if newest > f"{updated + STALE:%Y-%m-%d}":
        why = f"more than {STALE.days} days older than the newest decision ({newest})"
    elif last_commit is not None and last_commit - updated > STALE:
        why = f"{(last_commit - updated).days} days older than the newest commit"
    if not why:
        return []
    what = f"Last Updated ({status.last_updated}) is {why}"
    return [Problem(_STATUS, what, "bring the file up to date; the commands set the time", "warning")]


def _unclear_next(document: Document, status: Status) -> list[Problem]:
    todo = section_like(document, "TODO")
    if todo is None or all(phase.complete for phase in status.phases) or not status.phases:
        return []
    if any(not done for done, _ in status.todo["P0"]):
        return []
    what, do = (
        "no P0 item is open, so what comes next is unclear",
        "`orchestrate todo add TEXT --priority P0`",
    )
    return [Problem(f"{_STATUS}:{todo.line}", what, do, "warning")]


def _unordered(document: Document) -> list[Problem]:
    """Return the TODO items under no priority."""
    todo = section_like(document, "TODO")
    levels = [section_like(document, level, todo) for level in ("P0", "P1", "P2")] if todo else []
    known = {item.start for part in levels if part for item in items(document, part)}
    parts = [todo, *sections(document, todo)] if todo else []
    loose = [item for part in parts for item in items(document, part)
             if item.done is False and item.start not in known]  # fmt: skip
    do = "move it below P0, P1 or P2"
    return [
        Problem(f"{_STATUS}:{item.line}", f"`{plain(item.text)}` has no priority", do, "warning")
        for item in loose
    ]


def _vague(document: Document, status: Status) -> list[Problem]:
    part = section_like(document, "Current Deliverable")
    if part is None:
        return []
    made, do = status.deliverable, "`orchestrate deliverable start NAME`"
    what = ""
    if key_of(made.name) in _VAGUE or made.name.startswith("["):
        what = (
            f"the current deliverable `{made.name}` is a placeholder"
            if made.name
            else "no deliverable is named"
        )
    elif not made.status:
        what = "the current deliverable has no status"
    elif status.current and status.current.deliverables:
        names = {key_of(one.name) for one in status.current.deliverables}
        if key_of(made.name) not in names:
            what = f"the current deliverable `{made.name}` is none of {status.current.title}"
    return [Problem(f"{_STATUS}:{part.line}", what, do, "warning")] if what else []


def _thin(document: Document, status: Status) -> list[Problem]:
    """Return what a handoff lacks: deliverables and criteria of the phase, scopes, the tests' figure."""
    found = []
    current = status.current
    if current is not None and not current.complete:
        for name, there in (
            ("deliverables", current.deliverables),
            ("acceptance criteria", current.criteria),
        ):
            if not there:
                what = f"{current.title} has no {name}"
                found.append(
                    Problem(f"{_STATUS}:{current.line}", what, "list them, each with a checkbox", "warning")
                )
    for one in status.active:
        if not one.scope:
            place, what = f"{_STATUS}:{one.item.line}", f"{one.worker} is on the roster without a scope"
            found.append(Problem(place, what, "add `(Scope: …)`", "warning"))
    progress = section_like(document, "Progress")
    if progress is not None:
        keys = {key_of(key) for key, _ in status.progress}
        for key in ("Overall", "Current Phase", "Tests"):
            if key_of(key) not in keys:
                place, what = f"{_STATUS}:{progress.line}", f"Progress has no line `{key}`"
                found.append(Problem(place, what, f"add `**{key}:**`", "warning"))
    return found
