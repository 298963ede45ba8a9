"""Git by subprocess: one way to call it, independent of any repository that the environment names."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tickets.problems import Problem
from tickets.value import Value

if TYPE_CHECKING:
    from subprocess import Popen

# We must not start a user's hooks, watchers and pagers, and a prompt would wait for ever.
QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")
_GRACE = 1.0
"""Seconds between TERM and KILL."""

# These name another repository (or a foreign configuration) to every git below us.
FOREIGN_GIT = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_EXTERNAL_DIFF", "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_ATTR_SOURCE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)  # fmt: skip


_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a row of cherry-picks or reverts",
}
"""Git's files of an operation that the user is in the middle of, and its name with its article."""


class Repository(Value):
    """The work tree and the shared metadata of a repository."""

    root: Path
    common: Path
    """The git common directory; all worktrees of the repository share it."""

    @property
    def own(self) -> Path:
        """Return the directory of our locks, intents, slots and indexes: out of every worker's reach."""
        return self.common / "orchestrate"


def find_repository(start: Path) -> Repository | None:
    """Return the repository around `start`, without starting git, which would slow down `status`."""
    start = start.resolve()  # git writes real paths into its worktrees; ours must be the same
    for folder in (start, *start.parents):
        dot_git = folder / ".git"
        if dot_git.is_dir() and (dot_git / "HEAD").exists():
            return Repository(folder, dot_git)
        if dot_git.is_file():
            metadata = (folder / dot_git.read_text().removeprefix("gitdir:").strip()).resolve()
            shared = metadata / "commondir"
            common = (metadata / shared.read_text().strip()).resolve() if shared.exists() else metadata
            return Repository(folder, common)
    return None


def git_directory(repository: Repository) -> Path:
    """Return the metadata of the user's own work tree: the common directory, or one of its worktrees'."""
    dot_git = repository.root / ".git"
    try:
        if dot_git.is_file():
            return (repository.root / dot_git.read_text().removeprefix("gitdir:").strip()).resolve()
    except (OSError, ValueError):
        pass
    return dot_git if dot_git.is_dir() else repository.common


def operation_in_progress(repository: Repository) -> str | None:
    """Return the operation that the user is in the middle of, with its article."""
    own = git_directory(repository)
    return next((words for name, words in _IN_PROGRESS.items() if (own / name).exists()), None)


class GitError(Exception):
    """Raised for a failed git command; `said` is its standard error, without control characters."""

    def __init__(self, command: Sequence[str], code: int, said: str, printed: bytes = b"") -> None:
        self.command = tuple(command)
        self.code = code
        self.printed = printed
        self.said = "".join(c if c.isprintable() else " " for c in said).strip()
        super().__init__(f"git {' '.join(self.command)}: {self.said or f'exit code {code}'}")

    @property
    def problem(self) -> Problem:
        """Git's refusal, in its own words."""
        options = re.compile(r"(-c \S+ |--?\S+ )*")
        command = options.sub("", " ".join(self.command), count=1).partition(" ")[0]
        return Problem(f"git {command}", self.said or f"exit code {self.code}", "read git's message")


@cache
def _program() -> str:
    """Return the path of git, searched once: a search of a long PATH takes a tenth of a short command."""
    # Not by `shutil`, whose import brings three compressors. Access first: a folder may be closed to us.
    paths = (Path(folder, "git") for folder in os.get_exec_path())
    return next((str(path) for path in paths if os.access(path, os.X_OK) and path.is_file()), "git")


def drop_foreign_git(environ: dict[str, str]) -> None:
    """Remove the variables that point git at another repository from `environ`, in place."""
    for name in list(environ):
        if name in FOREIGN_GIT or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")):
            del environ[name]


def _inherited() -> Mapping[str, str]:
    found = dict(os.environ)
    drop_foreign_git(found)
    found["LC_ALL"] = "C"
    found["GIT_TERMINAL_PROMPT"] = "0"
    found["GIT_OPTIONAL_LOCKS"] = "0"
    return found


def git(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    feed: bytes | IO[bytes] = b"",
    check: bool = True,
    patience: float | None = None,
    into: IO[bytes] | None = None,
) -> bytes:
    """Run git and return its standard output, or write it `into` a file. Raises GitError if `check`.

    `patience` is for git in a tree that may block it: after so many seconds it is killed, an error.
    """
    import subprocess  # noqa: PLC0415 - `status` finds the repository without git, and has no time for this

    source = subprocess.PIPE if isinstance(feed, bytes) else feed
    with subprocess.Popen(
        [_program(), *QUIET, *arguments],
        cwd=cwd,
        env={**_inherited(), **(env or {})},
        stdin=source,
        stdout=subprocess.PIPE if into is None else into,
        stderr=subprocess.PIPE,
        # A filter that it has started ends with it.
        process_group=None if patience is None else 0,
    ) as process:
        try:
            printed, said = process.communicate(feed if isinstance(feed, bytes) else None, patience)
        except subprocess.TimeoutExpired:
            _end(process, os.killpg)
            raise GitError(arguments, -9, f"git did not end within {patience:g} s") from None
        except BaseException:
            # Also after Ctrl-C: a git that is killed at once leaves its lock on the user's index.
            _end(process, os.kill if patience is None else os.killpg)
            raise
    if process.returncode and check:
        raise GitError(arguments, process.returncode, said.decode("utf-8", "replace"), printed or b"")
    return printed or b""


def _end(process: "Popen[bytes]", signal: Callable[[int, int], None]) -> None:
    """End a git, or its whole group with the filters of it; given the time, it removes its lock files."""
    import subprocess  # noqa: PLC0415 - as above
    from signal import SIGKILL, SIGTERM  # noqa: PLC0415 - as above

    with suppress(ProcessLookupError):
        signal(process.pid, SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError):
        signal(process.pid, SIGKILL)


def git_into(path: Path, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Run git with its standard output in a new file, whole or not at all, whatever its size."""
    from workers.files.durable import created  # noqa: PLC0415 - for start-up time: most answers stay in memory

    with created(path) as file:
        git(*arguments, cwd=cwd, env=env, into=file)


def git_line(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    """Run git and return the first line of its output, `""` where there is none."""
    return os.fsdecode(git(*arguments, cwd=cwd, env=env, check=check)).partition("\n")[0].strip()


def git_fields(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    feed: bytes = b"",
    patience: float | None = None,
) -> list[str]:
    """Run a git command with `-z` and return its fields."""
    printed = git(*arguments, cwd=cwd, env=env, feed=feed, patience=patience)
    return [os.fsdecode(field) for field in printed.split(b"\0")[:-1]]
