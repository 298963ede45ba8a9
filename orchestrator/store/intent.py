"""The intents of a work tree: changes that are decided and may not be complete yet."""

import json
from pathlib import Path
from typing import Any

from orchestrator.errors import StateError
from tickets.problems import Problem
from tickets.value import Value
from workers.files.read import NotRegularError, read_whole
from workers.git.run import Repository

ABSENT = "absent"
"""The digest of a file that is not there."""


class Move(Value):
    """One file to be replaced, or to go; plain data, so that another command can finish it."""

    path: str
    temporary: str
    """Relative to the root, as `target` is: a project that was moved meanwhile can still be finished."""
    target: str
    """The file that `path` resolves to: a state file may be a symlink."""
    old: str
    new: str
    """Digests; the old one is `absent` where there was no file."""
    was: str
    """The old text, byte for byte as latin-1: without it a later manual edit could not be merged."""

    @property
    def goes(self) -> bool:
        """Whether the file is removed."""
        return self.new == ABSENT


def decided(repository: Repository, kind: str) -> Path:
    """Return the path of an intent of this work tree, `intent` or `landing`; each work tree has its own."""
    link = repository.root / ".git"
    if not link.is_file():
        return repository.own / f"{kind}.json"
    metadata = Path(link.read_text().removeprefix("gitdir:").strip())
    is_linked = metadata.parent.name == "worktrees"
    return repository.own / (f"{kind}-{metadata.name}.json" if is_linked else f"{kind}.json")


def waiting(repository: Repository) -> list[str]:
    """Describe what was decided and is not completed."""
    what = {
        "intent": "a change of state files was decided and waits for its commit",
        "landing": "a landing was decided and waits to be completed",
    }
    return [text for kind, text in what.items() if decided(repository, kind).exists()]


def awaited_branch(repository: Repository) -> str | None:
    """Return the branch on which a decided commit of state files is to be made; None for any, or for none."""
    commit = (read_intent(decided(repository, "intent")) or {}).get("commit") or {}
    return commit.get("branch")


def read_intent(path: Path) -> dict[str, Any] | None:
    """Read an intent; None where nothing is decided. Raises StateError where it is not valid."""
    try:
        found = json.loads(read_whole(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (NotRegularError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not (_is_change(found) or _is_landing(found)):
        do = (
            "another program has overwritten it; compare the state files with the last commit, then delete it"
        )
        raise StateError(Problem(str(path), "is not a valid intent file", do))
    return found


def _is_change(found: dict[str, Any]) -> bool:
    """Return whether this is a change of state files of the shape that the store writes."""
    moves, commit = found.get("moves"), found.get("commit")
    if set(found) != {"moves", "commit"} or not isinstance(moves, list) or not all(map(_is_move, moves)):
        return False
    return commit is None or (isinstance(commit, dict) and _is_commit(commit))


def _is_move(found: Any) -> bool:
    if not _are_texts(found) or len(found) != len(Move._fields):
        return False
    return all(map(_is_below, found[:3])) and _is_old_text(found[5])


def _is_commit(found: dict[str, Any]) -> bool:
    paths: Any = found.get("paths")
    branch, saved = found.get("branch"), found.get("saved", {})
    if not isinstance(found.get("message"), str) or not _are_texts(paths):
        return False
    kept = isinstance(saved, dict) and all(map(_is_below, (*paths, *saved)))
    return (
        (branch is None or isinstance(branch, str))
        and kept
        and all(_are_texts(one) and len(one) == 2 and all(map(_is_old_text, one)) for one in saved.values())
    )


def _is_landing(found: dict[str, Any]) -> bool:
    changes = found.get("changes")
    left_out = found.get("left_out", [])
    known = {"run", "ref", "old", "new", "changes", "left_out"}
    if {*found, "left_out"} != known or not isinstance(changes, list) or not _are_texts(left_out):
        return False
    named = _are_texts([found["run"], found["ref"], found["old"], found["new"]])
    return named and all(_are_texts(one) and len(one) == 5 and _is_below(one[0]) for one in changes)


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _is_below(path: str) -> bool:
    return path[:1] != "/" and ".." not in path.split("/") and "\0" not in path and path != ""


def _is_old_text(text: str) -> bool:
    """Return whether this is bytes as latin-1."""
    return not text or max(text) <= "\xff"


def digest(text: bytes | None) -> str:
    """Return the digest of a text; `absent` where there is no file."""
    import hashlib  # noqa: PLC0415 - for start-up time: readers hardly ever need it

    return ABSENT if text is None else hashlib.sha256(text).hexdigest()
