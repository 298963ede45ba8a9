"""New words before they are committed: without paths of this machine, and without secrets."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from orchestrator.state.events import Event
from tickets.redact import Redactor
from tickets.value import Value

_WORDS = frozenset((
    "workers", "items", "decisions", "text", "reason", "impact", "mitigation", "tests", "condition", "about",
    "left_open", "title", "action", "notes", "task", "attempted", "needs", "answer", "body", "summary",
    "decision", "chat", "texts", "once", "lists", "blocked", "sets", "adds", "lines", "before", "headline",
    "said", "for_next", "goal", "where", "verified", "lessons", "sync", "switch",
))  # fmt: skip
"""The fields of events that hold new words. Others name what a file says already, and stay as they are."""

_REFERENCES: Mapping[str, frozenset[str]] = {
    "TodoDone": frozenset(("text",)), "TodoMoved": frozenset(("text",)),
    "CriterionMet": frozenset(("section", "text")), "CriterionAdded": frozenset(("section",)),
    "DeliverableChanged": frozenset(("phase", "name")), "DeliverableAdded": frozenset(("phase",)),
    "MilestoneReached": frozenset(("phase", "milestone")), "PhaseMoved": frozenset(("ended", "begun")),
    "EditsAcknowledged": frozenset(("edits",)), "PlanMoved": frozenset(("phase", "plan")),
    "TaskMoved": frozenset(("phase", "plan")), "BlockerRaised": frozenset(("phase", "plan")),
    "PhaseNoted": frozenset(("phase", "removed")), "ContextSynced": frozenset(("drops",)),
    "SessionStarted": frozenset(("path", "task_id")), "SessionEntered": frozenset(("path",)),
    "SessionRetired": frozenset(("path", "task_id")), "HandedOver": frozenset(("path",)),
}  # fmt: skip
"""The fields of events that name what a file says already: it would not be found in other words."""

_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - names that are looked for, and nothing is written there


def without_places(text: str, root: Path) -> str:
    """Replace the absolute paths of a text: relative to the worker's tree or the project, else to the home.

    A temporary path keeps its last name: `…/out.txt`.
    """
    if "/" not in text:
        return text
    trees, roots, homes, temporary = _patterns(root, os.environ.get("HOME", ""), os.environ.get("TMPDIR", ""))
    text = re.sub(trees, "", text)
    text = re.sub(roots, lambda found: "" if found[1] else ".", text)
    text = re.sub(temporary, r"…/\1", text)
    return re.sub(homes, "~", text) if homes else text


def in_event(event: Event, root: Path, redactor: Redactor) -> Event:
    """Return an event whose new words hold no absolute path of this machine, and no secret."""
    kind = type(event).__name__
    if kind not in ("TodoDone", "TodoMoved", "CriterionMet"):
        new = {name: _in_value(getattr(event, name), root) for name in event._fields if name in _WORDS}
        event = event._replace(**new)
    references = _REFERENCES.get(kind, frozenset())
    said = {name: getattr(event, name) for name in event._fields if name not in references}
    return event._replace(**redactor.value(said)[0])


def without_new_secrets(text: bytes, old: Iterable[bytes | None], redactor: Redactor) -> bytes:
    """Return a file's text without the secrets in those of its lines that no old text has."""
    if not redactor.secrets(text):
        return text
    known = {line for one in old if one for line in one.splitlines(keepends=True)}
    # Neighbours together: a key has many lines.
    parts = groupby(text.splitlines(keepends=True), key=known.__contains__)
    return b"".join(
        joined if is_known else redactor.output(joined)[0]
        for is_known, joined in ((is_known, b"".join(lines)) for is_known, lines in parts)
    )


def _in_value(value: Any, root: Path) -> Any:
    if isinstance(value, str):
        return without_places(value, root)
    if isinstance(value, Value):
        return value._replace(**{name: _in_value(getattr(value, name), root) for name in value._fields})
    return tuple(_in_value(one, root) for one in value) if isinstance(value, tuple) else value


@lru_cache(maxsize=4)
def _patterns(root: Path, home: str, temporary: str) -> tuple[str, str, str, str]:
    # Not in the middle of another path or of a URL; one without a host, as `file:///tmp/a`, is a path.
    before, after = r"(?<![\w./~-])(?:\w+://)?", r"(?=[^\w.-]|\.?$|\.\s)"
    roots = "|".join(re.escape(path) for path in _both(str(root)))
    trees = rf"{before}(?:{roots})/\.taskers/worktrees/[^/\s]+/[^/\s]+/"
    homes = "|".join(re.escape(path) for path in _both(home))
    temps = "|".join(re.escape(path) for path in {*_both(temporary), *_TEMPORARY})
    return (
        trees,
        rf"{before}(?:{roots})(/(?=[\w.])|{after})",
        rf"{before}(?:{homes}){after}" if homes else "",
        rf"{before}(?:{temps})/(?:[^/\s:'\"`]+/)*([^/\s:'\"`]+)",
    )


def _both(path: str) -> set[str]:
    """Return a folder as it is named and as it is; nothing for one that holds the whole system."""
    found = {path.rstrip("/"), os.path.realpath(path).rstrip("/")} if path else set()
    return {one for one in found if one.count("/") > 0 and len(one) > 1}
