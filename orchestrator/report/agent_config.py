"""Which configuration directory the workers of an agent use, their own or the user's; for `doctor`."""

from collections.abc import Mapping
from pathlib import Path

from tickets.types import AgentName
from workers.agents.agent import agent_named


def config_of(agent: AgentName, environ: Mapping[str, str]) -> str:
    """Describe what the workers of an agent use of the user's configuration; empty for a command."""
    cli = agent_named(agent)
    variable, login = cli.CONFIG_VARIABLE, cli.LOGIN
    if variable is None:
        return ""
    keys = [name for name in cli.KEYS if environ.get(name)]
    theirs = " and ".join(f"~/{place}" for place in login.folders)
    if keys:
        own = f"{keys[0]} is set: each worker has a {variable} of its own"
        return f"{own}; nothing of {theirs} is linked, copied, read or written"
    home = Path(environ.get("HOME") or "/nonexistent")
    here = [place for place in login.folders if (home / place).exists()]
    if not here:
        return f"no key is set ({', '.join(cli.KEYS)}), and there is no {theirs}: log in, or set one"
    shared = f"no key is set: all workers use {' and '.join(f'~/{place}' for place in here)} as it is"
    locked = [name for place in here for name in login.locked if (home / place / name).exists()]
    said = f", but for {', '.join(locked)}, which a fence keeps as they are" if locked else ""
    return f"{shared}; nothing is linked or copied, and what they write stays there{said}"
