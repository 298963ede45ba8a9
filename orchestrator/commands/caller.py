"""The caller of a command: its folder, clock, environment and name."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import Refusal
from orchestrator.step import Waits
from tickets.problems import Problem
from tickets.value import Value
from workers.git.run import Repository, find_repository, git_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from orchestrator.runs.events import Noted
    from orchestrator.runs.state import RunState


_OUTSIDE = "run `git init` in the project's folder, or name that by `--project DIR`"
NO_REPOSITORY = Waits("user", "there is no git repository here; go to the project, or name it by `--project`")


class Caller(Value):
    """Facts about a call beside the command's own arguments."""

    folder: Path
    """Absolute; the repository is the one around it."""
    now: Callable[[], datetime]
    environ: Mapping[str, str]
    lead: str | None = None
    """The lead's name, where the call states one."""
    tell: "Callable[[Noted, RunState], None] | None" = None
    """Called with each event of a run as it happens."""
    warn: "Callable[[Sequence[Problem]], None] | None" = None
    """Called with the warnings of a run before its first worker starts."""
    say: "Callable[[str], None] | None" = None
    """Called with a line about a long step, as it begins and ends."""
    beside: "Callable[[], Coroutine[Any, Any, None]] | None" = None
    """Runs concurrently with the stages of a run, to show progress; cancelled when they have ended."""


class NoArguments(Value):
    """The arguments of a command that has none."""


def repository_of(caller: Caller) -> Repository:
    """Return the repository that a command works on. Raises Refusal."""
    start = caller.folder
    try:
        found = find_repository(start)
    except (OSError, ValueError) as error:
        problem = Problem(
            str(start), f"its .git cannot be read: {error}", "`git worktree repair` may mend it"
        )
        raise Refusal(problem) from None
    if found is not None and found.common.is_dir():
        return found
    if found is not None:
        what = f"the repository that this work tree belongs to is not at {found.common}"
        do = "`git worktree repair` in the moved one mends it"
        raise Refusal(Problem(str(found.root), what, do))
    if all((start / name).exists() for name in ("HEAD", "objects", "refs")):
        do = "`git worktree add DIR BRANCH`, and work there"
        problem = Problem(str(start), "is a bare repository: it has no files to work on", do)
        raise Refusal(problem, next_action=Waits("user", f"{start} {problem.what}; {do}"))
    problem = Problem(str(start), "is not inside a git repository", _OUTSIDE)
    raise Refusal(problem, next_action=NO_REPOSITORY)


def lead_of(caller: Caller, repository: Repository) -> str:
    """Return the lead's name: the environment's, the caller's, git's, in this order."""
    found = caller.environ.get("ORCHESTRATE_LEAD") or caller.lead
    # Not by `repo`: to import GitPython takes longer than most commands.
    found = found or git_line("config", "--get", "user.name", cwd=repository.root, check=False)
    return found or "unnamed lead"
