"""From parsed arguments to a command's answer, whatever goes wrong on the way."""

import argparse
import errno
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.cli.answer import Answer, refused
from orchestrator.errors import Refusal
from tickets.problems import Problem, ProblemError
from workers.files.read import NotRegularError
from workers.git.run import Repository, drop_foreign_git, find_repository, git_line

if TYPE_CHECKING:
    from orchestrator.cli.registry import Command


_OUTSIDE = frozenset((
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EISDIR,
    errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
))  # fmt: skip
"""Errors that come from the machine; any other is a bug, and gets its traceback."""


LISTS = frozenset(("todo", "deliverable", "criterion", "milestone", "phase"))
"""Commands about one of several things, which their action `list` shows with their numbers."""


class CommandModule(Protocol):
    """A module of `orchestrator.cli` that is a command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def answer(self, arguments: argparse.Namespace) -> Answer:
        """Do it. May raise what `call` turns into an answer."""


def call(command: "Command", module: Any, arguments: argparse.Namespace) -> Answer:
    """Call a command; a refusal becomes an answer with its exit code."""
    # A git variable that names another repository must reach neither us nor a worker (see `environment`).
    drop_foreign_git(os.environ)  # type: ignore[arg-type]  # it is a mapping of strings
    # `resume` alone reports; `resume RUN` is about a run, and is refused in the form of one.
    of_run = command.of_run or (arguments.command == "resume" and arguments.run is not None)
    try:
        if command.of_lead:
            from orchestrator.cli.ancestry import refuse_worker  # noqa: PLC0415 - `status` has no time for it

            refuse_worker(arguments)
        found: Answer = module.answer(arguments)
    except Refusal as error:
        next_action = error.next_action or next_step(error.problems, arguments)
        return refused(error.problems, next_action, error.exit_code, of_run=of_run)
    except ProblemError as error:
        return refused(error.problems, next_step(error.problems, arguments), 2, of_run=of_run)
    except OSError as error:
        problem = _known(error, getattr(module, "__name__", "orchestrate").rpartition(".")[2])
        if problem is None:
            raise
        next_action = "orchestrate resume" if command.of_lead else "orchestrate doctor"
        return refused([problem], next_action, 1, of_run=of_run)
    return found


def _known(error: OSError, command: str) -> Problem | None:
    """Name what the machine or its user has put in our way, also in the middle of a run; None for a bug."""
    place = str(error.filename or command)
    if isinstance(error, FileExistsError) and os.path.lexists(place) and not Path(place).is_dir():
        return Problem(place, "something else stands where a folder of ours is to be", "move it away")
    if error.errno in _OUTSIDE or isinstance(error, NotRegularError):
        return Problem(place, (error.strerror or "cannot be used").lower(), "see to it, then look again")
    return None


def next_step(problems: Iterable[Problem], arguments: argparse.Namespace) -> str:
    """Give the command that a problem names as its way out, else the one that shows whether all is mended."""
    for problem in problems:
        named = re.search(r"`(orchestrate [^`A-Z]+)`", problem.do)
        if named:
            return named[1]
    if arguments.command in LISTS and arguments.action != "list":
        return f"orchestrate {arguments.command} list"
    phase = None if arguments.command in LISTS else getattr(arguments, "phase", None)
    if not phase or not phase.isprintable() or phase.startswith("-"):
        return "orchestrate status"
    from shlex import quote  # noqa: PLC0415 - for start-up time

    return f"orchestrate plan {quote(phase)}"


def repository_of(arguments: argparse.Namespace) -> Repository:
    """Find the repository that a command is about. Raises Refusal."""
    start = (arguments.project or Path.cwd()).absolute()
    found = find_repository(start)
    if found is None:
        if all((start / name).exists() for name in ("HEAD", "objects", "refs")):
            do = "`git worktree add DIR BRANCH`, and work there"
            problem = Problem(str(start), "is a bare repository: it has no files to work on", do)
            raise Refusal(problem, next_action="git worktree add")
        problem = Problem(
            str(start), "is not inside a git repository", "run `git init`, or give `--project DIR`"
        )
        raise Refusal(problem, next_action="git init")
    return found


def now() -> datetime:
    """Ask the clock; nothing outside the command line does."""
    return datetime.now(UTC)


def lead_of(arguments: argparse.Namespace, repository: Repository) -> str:
    """Give the lead's name: the environment's, the option's, git's, in this order."""
    found = os.environ.get("ORCHESTRATE_LEAD") or getattr(arguments, "lead", None)
    # Not by `repo`: GitPython takes longer to import than most commands take.
    found = found or git_line("config", "--get", "user.name", cwd=repository.root, check=False)
    return found or "unnamed lead"
