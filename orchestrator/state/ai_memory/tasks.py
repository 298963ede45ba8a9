"""The id of a task, as sessions name it."""

import re
from collections.abc import Mapping

ACTIVE = "ai_memory/active_context.md"
_ID = r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d{3,}"
_KEY = re.compile(rf"(?im)^[ \t]*(?:[-*+][ \t]+)?\**task_id\**:\**[ \t]*`?(?-i:(?P<id>{_ID}))`?[ \t]*\r?$")


def is_task_id(text: str) -> bool:
    """Return whether a text is the id of a task: `PARSER-001`."""
    return re.fullmatch(_ID, text) is not None


def current_task(tree: Mapping[str, bytes | None]) -> str:
    """Return the id of the current task, the first of the active context; empty where there is none."""
    found = _KEY.search((tree.get(ACTIVE) or b"").decode("utf-8", "replace"))
    return found["id"] if found else ""
