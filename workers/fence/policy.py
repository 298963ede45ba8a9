"""The policy of the fence for one worker: writable, readable and hidden paths, without the mechanism."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tickets.types import Mode
from tickets.value import Value
from workers.agents.agent import NO_LOGIN, Login
from workers.fence.places import git_reads, homes, is_wide, named_in, program, programs_on, tools_above
from workers.files.run_dir import RunDir
from workers.git.run import Repository, git_fields

CACHES = {
    "XDG_CACHE_HOME": "",
    "CARGO_HOME": "cargo",
    "GOMODCACHE": "go-mod",
    "GRADLE_USER_HOME": "gradle",
    "MYPY_CACHE_DIR": "mypy",
    "NUGET_PACKAGES": "nuget",
    "RUFF_CACHE_DIR": "ruff",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_cache": "npm",
}
"""Variables that move a tool's cache out of an unwritable home, with the folder below `caches`."""


class Walls(Value):
    """The policy for one worker."""

    writable: tuple[Path, ...]
    locked: tuple[Path, ...] = ()
    """Read-only within what is writable."""
    shown: tuple[Path, ...] = ()
    """Read-only. Besides it and the system's folders nothing is there."""
    hidden: tuple[Path, ...] = ()
    """Empty, but for what is shown below, and closed."""
    listed: tuple[Path, ...] = ()
    """Folders that can be listed where no name can be hidden: tools fail where they may not list them."""
    network: bool = True


def worker_walls(
    run: RunDir,
    repository: Repository,
    worker: str,
    *,
    mode: Mode,
    environ: Mapping[str, str],
    executable: str = "",
    login: Login = NO_LOGIN,
    network: bool = True,
    tree: Path | None = None,
    readable: tuple[Path, ...] = (),
) -> Walls:
    """Return the policy for a worker, or for a check in a tree of its own.

    `tree` is where it works, if that is not the worktree of its name; `environ` is what it is started with,
    and `readable` what all workers of its project may read.

    `login` is what the agent's CLI must write in the user's home, where no key replaces it.
    """
    tree, taskers = tree or run.worktree(worker), run.root / ".taskers"
    log = message_log(run, worker)
    own = (run.scratch(worker), run.home(worker), log)
    mine, locked = _login_paths(login, environ)
    writes = mode == "write"
    home, path = Path(environ.get("HOME") or "/nonexistent"), environ.get("PATH", os.defpath)
    return Walls(
        writable=(*((tree,) if writes else ()), *(path for path in own if path.exists()), *mine),
        locked=(*((tree / ".git",) if writes else ()), *locked),
        shown=(
            *(run.ticket(worker), *(() if writes else (tree,))),
            *((log.parent,) if log.exists() else ()),  # all messages are read by all workers, and by no check
            *git_reads(home, repository.common),
            # Not the environments that the tree has of its own: a worker may have changed where they lead.
            *programs_on(":".join(one for one in path.split(":") if not one.startswith(f"{taskers}/")), home),
            *(program(executable, home) if executable.startswith("/") else ()),
            *(path for path in named_in(environ, home) if taskers not in path.parents),
            *readable,
        ),
        hidden=(run.root, taskers, repository.own, *homes(environ.get("HOME"))),
        listed=(run.root, *_listed_above(run.root, readable, home)),
        network=network,
    )


def settings_above(run: RunDir) -> tuple[Path, ...]:
    """Return the settings that tools find above the trees of a run, for a fence that hides no name."""
    tracked = git_fields("ls-files", "-z", "--", ":(top,glob)*", cwd=run.root)
    return tools_above(run.worktree("any"), run.root, tracked)


def _listed_above(root: Path, readable: tuple[Path, ...], home: Path) -> Iterator[Path]:
    """Yield the folders above a project of which a file is shown: pytest lists that of its settings."""
    for folder in {path.parent for path in readable}.intersection(root.parents):
        if not is_wide(folder, home):
            yield folder


def message_log(run: RunDir, worker: str) -> Path:
    """Return the path of a worker's own message log, which no other process writes."""
    return run.root / f".taskers/messages/{run.id}.{worker}.jsonl"


def cache_environment(scratch: Path) -> dict[str, str]:
    """Return the variables that make tools keep their caches in a worker's scratch directory."""
    return {name: str(scratch / "caches" / below) for name, below in CACHES.items()}


def _login_paths(login: Login, environ: Mapping[str, str]) -> tuple[list[Path], list[Path]]:
    home = Path(environ.get("HOME") or "/nonexistent")
    written = [home / folder for folder in login.folders if (home / folder).exists()]
    return written, [folder / name for folder in written for name in login.locked if (folder / name).exists()]
