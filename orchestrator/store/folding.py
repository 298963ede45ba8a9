"""State commits that fold: a lead's commands in a row make one commit, as long as nobody else has it.

The note of the last such commit says what is in it. Whatever names a commit for good removes the note.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from orchestrator.state import is_owned
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from tickets.value import Value
from tickets.wording import count_of
from workers.files.durable import write_over
from workers.files.read import read_whole
from workers.files.run_dir import read_json
from workers.git.run import Repository

MOST = 20
"""How many changes fold into one commit."""


class Folded(Value):
    """The last commit of state files alone that a command of the lead made."""

    commit: str
    messages: tuple[str, ...]


def may_fold(paths: Iterable[str], message: str) -> bool:
    """Return whether a commit is of state files alone, and no run's record names it.

    The decision log is append-only: its entries as they were first committed stay in the history.
    """
    if is_record_of_run(message):
        return False
    return all(path != DECISIONS and is_owned(path) for path in paths)


def is_record_of_run(message: str) -> bool:
    """Return whether a commit records a run's verdicts."""
    return "Orchestrate-State: " in message


def whole_message(messages: tuple[str, ...]) -> str:
    """Return the message of a commit of some changes, which lists each of them."""
    if len(messages) == 1:
        return messages[0]
    subject = messages[-1].partition("\n")[0]
    before = count_of(len(messages) - 1, "change")
    return "\n\n".join([f"{subject} (and {before} before it)", *(one.rstrip() for one in messages)]) + "\n"


def read_folded(repository: Repository) -> Folded | None:
    """Read the note; None where no commit can take another change."""
    found = read_json(_note(repository)) or {}
    commit, messages = found.get("commit"), found.get("messages")
    if not isinstance(commit, str) or not isinstance(messages, list) or not messages:
        return None
    if len(messages) >= MOST or not all(isinstance(one, str) for one in messages):
        return None
    return Folded(commit, tuple(messages))


def note_folded(repository: Repository, folded: Folded) -> None:
    """Write the note, before the commit is on the branch."""
    write_over(_note(repository), json.dumps(folded._asdict()).encode(), synced=False)


def forget_folded(repository: Repository) -> None:
    """Let no further change fold into the last commit: a run begins from it."""
    _note(repository).unlink(missing_ok=True)


def is_elsewhere(repository: Repository, commit: str) -> bool:
    """Return whether another worktree stands on a commit, or notes may be attached to it."""
    heads = (repository.common / "worktrees").glob("*/HEAD")
    packed = repository.common / "packed-refs"
    return (
        any(read_whole(path).strip() == commit.encode() for path in heads)
        or (repository.common / "refs/notes").exists()
        or (packed.exists() and b" refs/notes/" in read_whole(packed))
    )


def _note(repository: Repository) -> Path:
    return repository.own / "last-state-commit"
