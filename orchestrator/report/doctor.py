"""What `doctor` finds: agents, git, fence, locks, runs, disk, files. It looks, and writes nothing."""

import os
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import Refusal
from orchestrator.report._versions import Said, ask_versions
from orchestrator.report.agent_config import config_of
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.state import unfinished_runs
from orchestrator.schedule.availability import unmet_fence, why_disabled
from orchestrator.settings.settings import Settings, read_settings
from orchestrator.settings.values import Tables
from orchestrator.state import DOCUMENTS, NEEDED
from orchestrator.state.canonical.rules import rules
from orchestrator.store.read import bytes_of
from tickets.problems import Problem
from tickets.types import AGENTS, AgentName
from workers.agents.agent import find_agent
from workers.fence.probe import fence_in_force
from workers.files.locks import is_locked
from workers.git.run import Repository
from workers.pool.slots import Taken, holders

OLDEST_GIT = (2, 31)
LOW_DISK, FULL_DISK = 2 * 10**9, 2 * 10**8
"""Bytes free: below the first outputs may be cut, below the second no worktree can be counted on."""


class AgentFound(NamedTuple):
    """One agent: whether it may run, and whether it can."""

    agent: AgentName
    enabled: bool
    executable: str | None
    version: str
    """What it answers to `--version`; empty where it does not."""
    usable: bool
    reason: str
    """Why it is not usable, or that it is off; empty where all is well."""
    config: str = ""
    """Whose configuration its workers use; empty where it has none, or is not installed."""


class FenceFound(NamedTuple):
    """What keeps workers inside their tree."""

    level: str
    reason: str
    root: bool


class RunFound(NamedTuple):
    """A run that is not integrated."""

    run: str
    phase: str
    status: str
    next_action: str


class Examination(NamedTuple):
    """All that was found; `problems` with an error among them stop runs."""

    git: str
    """Its version; empty where it is not installed."""
    python: str
    agents: tuple[AgentFound, ...]
    fence: FenceFound
    store_locked: bool = False
    slots: tuple[Taken, ...] = ()
    pending: tuple[str, ...] = ()
    runs: tuple[RunFound, ...] = ()
    free: int = 0
    """Bytes free where `.taskers` is."""
    problems: tuple[Problem, ...] = ()


def examine(repository: Repository | None, start: Path, environ: Mapping[str, str]) -> Examination:
    """Check everything that a run needs; without a repository, what can be checked without one."""
    problems: list[Problem] = []
    settings = _settings(repository, problems)
    git = ask_versions({"git": shutil.which("git", path=environ.get("PATH")) or ""}, environ)["git"].text
    problems += git_problems(git)
    agents = _agents(settings, environ)
    problems += _agent_problems(agents)
    held = fence_in_force(settings.fence)
    fence = FenceFound(held.level, held.reason, os.geteuid() == 0)
    problems += [*unmet_fence(settings, held), *fence_problems(fence)]
    found = Examination(git, platform.python_version(), agents, fence)
    if repository is None:
        problems.append(Problem(str(start), "is not inside a git repository", "run `git init` first"))
        return found._replace(free=shutil.disk_usage(start).free, problems=tuple(problems))
    problems += _file_problems(repository.root)
    slots = tuple(holders(repository.own / "slots"))
    problems += [_dirty(taken) for taken in slots if taken.dirty]
    pending = _pending(repository, problems) if git else ()
    runs = tuple(
        RunFound(state.run.id, state.phase, state.status(), next_of_run(state))
        for state in unfinished_runs(repository.root, problems)
    )
    problems += [_unfinished(run) for run in runs if run.status != "running"]
    free = shutil.disk_usage(repository.root).free
    problems += disk_problems(free)
    return found._replace(
        store_locked=is_locked(repository.own / "store.lock"),
        slots=slots,
        pending=pending,
        runs=runs,
        free=free,
        problems=tuple(dict.fromkeys(problems)),
    )


def git_problems(version: str) -> list[Problem]:
    """Return the problems of git, from its answer to `--version`."""
    found = re.search(r"(\d+)\.(\d+)", version)
    oldest = ".".join(map(str, OLDEST_GIT))
    if not version:
        return [Problem("git", "is not installed", f"install git {oldest} or newer")]
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        return [Problem("git", f"`{version}` is too old", f"install git {oldest} or newer")]
    return []


def fence_problems(fence: FenceFound) -> list[Problem]:
    """Describe what root weakens: every layer, and all where there is none."""
    if not fence.root:
        return []
    what = "workers run as root, the weakest case of every layer"
    if fence.level == "advisory":
        what = "workers run as root, so nothing but their ticket keeps them from any file"
    return [Problem("fence", what, "run orchestrate as an ordinary user", "warning")]


def disk_problems(free: int) -> list[Problem]:
    """Return a problem where the disk is full, or nearly."""
    if free >= LOW_DISK:
        return []
    what = f"{free // 10**6} MB are free"
    return [Problem(".taskers", what, "make room", "error" if free < FULL_DISK else "warning")]


def _settings(repository: Repository | None, problems: list[Problem]) -> Settings:
    if repository is not None:
        try:
            settings = read_settings(repository.root)
        except Refusal as refusal:
            problems += refusal.problems
        else:
            problems += settings.warnings
            return settings
    return Settings.of(Tables(), rules.Pool())


def _agents(settings: Settings, environ: Mapping[str, str]) -> tuple[AgentFound, ...]:
    located = {name: find_agent(name, settings.agent(name), environ) for name in AGENTS}
    said = ask_versions({name: path for name, path in located.items() if path and name != "command"}, environ)
    found = (_agent(name, settings, located[name], said.get(name)) for name in AGENTS)
    return tuple(
        one._replace(config=config_of(one.agent, environ) if one.executable else "") for one in found
    )


def _agent(name: AgentName, settings: Settings, path: str | None, said: Said | None) -> AgentFound:
    off = why_disabled(name, settings)
    reason = ""
    if path is None:
        reason = f"not installed (`{settings.agent(name).executable or name}` was not found)"
    elif said is not None and said.fault:
        reason = f"`{path} --version` {said.fault}"
    usable = not off and not reason
    if off:
        reason = f"{off}; {reason}" if reason else off
    # A command worker brings its own program with its ticket.
    return AgentFound(
        name, not off, None if name == "command" else path, said.text if said else "", usable, reason
    )


def _agent_problems(agents: tuple[AgentFound, ...]) -> list[Problem]:
    found = [
        Problem(one.agent, one.reason, "its tickets are skipped, or go to their fallback", "warning")
        for one in agents
        if one.enabled and not one.usable
    ]
    if not any(one.usable for one in agents):
        found.append(Problem("agents", "none is enabled and installed", "install or enable one"))
    return found


def _pending(repository: Repository, problems: list[Problem]) -> tuple[str, ...]:
    """Return what waits to be completed, and note the state of the repository."""
    # What these import cannot be imported where git is missing, which is for us to say.
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415
    from orchestrator.store.store import Store  # noqa: PLC0415

    repo = UserRepo(repository)
    if repo.head().sha is None:
        problems.append(Problem(".git", "there is no commit yet, and workers start from one", "commit first"))
    busy = repo.in_progress()
    if busy:
        problems.append(Problem(".git", f"{busy} is in progress", "finish or abort it first"))
    pending = tuple(Store(repository).pending())
    problems += [
        Problem("state files", what, "`orchestrate resume` completes it", "warning") for what in pending
    ]
    return pending


def _file_problems(root: Path) -> list[Problem]:
    found: list[Problem] = []
    for document in DOCUMENTS:
        for path in document.OWNS:
            try:
                if not set(path) & set("*?[{"):
                    found += document.problems(bytes_of(root / path))
            except FileNotFoundError:
                if path in NEEDED:
                    found.append(Problem(path, "the file is missing", "`orchestrate init` writes it"))
            except OSError as error:
                found.append(Problem(path, f"cannot be read: {error.strerror}", "make it a readable file"))
    return found


def _dirty(taken: Taken) -> Problem:
    who = f"{taken.holder.get('worker', 'a worker')} of run {taken.holder.get('run', 'unknown')}"
    what = f"{who} ended without a record; what is left of it is cleared when the slot is taken next"
    return Problem(taken.slot, what, "", "warning")


def _unfinished(run: RunFound) -> Problem:
    return Problem(run.run, f"this run of {run.phase} is {run.status}", run.next_action, "warning")
