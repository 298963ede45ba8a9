"""Calls a command, and turns any error into an answer."""

import errno
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from orchestrator.commands.answer import Answer, all_done, refused
from orchestrator.commands.caller import Caller
from orchestrator.commands.table import Command
from orchestrator.errors import HELD, AllDone, Refusal
from orchestrator.step import Step, Waits, Who
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from workers.files.read import NotRegularError
from workers.git.run import GitError, drop_foreign_git

_OUTSIDE = frozenset((
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EISDIR,
    errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
))  # fmt: skip
"""Errors that the machine causes; any other is a bug, and gets its traceback."""

LISTS = frozenset(("todo", "deliverable", "criterion", "milestone", "phase"))
"""Commands about one of several things, which their action `list` shows with numbers."""


class CommandModule(Protocol):
    """A module of `orchestrator.commands` that is a command."""

    Arguments: type[Any]
    """The class of its arguments; a front end derives its options, or its schema, from the fields."""

    def call(self, caller: Caller, arguments: Any) -> Answer[Any]:
        """Run the command. May raise the errors that `invoke` turns into an answer."""


class Invocation(Value):
    """The called command and its arguments."""

    name: str
    command: Command
    arguments: Any

    @property
    def of_run(self) -> bool:
        """Whether the answer has the form of an answer about a run, as that of `resume RUN`."""
        resumes = self.name == "resume" and getattr(self.arguments, "run", None) is not None
        return self.command.of_run or resumes


def invoke(invocation: Invocation, function: Callable[[], Answer[Any]]) -> Answer[Any]:
    """Return the answer of a command; a refusal becomes an answer with its exit code."""
    # A git variable that names another repository must reach neither us nor a worker (see `environment`).
    drop_foreign_git(os.environ)  # type: ignore[arg-type]  # it is a mapping of strings
    of_run = invocation.of_run
    try:
        return function()
    except AllDone as error:
        return all_done(error.problems, error.phase, error.next_action)
    except Refusal as error:
        who: Who = "outside" if error.exit_code == HELD else "lead"
        next_action = error.next_action or next_step(
            error.problems, invocation.name, invocation.arguments, who
        )
        return refused(error.problems, next_action, error.exit_code, of_run=of_run)
    except ProblemError as error:
        return refused(
            error.problems, next_step(error.problems, invocation.name, invocation.arguments), 2, of_run=of_run
        )
    except GitError as error:
        return refused([error.problem], "orchestrate doctor", 1, of_run=of_run)
    except OSError as error:
        problem = problem_of_machine(error, invocation.name)
        if problem is None:
            raise
        return refused([problem], waits_by([problem], "outside"), 1, of_run=of_run)


def problem_of_machine(error: OSError, place: str) -> Problem | None:
    """Return the answer to an error that the machine or its user caused; None for a bug."""
    place = str(error.filename or place)
    if isinstance(error, FileExistsError) and os.path.lexists(place) and not Path(place).is_dir():
        return Problem(place, "something else is at the path of a folder of ours", "move it away")
    if error.errno in _OUTSIDE or isinstance(error, NotRegularError):
        return Problem(place, (error.strerror or "cannot be used").lower(), "fix it, then call again")
    return None


def next_step(problems: Iterable[Problem], name: str, arguments: Any, who: Who = "lead") -> Step:
    """Return the command that a problem names as its remedy, else the one that shows the choices.

    Where there is none, somebody has to correct the call or what it read: it would fail once more.
    """
    problems = list(problems)
    for problem in problems:
        named = re.search(r"`(orchestrate [^`A-Z]+)`", problem.do)
        # Which phase was meant is not for us to say: what follows a plan is a run.
        if named and not named[1].startswith("orchestrate plan"):
            return named[1]
    if name in LISTS and arguments.action != "list":
        return f"orchestrate {name} list"
    return waits_by(problems, who)


def waits_by(problems: Iterable[Problem], who: Who) -> Waits:
    """Return the wait until somebody has dealt with some problems, the first of them named."""
    found = sorted(problems, key=lambda one: one.severity != "error")
    more = f" (and {len(found) - 1} more: see `problems`)" if len(found) > 1 else ""
    return Waits(who, f"{found[0]}{more}" if found else "the call failed")
