"""Where an agent's executable is, and which variables it may have."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from workers.agents.agent import AgentSettings


def find(default: str, settings: AgentSettings, path: str) -> str | None:
    """Find the executable that the settings name, else `default`, on `path`: absolute, or None."""
    import shutil  # noqa: PLC0415 - for start-up time: `ps` reads streams, and finds no executables

    wanted = os.path.expanduser(settings.executable or default)  # noqa: PTH111  # Path raises without a home
    found = shutil.which(wanted, path=path)
    return None if found is None else str(Path(found).absolute())


def present(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Take the variables of `names` that are set and not empty."""
    return {name: environ[name] for name in names if environ.get(name)}
