"""phases/PHASE/chat/RUN.jsonl: what the participants of a run said to each other, for an audit."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.state.events import ChatMessage, Event, RunIntegrated
from orchestrator.state.facts import Facts
from orchestrator.state.phases.paths import chat_path, name_of
from tickets.problems import Problem

OWNS: tuple[str, ...] = ("phases/*/chat/*.jsonl",)

LARGEST = 1 << 20
"""Bytes of one chat log, above which bodies are cut."""
CUT = 200
"""Characters that a cut body keeps."""
KEYS = ("id", "at", "from", "to", "type", "phase", "plan", "re", "body", "stands", "answered_by")


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the chat log of a run that is recorded."""
    if not isinstance(event, RunIntegrated) or not event.chat:
        return ()
    return (chat_path(name_of(tree, event.phase), event.run),)


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the chat log of a run, whole: a run that is recorded again writes it again."""
    if not isinstance(event, RunIntegrated) or not event.chat:
        return {}
    path = chat_path(name_of(tree, event.phase), event.run)
    text = log_of(event.chat)
    return {} if tree.get(path) == text else {path: text}


def log_of(chat: Iterable[ChatMessage]) -> bytes:
    """Return messages as the lines of a log; above the limit the longest bodies are cut first."""
    records = [dict(zip(KEYS, (*one[:-1], list(one.answered_by)), strict=True)) for one in chat]
    lines = [_line(one) for one in records]
    over = sum(map(len, lines)) - LARGEST
    for number in sorted(range(len(records)), key=lambda at: -len(records[at]["body"])):
        body = records[number]["body"]
        if over <= 0 or len(body) <= CUT:
            break
        cut = _line({**records[number], "body": body[:CUT], "cut": True})
        over -= len(lines[number]) - len(cut)
        lines[number] = cut
    return b"".join(lines)


def problems(text: bytes) -> list[Problem]:
    """Return the lines that hold no message."""
    lines = enumerate(text.splitlines(), start=1)
    do = "`git checkout` brings the file back as it was committed"
    return [
        Problem(f"chat:{at}", "is no message", do, "warning") for at, line in lines if not _is_message(line)
    ]


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: a run that is recorded writes it."""
    return text


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _is_message(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() >= set(KEYS)
