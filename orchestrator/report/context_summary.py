"""The active context as `resume` answers it: what a lead with an empty context needs of it."""

from datetime import datetime
from typing import Any

from orchestrator.report.situation import Situation
from orchestrator.state.ai_memory.context import copies_behind, is_empty, tokens_of
from orchestrator.state.ai_memory.context_diff import edits_between
from orchestrator.state.ai_memory.context_read import PATH, Context, read
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.status.read import PATH as STATUS
from tickets.problems import ProblemError

FAMILY = "ai_memory"
OLD = 7
"""Days after which a context that was not synchronized is named."""
_GUARDRAILS = (
    "invariants",
    "scope_guardrails",
    "risk_hotspots",
    "temporary_allowances",
    "definition_of_done",
)


def context_of(found: Situation) -> dict[str, Any] | None:
    """Return the context in the form of the documented output; None where there is none to show."""
    text = found.text(PATH) if FAMILY in found.families else None
    if is_empty(text) or text is None:
        return None
    try:
        context = read(text)
    except ProblemError:
        return None  # `stale_context` names it
    return {
        "path": PATH,
        "task_id": context.text("task_id"),
        "goal": context.text("goal"),
        "current_focus": context.text("current_focus"),
        "next": _texts(context, "next"),
        "blockers": _texts(context, "Open Questions / Blockers"),
        "guardrails": [line for name in _GUARDRAILS for line in _texts(context, name)],
        "behind": behind(found, text),
        "tokens": tokens_of(text),
    }


def stale_context(found: Situation) -> tuple[str, str] | None:
    """Return what is not true of the context any more, and what mends it; None where the family is off."""
    if FAMILY not in found.families:
        return None
    sync = "`orchestrate context sync`"
    if unread := found.unread(PATH):
        return f"{PATH} cannot be read: {unread[0].what}", unread[0].do
    text = found.text(PATH)
    if text is None or is_empty(text):
        return f"{PATH} is {'missing' if text is None else 'empty'}", sync
    try:
        context = read(text)
    except ProblemError as error:
        return str(error.problems[0]), error.problems[0].do
    if names := behind(found, text):
        return f"{PATH} is behind: {', '.join(names)}", sync
    days = _days_since(context.text("last_updated"), found.at)
    return (f"{PATH} was last updated {days} days ago", sync) if days >= OLD else None


def behind(found: Situation, text: bytes) -> list[str]:
    """Return the keys whose copies differ from their homes."""
    tree = {PATH: text, STATUS: found.text(STATUS), DECISIONS: found.text(DECISIONS)}
    try:
        edits = edits_between(text, copies_behind(tree))
    except ProblemError:
        return []  # a home that cannot be read is a problem of its own
    return list(dict.fromkeys(one.key or one.section for one in edits))


def _texts(context: Context, name: str) -> list[str]:
    return [one.text for one in context.list(name)]


def _days_since(said: str, now: datetime) -> int:
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        return 0  # `context check` names it
    return (now.date() - at.date()).days
