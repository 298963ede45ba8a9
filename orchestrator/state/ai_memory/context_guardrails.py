"""What the tickets of agents carry of the active context: its goal, and what must not be broken."""

from orchestrator.errors import StateError
from orchestrator.state.ai_memory.context import TOKEN, is_empty
from orchestrator.state.ai_memory.context_keys import NONE, SECTIONS, UNSTATED
from orchestrator.state.ai_memory.context_read import read

MOST = 400
"""Tokens of all of it."""
_GUARDRAILS = 6


def guardrails_of(text: bytes | None) -> tuple[str, ...]:
    """Return the lines, each with its key; those above the limit are left out."""
    if text is None or is_empty(text):
        return ()
    try:
        context = read(text)
    except StateError:
        return ()  # a run never fails for a state file; `resume` names it
    lines = [f"{name}: {context.text(name)}" for name in ("goal", "scope_out")]
    keys = next(section.keys for section in SECTIONS if section.number == _GUARDRAILS)
    lines += [f"{key.name}: {one.text}" for key in keys for one in context.list(key.name)]
    lines += [f"gotchas: {one.text}" for one in context.list("gotchas")]
    kept: list[str] = []
    for line in lines:
        value = line.partition(": ")[2]
        if value and value not in (NONE, UNSTATED) and _size([*kept, line]) <= MOST:
            kept.append(line)
    return tuple(kept)


def _size(lines: list[str]) -> int:
    return -(-sum(len(line.encode()) + 3 for line in lines) // TOKEN)
