"""What was decided and may not be done yet: the intents of a work tree, as any command finds them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.state.errors import StateError
from tickets.problems import Problem
from workers.git import Repository
from workers.regular import NotRegularError, read_whole


class Move(NamedTuple):
    """One file to be replaced; plain data, so that another command can finish it."""

    path: str
    temporary: str
    """Below the root, as `target` is: a project that was moved meanwhile is finished all the same."""
    target: str
    """Where `path` leads: a state file may be a symlink."""
    old: str
    new: str
    """Digests; the old one is `absent` where there was no file."""
    was: str
    """The old text itself, byte for byte as latin-1: without it a hand's later edit could not be merged."""


def decided(repository: Repository, kind: str) -> Path:
    """Give the place of an intent of this work tree, `intent` or `landing`: another tree's is not ours."""
    link = repository.root / ".git"
    if not link.is_file():
        return repository.own / f"{kind}.json"
    metadata = Path(link.read_text().removeprefix("gitdir:").strip())
    is_linked = metadata.parent.name == "worktrees"
    return repository.own / (f"{kind}-{metadata.name}.json" if is_linked else f"{kind}.json")


def read_intent(path: Path) -> dict[str, Any] | None:
    """Give an intent, None where nothing is decided. Raises StateError for one that we did not write."""
    try:
        found = json.loads(read_whole(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (NotRegularError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        do = "somebody wrote over it; compare the state files with the last commit, then take it away"
        raise StateError(Problem(str(path), "is no intent of ours", do))
    return found


def digest(text: bytes | None) -> str:
    """Tell texts apart; `absent` is no file."""
    import hashlib  # noqa: PLC0415 - for start-up time: readers hardly ever need it

    return "absent" if text is None else hashlib.sha256(text).hexdigest()
