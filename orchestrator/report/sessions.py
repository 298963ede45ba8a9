"""The sessions of a project, as the summary and the active context show them."""

from typing import Any

from orchestrator.report.situation import Situation
from orchestrator.state.ai_memory.session_read import Session, path_of, read
from orchestrator.store.sessions import session_ids
from tickets.problems import ProblemError

NEWEST = 15
"""How many are read: older ones retire."""


def sessions_of(found: Situation) -> list[Session]:
    """Return the newest readable sessions, oldest first; `session list` names the others."""
    sessions: list[Session] = []
    for id_ in session_ids(found.repository.root)[-NEWEST:]:
        path = path_of(id_)
        text = found.text(path)
        try:
            sessions += [read(path, text)] if text else []
        except ProblemError:
            continue
    return sessions


def session_summary(found: Situation) -> dict[str, Any] | None:
    """Return the open session, else the newest, in the form of the documented output; None without any."""
    sessions = sessions_of(found)
    newest = next((one for one in reversed(sessions) if one.is_open), sessions[-1] if sessions else None)
    if newest is None:
        return None
    return {
        "id": newest.id, "status": newest.status, "summary": newest.summary, "notes": list(newest.notes),
    }  # fmt: skip
