"""The answer of a hook where something may be new for its worker."""

import json
import signal
from collections.abc import Callable
from typing import Any

from workers.messages.delivery import MOST, Reading, delivery, plans_in_progress
from workers.messages.own_log import OwnLog
from workers.messages.record import participant_of

LIMIT = 2.0
"""Seconds that it takes at most, of which one may be spent at the log's lock."""
_PATIENCE = 1.0
_MOST_AFTER = {"claude": 9_500}
"""Bytes of a text after a tool call; of one that has 10,000 characters claude shows only the beginning."""
_AGAIN = "Then end with your whole final answer once more: only the last one counts."


def tell(give: Callable[[bytes], None], way: str, agent: str, log: str, given: bytes) -> bool:
    """Return whether the worker knows all that is new, once `give` has had it and it is acknowledged.

    Raises TimeoutError, NotSentError.
    """
    signal.signal(signal.SIGALRM, _time_out)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    folder, _, name = log.rpartition("/")
    worker = participant_of(name) or ""
    said = _parsed(given)
    if said.get("agent_id"):
        return False  # a helper of the agent's calls a tool, and what it is told the agent never sees
    most = _MOST_AFTER.get(agent, MOST) if way == "after" else MOST
    reading = Reading(folder, worker)
    with delivery(OwnLog(log, worker), reading, patience=_PATIENCE, most=most) as news:
        parts = [news.text] if news.text else []
        if way == "stop" and said.get("stop_hook_active") is not True:
            parts += _open_plans(plans_in_progress(reading.book, worker))
        if parts:
            give(json.dumps(_answer(way, said, parts)).encode() + b"\n")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return news.left == 0


def _answer(way: str, said: dict[str, Any], parts: list[str]) -> dict[str, Any]:
    if way == "stop":
        return {"decision": "block", "reason": "\n\n".join([*parts, _AGAIN])}
    # An event has another name in each CLI, and in claude one more for a call that failed.
    event = {"hookEventName": said.get("hook_event_name"), "additionalContext": "\n\n".join(parts)}
    return {"hookSpecificOutput": event}


def _open_plans(plans: list[str]) -> list[str]:
    if not plans:
        return []
    named = ", ".join(plans)
    return [f"Still in progress: {named}. Call plan_complete or plan_failed for each before you end."]


def _parsed(given: bytes) -> dict[str, Any]:
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time_out(*_: object) -> None:
    raise TimeoutError(f"more than {LIMIT:g} s")
