"""Paths of this machine in words that are committed: relative ones stand for them."""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrator.state.events import Event
from tickets.value import Value

_WORDS = frozenset((
    "workers", "items", "decisions", "text", "reason", "impact", "mitigation", "tests", "condition", "about",
    "left_open",
))  # fmt: skip
"""The fields of events that hold new words. Others name what a file says already, and stay as they are."""

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


def in_event(event: Event, root: Path) -> Event:
    """Return an event whose new words hold no absolute path of this machine."""
    if type(event).__name__ in ("TodoDone", "TodoMoved", "CriterionMet"):
        return event
    new = {name: _in_value(getattr(event, name), root) for name in event._fields if name in _WORDS}
    return event._replace(**new)


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
