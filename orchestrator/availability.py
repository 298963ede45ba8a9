"""Whether an agent can do any ticket at all: it may be switched off, have no slots, or not be installed."""

from collections.abc import Mapping

from orchestrator.settings import Settings
from tickets.words import AgentName
from workers.attempt import find_agent


def why_off(name: AgentName, settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Say why nothing can be started with an agent; None where something can."""
    if not settings.slots.total:
        return "AGENTS.md has no slot for any worker"
    if not settings.is_enabled(name):
        return f"{name} is disabled (AGENTS.md, or `[agents.{name}] enabled`)"
    if find_agent(name, settings.agent(name), environ) is None:
        wanted = settings.agent(name).executable or name
        return f"{name} is not installed (`{wanted}` was not found)"
    return None
