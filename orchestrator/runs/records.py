"""What a run's roster and the records of its journal look like: what has another shape nobody believes.

An unfenced worker can write into the journal, and half a disk can stand in it: a number that is none, or a
path that leads out of the project, would surface long after it was read.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, get_args

from tickets.types import AgentName

_AGENTS = get_args(AgentName)
_VERDICTS = ("accepted", "partial", "rejected", "pending", None)
_MOST = 10**6
"""Attempts of one worker, far above what any could make."""

Check = Callable[[Any], bool]


def is_sound(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has the fields of its event, each of its kind; unknown events say nothing."""
    event = record.get("event")
    if not isinstance(event, str) or not isinstance(record.get("worker", ""), str):
        return False
    if not _fits(record, _SHAPES.get(event, {})):
        return False
    return event != "ended" or _names_one(record["worker"], record["facts"])


def is_roster(found: Mapping[str, Any]) -> bool:
    """Tell whether a roster names workers that may have files of their own, who wait for one another."""
    workers = found.get("workers")
    if not isinstance(found.get("phase"), str) or not isinstance(workers, list):
        return False
    if not all(isinstance(one, dict) and _fits(one, _WORKER) for one in workers):
        return False
    names = {one["worker"] for one in workers}
    waits_for = {name for one in workers for name in one.get("waits_for", ())}
    return 0 < len(names) == len(workers) and waits_for <= names


def is_name(value: Any) -> bool:
    """Tell whether a value can be the name of a file, and of nothing beside its folder."""
    return isinstance(value, str) and value.isprintable() and "/" not in value and value.strip(".") != ""


def is_holding(found: Mapping[str, Any]) -> bool:
    """Tell whether this says what a run owns."""
    return _fits(found, _HOLDING) and all(
        isinstance(one, dict) and _fits(one, _OWNER) for one in found["tickets"]
    )


def _fits(found: Mapping[str, Any], shape: Mapping[str, Check]) -> bool:
    """Tell whether each field is there and of its kind; those that end in `?` may be left out."""
    for name, is_kind in shape.items():
        key = name.removesuffix("?")
        if key not in found:
            if key == name:
                return False
        elif not is_kind(found[key]):
            return False
    return True


def _names_one(worker: str, facts: Mapping[str, Any]) -> bool:
    # Facts of another worker under its name would settle that one.
    return bool(facts.get("worker", worker) == worker)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _links(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text_or_none, value.values()))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _attempts(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _number_or_none(value: Any) -> bool:
    return value is None or _number(value)


def _time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _agent(value: Any) -> bool:
    return isinstance(value, str) and value in _AGENTS


def _verdict(value: Any) -> bool:
    return (value is None or isinstance(value, str)) and value in _VERDICTS


def _below(value: Any) -> bool:
    """Tell whether a value is no path, or one that stays in the project."""
    if value is None:
        return True
    return isinstance(value, str) and "\0" not in value and value[:1] != "/" and ".." not in value.split("/")


def _usage(value: Any) -> bool:
    return isinstance(value, dict) and _fits(value, _USAGE)


def _violations(value: Any) -> bool:
    shape: Mapping[str, Check] = {"kind": _text, "path": _text}
    return isinstance(value, list) and all(isinstance(one, dict) and _fits(one, shape) for one in value)


def _tries(value: Any) -> bool:
    return isinstance(value, list) and all(map(_try, value))


def _try(value: Any) -> bool:
    return isinstance(value, dict) and _fits(value, {"attempt": _attempts, "usage": _usage})


def _facts(value: Any) -> bool:
    return isinstance(value, dict) and _fits(value, _FACTS)


def _told(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, list) and all(map(_text_or_none, one)) for one in value.values()
    )


_USAGE: Mapping[str, Check] = {
    "input_tokens": _number, "cached_tokens?": _number, "output_tokens": _number, "cost_usd": _number_or_none,
}  # fmt: skip
_FACTS: Mapping[str, Check] = {
    "worker?": _text, "ticket?": _text, "agent?": _agent, "outcome": _text, "reason?": _text,
    "verdict": _verdict, "flags?": _texts, "attempts?": _attempts, "seconds?": _number, "files?": _texts,
    "violations?": _violations, "usage?": _usage, "tries?": _tries, "output?": _below, "patch?": _below,
    "worktree?": _text_or_none, "fence?": _text_or_none, "thread?": _text_or_none,
}  # fmt: skip
_WORKER: Mapping[str, Check] = {
    "worker": is_name, "ticket": _text, "agent": _agent, "title": _text, "skipped": _flag,
    "waits_for?": _texts,
}  # fmt: skip
_HOLDING: Mapping[str, Check] = {
    "run": is_name, "root": _text, "branch": _text_or_none, "links": _links, "files": _texts,
    "reserved?": _texts, "tickets": _list,
}  # fmt: skip
_OWNER: Mapping[str, Check] = {"worker": _text, "owns": _texts, "excludes": _texts}
_AGAIN: Mapping[str, Check] = {"worker": _text, "tried?": _try}
_SHAPES: Mapping[str, Mapping[str, Check]] = {
    "started": {
        "worker": _text, "attempt": _attempts, "base": _text, "at": _time, "fence?": _text_or_none,
        "kind?": _text, "agent?": _agent,
    },
    "ended": {"worker": _text, "facts": _facts},
    "skipped": {"worker": _text, "reason": _text},
    "retry": _AGAIN, "afresh": _AGAIN, "asked": _AGAIN, "lost": _AGAIN,
    "moved": {"worker": _text, "agent": _agent},
    "parked": {"agent": _agent, "until": _time},
    "held": {"worker": _text, "reason": _text},
    "settled": {"worker": _text, "verdict": _verdict, "reason": _text, "by": _text},
    "gate": {"result": _text, "fenced?": _text},
    "landed": {"commit": _text_or_none, "workers": _texts},
    "recorded": {"commit": _text_or_none, "told": _told},
    "closed": {"status": _text},
}  # fmt: skip
"""What each event that is folded in must say; a `?` marks what older records lack."""
