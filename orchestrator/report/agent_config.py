"""Which configuration directory the workers of an agent use: their own, or the user's; said for `doctor`."""

from collections.abc import Mapping
from pathlib import Path

from tickets.types import AgentName
from workers.agents.agent import agent_named
from workers.fence.policy import LOGINS

VARIABLES: Mapping[str, str] = {
    "codex": "CODEX_HOME",
    "claude": "CLAUDE_CONFIG_DIR",
    "gemini": "GEMINI_CLI_HOME",
}
"""What tells a CLI where its configuration is, where it is not to be the user's."""


def config_of(agent: AgentName, environ: Mapping[str, str]) -> str:
    """Say what the workers of an agent have of the user's configuration: linked, copied or left alone."""
    variable, (places, kept) = VARIABLES.get(agent), LOGINS[agent]
    if variable is None:
        return ""
    known = agent_named(agent).KEYS
    keys = [name for name in known if environ.get(name)]
    theirs = " and ".join(f"~/{place}" for place in places)
    if keys:
        own = f"{keys[0]} is set: each worker has a {variable} of its own"
        return f"{own}; nothing of {theirs} is linked, copied, read or written"
    home = Path(environ.get("HOME") or "/nonexistent")
    here = [place for place in places if (home / place).exists()]
    if not here:
        return f"no key is set ({', '.join(known)}), and there is no {theirs}: log in, or set one"
    shared = f"no key is set: all workers use {' and '.join(f'~/{place}' for place in here)} as it is"
    locked = [name for place in here for name in kept if (home / place / name).exists()]
    said = f", but for {', '.join(locked)}, which a fence keeps as they are" if locked else ""
    return f"{shared}; nothing is linked or copied, and what they write stays there{said}"
