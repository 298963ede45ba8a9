"""The checkpoints of a project: those that are open, and what is wrong with those that cannot be read."""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.errors import Refusal
from orchestrator.state.checkpoints.form import Checkpoint, own_form
from orchestrator.state.checkpoints.glance import glance
from orchestrator.state.checkpoints.names import FOLDER
from orchestrator.store.intent import decided
from orchestrator.store.read import read_state
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from workers.files.read import read_start
from workers.git.run import Repository

FRESH = timedelta(days=7)
"""How long a checkpoint that can go on is proposed as the next step."""
_NEEDS = "; needs "
HEAD = 4096
"""Bytes of a checkpoint that are read at first: its front matter as we write it has fewer."""
TEMPLATES = "docs/worker-ticket-templates"
"""As in `tickets.templates.render`, whose import would slow down `status`."""


class CheckpointsFound(Value):
    """All checkpoints, in the order of their names, and what is wrong with those that cannot be read."""

    all: tuple[Checkpoint, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def open(self) -> list[Checkpoint]:
        """Those that are not complete, newest first."""
        found = [one for one in self.all if one.status != "complete"]
        return sorted(found, key=lambda one: one.updated, reverse=True)


NO_CHECKPOINTS = CheckpointsFound()


def read_checkpoints(repository: Repository) -> CheckpointsFound:
    """Read all checkpoints, without their notes. Raises Refusal where their folder cannot be listed."""
    found: list[Checkpoint] = []
    problems: list[Problem] = []
    for path, head in _heads(repository):
        try:
            text = head if head is not None else read_state(repository.root, path)
            one = glance(path, text) if text is not None else None
        except ProblemError as error:
            problems += [problem._replace(severity="warning") for problem in error.problems]
            continue
        if one is not None:
            found.append(one)
    return CheckpointsFound(tuple(found), tuple(problems))


def _heads(repository: Repository) -> list[tuple[str, bytes | None]]:
    """Return the checkpoints' paths with their front matter; None for one that is to be read with care.

    There may be ten thousand, and nearly all are plain files as we write them.
    """
    root, found = repository.root, []
    folder = os.path.realpath(root / FOLDER)
    # A killed command may have decided others: then each is read as it was decided.
    is_plain = Path(folder).is_relative_to(root.resolve()) and not decided(repository, "intent").exists()
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith(".md"):
                is_file = is_plain and entry.is_file(follow_symlinks=False)
                found.append((f"{FOLDER}/{entry.name}", _front_of(entry.path) if is_file else None))
    except FileNotFoundError:
        return []
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise Refusal(Problem(FOLDER, f"cannot be read: {why}", "make it a folder")) from None
    return sorted(found)


def _front_of(path: str) -> bytes | None:
    try:
        head = read_start(path, HEAD)
    except OSError:
        return None  # gone meanwhile, or no file any more
    found = own_form(head)
    return head[: found.end()] if found else None


def facts_of(one: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint without its notes, in the form of the documented output."""
    needs = one.last_action.partition(_NEEDS)[2] if one.status == "blocked" else ""
    return {
        "path": one.path, "feature": one.feature, "team": one.team, "agent": one.agent, "phase": one.phase,
        "status": one.status, "last_action": one.last_action, "updated": one.updated, "needs": needs,
    }  # fmt: skip


def can_go_on(root: Path, one: Checkpoint, now: datetime) -> bool:
    """Return whether a run can go on from a checkpoint, and nobody has to act first."""
    if one.status != "in_progress" or not one.team or now - updated_of(one, now) > FRESH:
        return False
    return has_template(root, one)


def has_template(root: Path, one: Checkpoint) -> bool:
    """Return whether the ticket of a checkpoint has a template."""
    name = f"{one.agent.partition('[')[0]}.md"
    return "/" not in name and (root / TEMPLATES / name).is_file()


def updated_of(one: Checkpoint, now: datetime) -> datetime:
    """Return when a checkpoint was updated; long ago where its time cannot be read."""
    try:
        found = datetime.fromisoformat(one.updated)
    except ValueError:
        return datetime.min.replace(tzinfo=now.tzinfo)
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
