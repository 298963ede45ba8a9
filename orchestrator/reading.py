"""Files that a person keeps: read whole, or a problem that names what hinders."""

import time
from pathlib import Path

from orchestrator.refusal import Refusal
from tickets.problems import Problem
from workers.git import Repository

SAVING = 0.1
"""Seconds that an editor may take between emptying a file and writing it."""


def bytes_of(path: Path) -> bytes:
    """Read a file; Markdown that is empty is looked at again, for an editor may be about to write it."""
    found = path.read_bytes()
    until = time.monotonic() + SAVING
    while not found and path.suffix == ".md" and time.monotonic() < until:
        time.sleep(SAVING / 20)
        found = path.read_bytes()
    return found


def decided(repository: Repository, kind: str) -> Path:
    """Give the place of an intent of this work tree, `intent` or `landing`: another tree's is not ours."""
    link = repository.root / ".git"
    if not link.is_file():
        return repository.own / f"{kind}.json"
    metadata = Path(link.read_text().removeprefix("gitdir:").strip())
    is_linked = metadata.parent.name == "worktrees"
    return repository.own / (f"{kind}-{metadata.name}.json" if is_linked else f"{kind}.json")


def read_file(root: Path, path: str) -> bytes | None:
    """Read a file by its path below `root`; None where there is none. Raises Refusal."""
    try:
        return bytes_of(root / path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise Refusal(Problem(path, f"cannot be read: {why}", "make it a file that you may read")) from None


def in_the_way(folder: Path, name: str) -> list[Problem]:
    """Say what keeps a folder of ours from being there; it is made when it is first needed."""
    if folder.exists() and not folder.is_dir():
        return [Problem(name, "is not a folder", "move it away")]
    return []
