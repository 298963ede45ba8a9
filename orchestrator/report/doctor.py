"""The checks of `doctor`: agents, git, fence, locks, runs, disk, files. Reads only."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import Refusal
from orchestrator.prepare.doubts import unlinked_environments, unwritable
from orchestrator.report._documents import file_problems, owners
from orchestrator.report.situation import Situation
from orchestrator.runs.next_action import next_of_run
from orchestrator.schedule.availability import (
    doubted_environments,
    unmet_fence,
    why_disabled,
)
from orchestrator.settings.settings import Settings
from orchestrator.settings.values import Tables
from orchestrator.state.canonical.rules import rules
from orchestrator.step import Step, step_text
from orchestrator.store.intent import waiting
from tickets.problems import Problem
from tickets.types import AGENTS, AgentName
from tickets.value import Value
from tickets.wording import some_of
from workers.agents.agent import FenceWanted, agent_named, find_agent, hooks_run
from workers.fence.exposed import sockets, tokens
from workers.fence.places import git_reads
from workers.fence.probe import fence_in_force
from workers.files.locks import is_locked
from workers.git.run import GitError, Repository, git, git_line
from workers.pool.slots import Taken, holders

if TYPE_CHECKING:
    from workers.engine.versions import Said

LIMIT = 10.0
"""Seconds that a program may take to print its version."""
OLDEST_GIT = (2, 31)
_STRONGER = "install bubblewrap: `apt install bubblewrap`, or `pip install 'orchestrate[fence]'`"
_ALLOW = "permit user namespaces for bubblewrap (docs/fence.md, *Install a fence*)"
_MEND = {
    "the index cannot be read": "`git read-tree HEAD` makes it anew; staged changes stay in the work tree",
    "the last commit cannot be read": "`git fsck` lists what is damaged; fetch it from another clone",
}
LOW_DISK, FULL_DISK = 2 * 10**9, 2 * 10**8
"""Bytes free: below the first outputs may be cut, below the second a worktree may not fit."""


class AgentFound(Value):
    """One agent: whether it may run, and whether it can."""

    agent: AgentName
    enabled: bool
    executable: str | None
    version: str
    """Its answer to `--version`; empty where it has none."""
    usable: bool
    reason: str
    """Why it is not usable, or that it is disabled; empty where it is usable."""
    config: str = ""
    """The configuration that its workers use; empty where it has none, or is not installed."""
    messages: str = ""
    """When messages reach its workers while they run: `between tool calls` or `with its tools`."""


class FenceFound(Value):
    """The fence that keeps workers inside their tree."""

    level: str
    reason: str
    root: bool


class RunFound(Value):
    """A run that is not integrated."""

    run: str
    phase: str
    status: str
    next_action: Step


class Examination(Value):
    """All findings; `problems` with an error among them stop runs."""

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
    is_refused: bool = False
    """Whether git refuses the repository, so that nothing can be written."""
    problems: tuple[Problem, ...] = ()


def examine(
    project: Situation | None, start: Path, environ: Mapping[str, str], nowhere: Sequence[Problem] = ()
) -> Examination:
    """Check everything that a run needs; without a repository (`nowhere` says why), all that needs none."""
    problems: list[Problem] = []
    settings = _settings(project, problems)
    git, fault = _git_version(environ)
    problems += [fault] if fault else git_problems(git)
    agents = _agents(settings, environ)
    problems += [*_agent_problems(agents), *_setting_problems(agents, settings, environ)]
    held = fence_in_force(settings.fence.level)
    fence = FenceFound(held.level, held.reason, os.geteuid() == 0)
    problems += [*unmet_fence(settings, held), *fence_problems(fence, settings.fence.level)]
    problems += open_sockets(fence.level, sockets(environ) if fence.level != "namespaces" else [])
    problems += memory_problems()
    found = Examination(git, sys.version.partition(" ")[0], agents, fence)
    if project is None:
        problems += nowhere
        return found._replace(free=shutil.disk_usage(start).free, problems=tuple(problems))
    repository = project.repository
    problems += [*unwritable(repository), *_file_problems(project)]
    problems += _readable_tokens(repository, environ) if held.holds else []
    problems += doubted_environments(settings, repository.root, environ)
    problems += unlinked_environments(settings, repository.root).values()
    slots = tuple(holders(repository.own / "slots"))
    problems += [_dirty(taken) for taken in slots if taken.dirty]
    obstacles = project.obstacles if git else ()
    pending = _pending(project, obstacles, problems) if git else ()
    runs = tuple(
        RunFound(state.run.id, state.phase, state.status(), next_of_run(state))
        for state in project.unfinished
    )
    problems += project.unreadable_open
    problems += [_unfinished(run) for run in runs if run.status != "running"]
    free = shutil.disk_usage(repository.root).free
    problems += disk_problems(free)
    return found._replace(
        is_refused=bool(obstacles),
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


def fence_problems(fence: FenceFound, wanted: FenceWanted = "auto") -> list[Problem]:
    """Describe what would make the fence stronger; as root every layer is weaker."""
    found = []
    if fence.level != "namespaces" and wanted in ("auto", "required") and sys.platform == "linux":
        do = _STRONGER if "not installed" in fence.reason else _ALLOW
        found.append(
            Problem("fence", f"is {fence.level}, and namespaces hold more: {fence.reason}", do, "warning")
        )
    if not fence.root:
        return found
    what = "workers run as root, the weakest case at every level"
    if fence.level == "advisory":
        what = "workers run as root and without a fence, so they can change any file"
    return [*found, Problem("fence", what, "run orchestrate as an ordinary user", "warning")]


def open_sockets(level: str, found: Sequence[str]) -> list[Problem]:
    """Name the servers of the user's that a fence cannot keep workers from."""
    if not found:
        return []
    what = "Landlock cannot" if level == "landlock" else "nothing can"
    what = f"{what} keep workers from servers of yours: {some_of(found)}"
    return [Problem("fence", what, "use namespaces, or stop them while workers run", "warning")]


def _readable_tokens(repository: Repository, environ: Mapping[str, str]) -> list[Problem]:
    home = Path(environ.get("HOME") or "/nonexistent")
    files = [repository.common / "config", *git_reads(home, repository.common)]
    what = "holds a token or a password, and fenced workers read it: git must"
    return [
        Problem(path, what, "move it to a credential helper (`git help credentials`)", "warning")
        for path in tokens(files)
    ]


def memory_problems() -> list[Problem]:
    """Return a warning where the address space of each program is limited: agent CLIs reserve gigabytes."""
    from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit  # noqa: PLC0415 - for start-up time

    limit = getrlimit(RLIMIT_AS)[0]
    if limit == RLIM_INFINITY:
        return []
    what = f"each program gets {limit // 10**6} MB of address space at most, and an agent CLI may not start"
    return [Problem("ulimit -v", what, "`ulimit -v unlimited`", "warning")]


def disk_problems(free: int) -> list[Problem]:
    """Return a problem where the disk is full, or nearly."""
    if free >= LOW_DISK:
        return []
    what = f"{free // 10**6} MB are free"
    return [Problem(".taskers", what, "make room", "error" if free < FULL_DISK else "warning")]


def _git_version(environ: Mapping[str, str]) -> tuple[str, Problem | None]:
    """Ask git for its version; a git that refuses even that says why."""
    path = shutil.which("git", path=environ.get("PATH"))
    if path is None:
        return "", None
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", None
    if done.returncode:
        return "", GitError(["--version"], done.returncode, done.stderr.decode("utf-8", "replace")).problem
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip(), None


def _settings(project: Situation | None, problems: list[Problem]) -> Settings:
    if project is not None:
        try:
            settings = project.settings
        except Refusal as refusal:
            problems += refusal.problems
        else:
            problems += settings.warnings
            return settings
    return Settings.of(Tables(), rules.Pool())


def _agents(settings: Settings, environ: Mapping[str, str]) -> tuple[AgentFound, ...]:
    located = {name: find_agent(name, settings.agent(name), environ) for name in AGENTS}
    programs = {name: path for name, path in located.items() if path and name != "command"}
    said = _versions(programs, environ) if programs else {}
    found = (
        _agent(name, settings, located[name], said.get(name))._replace(messages=_reached(name, environ))
        for name in AGENTS
    )
    return tuple(_with_login(one, settings, environ) if one.executable else one for one in found)


def _with_login(found: AgentFound, settings: Settings, environ: Mapping[str, str]) -> AgentFound:
    """Add the configuration of an agent's workers; without key and login it is not usable."""
    found = found._replace(config=config_of(found.agent, environ))
    table = settings.agent(found.agent)
    # A program, arguments or variables of the user's may have another way to log in.
    if (
        found.usable
        and not (table.executable or table.args or table.env)
        and not has_login(found.agent, environ)
    ):
        return found._replace(usable=False, reason=found.config)
    return found


def _reached(name: AgentName, environ: Mapping[str, str]) -> str:
    """Return when messages reach an agent's workers; command workers ask for theirs."""
    if name == "command":
        return ""
    return "between tool calls" if hooks_run(agent_named(name), environ) else "with its tools"


def _versions(programs: Mapping[str, str], environ: Mapping[str, str]) -> "Mapping[str, Said]":
    from workers.engine.versions import ask_versions  # noqa: PLC0415 - for start-up time: few have all agents

    return ask_versions(programs, environ, LIMIT)


def _agent(name: AgentName, settings: Settings, path: str | None, said: "Said | None") -> AgentFound:
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


def _setting_problems(
    agents: tuple[AgentFound, ...], settings: Settings, environ: Mapping[str, str]
) -> list[Problem]:
    """Return warnings about what is set for an agent and not read by it, or not set and costs."""
    found = []
    for one in agents:
        if not (one.enabled and one.executable):
            continue
        cli = agent_named(one.agent)
        found += [
            Problem(
                name,
                f"is set, and {one.agent} does not read it",
                f"set {cli.BASE_URL} for another server",
                "warning",
            )
            for name in cli.NOT_HEARD
            if environ.get(name) and cli.BASE_URL and not environ.get(cli.BASE_URL)
        ]
        if cli.WITHOUT_MODEL and not settings.agent(one.agent).model:
            do = f"set `[agents.{one.agent}] model`, or `model` in its templates"
            found.append(Problem(one.agent, f"no model is set: {cli.WITHOUT_MODEL}", do, "warning"))
    return found


def _git_faults(project: Situation) -> list[Problem]:
    """Return what is damaged of git's own files that a run needs: the index, the last commit."""
    root, found = project.repository.root, []
    asks = {
        "the index cannot be read": ("diff-index", "--cached", "--quiet", "HEAD"),
        "the last commit cannot be read": ("rev-list", "--objects", "--no-walk", "--missing=print", "HEAD"),
    }
    for what, command in asks.items():
        try:
            said = git(*command, cwd=root, patience=LIMIT)
        except GitError as error:
            if error.code != 1:  # there are staged changes
                found.append(Problem(".git", f"{what}: {error.said}", _MEND[what], "error"))
            continue
        missing = [line[1:].decode() for line in said.split(b"\n") if line.startswith(b"?")]
        if missing and not git_line("config", "extensions.partialClone", cwd=root, check=False):
            lost = f"objects of the last commit are missing: {some_of(missing)}"
            found.append(Problem(".git", lost, _MEND["the last commit cannot be read"], "error"))
    return found


def _pending(project: Situation, obstacles: Sequence[Problem], problems: list[Problem]) -> tuple[str, ...]:
    """Return the changes that wait to be completed, and note the state of the repository."""
    if obstacles:
        problems += obstacles
    elif project.head.sha is None:
        problems.append(Problem(".git", "there is no commit yet, and workers start from one", "commit first"))
    else:
        problems += [*_git_faults(project), *project.unmerged]
    if busy := project.in_progress:
        problems.append(Problem(".git", f"{busy} is in progress", "finish or abort it first"))
    pending = tuple(waiting(project.repository))
    problems += [
        Problem("state files", what, "`orchestrate resume` completes it", "warning") for what in pending
    ]
    return pending


def _file_problems(project: Situation) -> list[Problem]:
    found: list[Problem] = []
    for path, document in owners(project.repository.root, project.families).items():
        text = project.text(path)
        found += project.unread(path)
        found += [] if text is None else file_problems(document, path, text, project.approved_pool)
    return found


def _dirty(taken: Taken) -> Problem:
    who = f"{taken.holder.get('worker', 'a worker')} of run {taken.holder.get('run', 'unknown')}"
    what = f"{who} ended without a record; its remains are cleared when the slot is taken next"
    return Problem(taken.slot, what, "", "warning")


def _unfinished(run: RunFound) -> Problem:
    return Problem(run.run, f"this run of {run.phase} is {run.status}", step_text(run.next_action), "warning")


def has_login(agent: AgentName, environ: Mapping[str, str]) -> bool:
    """Return whether there is a key, or a folder of a login, for an agent."""
    cli, home = agent_named(agent), Path(environ.get("HOME") or "/nonexistent")
    if not cli.KEYS or any(environ.get(name) for name in cli.KEYS):
        return True
    return any((home / place).exists() for place in cli.LOGIN.folders)


def config_of(agent: AgentName, environ: Mapping[str, str]) -> str:
    """Describe the user's configuration that the workers of an agent use; empty for a command."""
    cli = agent_named(agent)
    variable, login = cli.CONFIG_VARIABLE, cli.LOGIN
    if variable is None:
        return ""
    keys = [name for name in cli.KEYS if environ.get(name)]
    theirs = " and ".join(f"~/{place}" for place in login.folders)
    if keys:
        own = f"{keys[0]} is set: each worker has a {variable} of its own"
        return f"{own}; nothing of {theirs} is linked, copied, read or written"
    home = Path(environ.get("HOME") or "/nonexistent")
    here = [place for place in login.folders if (home / place).exists()]
    if not here:
        return f"no key is set ({', '.join(cli.KEYS)}), and there is no {theirs}: log in, or set one"
    shared = f"no key is set: all workers use {' and '.join(f'~/{place}' for place in here)} as it is"
    locked = [name for place in here for name in login.locked if (home / place / name).exists()]
    said = f", but for {', '.join(locked)}, which a fence keeps read-only" if locked else ""
    return f"{shared}; nothing is linked or copied, and their files stay there{said}"
