"""The checkpoints of a project: those that are open, and what is wrong with those that cannot be read."""

import os
from datetime import datetime, timedelta
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.state.checkpoints.names import FOLDER
from orchestrator.state.checkpoints.read import Checkpoint, glance
from orchestrator.store.read import read_state
from tickets.problems import Problem, ProblemError
from tickets.value import Value

FRESH = timedelta(days=7)
"""How long a checkpoint that can go on is proposed as the next step."""
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


def read_checkpoints(root: Path) -> CheckpointsFound:
    """Read all checkpoints, without their notes. Raises Refusal where their folder cannot be listed."""
    found: list[Checkpoint] = []
    problems: list[Problem] = []
    for path in _paths(root):
        try:
            text = read_state(root, path)
            one = glance(path, text) if text is not None else None
        except ProblemError as error:
            problems += [problem._replace(severity="warning") for problem in error.problems]
            continue
        if one is not None:
            found.append(one)
    return CheckpointsFound(tuple(found), tuple(problems))


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


def _paths(root: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in os.scandir(root / FOLDER))
    except FileNotFoundError:
        return []
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise Refusal(Problem(FOLDER, f"cannot be read: {why}", "make it a folder")) from None
    return [f"{FOLDER}/{name}" for name in names if name.endswith(".md")]
