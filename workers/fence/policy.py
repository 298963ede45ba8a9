"""The policy of the fence for one worker: writable, visible and hidden paths, without the mechanism."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tickets.types import Mode
from tickets.value import Value
from workers.agents.agent import NO_LOGIN, Login
from workers.files.run_dir import RunDir
from workers.git.run import Repository

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
    """Read-only, wherever it lies; all else is read-only, too, unless it is hidden."""
    hidden: tuple[Path, ...] = ()
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
) -> Walls:
    """Return the policy for a worker, or for a check in a tree of its own.

    `tree` is where it works, if that is not the worktree of its name.

    `login` is what the agent's CLI must write in the user's home, where no key replaces it.
    """
    tree, ticket = tree or run.worktree(worker), run.ticket(worker)
    taskers = run.root / ".taskers"
    own = (run.scratch(worker), run.home(worker), message_log(run, worker))
    mine, locked = _login_paths(login, environ)
    writes = mode == "write"
    return Walls(
        writable=(*((tree,) if writes else ()), *(path for path in own if path.exists()), *mine),
        locked=(*((tree / ".git",) if writes else ()), *locked),
        shown=(
            *(run.root, repository.common, taskers / "messages", ticket, *(() if writes else (tree,))),
            *_tools(environ, executable),
        ),
        hidden=(taskers, repository.own),
        network=network,
    )


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


def _tools(environ: Mapping[str, str], executable: str) -> Iterator[Path]:
    """Yield the folders of the programs that a worker starts, and its home; most are visible anyway."""
    yield from (Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder[:1] == "/")
    if home := environ.get("HOME"):
        yield Path(home)
    if "/" in executable:
        found = Path(executable)
        for program in (found, found.resolve()):
            package = package_of(program)
            # Not a single link, unless it is directly in /tmp: a file in its place would miss its package.
            yield package if len(package.parts) > 2 else program


def package_of(program: Path) -> Path:
    """Return the folder of a program and all that it needs: npm packages, a prefix, or just its own."""
    if "node_modules" in program.parts:
        return Path(*program.parts[: program.parts.index("node_modules") + 1])
    return program.parent.parent if program.parent.name == "bin" else program.parent
