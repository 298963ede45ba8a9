"""A project's own command in a worktree of a run: setup, acceptance or gate; fenced, without keys."""

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from workers.agents.stream import printable
from workers.engine.command import Command, describe_end, run_command
from workers.engine.job import SetUp, Site
from workers.engine.launch import cancel_paths, folder_in, mark_of, worker_environment
from workers.engine.process import ForkServer, wait_adopted
from workers.fence.places import ALWAYS, exists
from workers.fence.policy import worker_walls
from workers.fence.probe import Level
from workers.files.exit_record import is_held
from workers.shim.spec import Limits
from workers.worktree.checkout import lacks

EVIDENCE = ("exited", "timed_out", "idle", "output_cap")
"""Ends of a command that are evidence about the tree that it ran in; with any other it did not get to run."""


class Check(NamedTuple):
    """One command for `sh -c`, run in a fresh worktree."""

    name: str
    """Unique in the run; a check that an earlier runtime had begun is run again beside its files."""
    command: str
    tree: str
    """The tree object that is checked out."""
    parent: str
    """The commit of which the tree is a change."""
    set_up: SetUp
    limits: Limits
    network: bool = True
    worker: str = ""
    """The worker whose work is checked, and whose cancel stops it; empty for the run's own."""
    head: str = ""
    """The commit that HEAD names in the worktree, if it is not the checked-out one."""
    files: Mapping[str, bytes] = {}  # it is never changed
    """Files to make in its folder for temporary files, by name."""
    env: Mapping[str, str] = {}  # as above
    """Further variables."""
    cwd: str = ""
    """The folder of the worktree that it is run in."""


class CheckResult(NamedTuple):
    """How one command ended."""

    command: str
    passed: bool
    exit_code: int | None
    end: str
    seconds: float
    output: str
    """The path of what it printed, relative to the root."""
    tail: str
    hint: str = ""
    """The probable reason of its failure: a file that its tree lacks, or what the fence denies it."""

    def in_words(self) -> str:
        """Describe its failure on one line."""
        return f"`{self.command}` ({describe_end(self.end, self.exit_code)}; see {self.output})"

    def as_failed_set_up(self) -> str:
        """Describe the failure of a setup command, with the last line of its output."""
        lines = [line for text in self.tail.splitlines() if (line := printable(text))]
        last = f": {lines[-1][:300]}" if lines else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"setup failed: {self.in_words()}{last}{hint}"


class TreeCommand(NamedTuple):
    """A command in a worktree of a run, where it may write."""

    text: str
    stem: str
    """Unique in the run; names its records and its output."""
    tree: str
    """The name of the worktree."""
    limits: Limits
    network: bool
    worker: str = ""
    env: Mapping[str, str] = {}  # as above
    cwd: str = ""
    """These three as in `Check`."""


async def run_in_tree(site: Site, fork_server: ForkServer, command: TreeCommand) -> CheckResult:
    """Run a command in a worktree of the run. Raises WorkerError if no shim is available."""
    run, fence, text, tree = site.run, site.fence, command.text, site.run.worktree(command.tree)
    env = worker_environment(site, command.tree, tree, more=command.env)
    run.scratch(command.tree).mkdir(parents=True, exist_ok=True)
    folder = folder_in(tree, command.cwd)
    # A worker may have removed it: that is a failure of the command like any other.
    lost = f"echo 'cwd: {command.cwd} is not a folder of this tree' >&2; exit 1"
    walls = worker_walls(
        run,
        site.repository,
        command.tree,
        mode="write",
        environ=env,
        network=command.network,
        readable=site.readable,
    )
    ran = await run_command(
        fork_server,
        Command(
            text if folder else lost,
            run.path / "checks",
            command.stem,
            cwd=folder or tree,
            env=env,
            limits=command.limits,
            cancel_paths=_cancels(site, command),
            mark=mark_of(run, command.stem),
            fence=fence,
            walls=walls,
        ),
    )
    ended, tail = ran.ended, ran.stdout + ran.stderr
    hint = ""
    if not ran.passed:
        said = partial(lacks, run.root, tree, command.cwd, f"{text}\n{tail}")
        signs = fence_signs(fence.level, str(run.root), text, tail, network=command.network)
        hidden = hidden_path(fence.level, run.root, env.get("HOME", ""), walls.shown, tail)
        guessed = "; ".join(filter(None, (signs, hidden)))
        hint = full_disk(tail) or await anyio.to_thread.run_sync(said) or guessed
    output = run.relative(ran.output)
    tail = site.redactor.clean(tail)
    return CheckResult(text, ran.passed, ended.exit_code, ended.end, ended.seconds, output, tail, hint)


async def free_stem(site: Site, name: str) -> str:
    """Return a free name for a command's files; an earlier runtime's leftover command is stopped first."""
    folder = site.run.path / "checks"
    free = next(n for n in itertools.count(1) if not (folder / f"{_numbered(name, n)}.started.json").exists())
    for number in range(1, free):
        await _stop_earlier(site, _numbered(name, number))
    return _numbered(name, free)


_EMPTY = re.compile(r"""(?<![\w.-])(?:/var)?/(?:tmp|run)(?=[/\s'"`:;,)]|$)""")
"""Folders that are empty behind namespaces."""
_REFUSED = re.compile(
    r"read-only file system|permission denied|operation not permitted|\bEROFS\b|\bEACCES\b", re.IGNORECASE
)
_UNREACHED = re.compile(
    r"network is unreachable|could not resolve|name resolution|name or service not known|getaddrinfo"
    r"|connection refused|\bENOTFOUND\b|\bECONNREFUSED\b|\bENETUNREACH\b|failed to connect|no route to host",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"no such file|not found|cannot find|does not exist|\bENOENT\b|permission denied|\bEACCES\b",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device|\bENOSPC\b|disk quota exceeded|\bEDQUOT\b", re.IGNORECASE)
_PATHS = re.compile(r"""(?<![\w.~/-])~?/[^\s'"`:;,()\[\]]+""")
_UNSET = re.compile(r"unbound variable|parameter (?:not set|null)|KeyError: '[A-Z][A-Z0-9_]*'")


def full_disk(printed: str) -> str:
    """Name a full disk as the reason of a failure, where a process printed that it met one; else `""`."""
    return "the disk is full: free some space, then run it again" if _FULL.search(printed) else ""


def fence_signs(level: Level, root: str, command: str, printed: str, *, network: bool) -> str:
    """Describe what the fence denies a command, where its output suggests that as the reason; else `""`.

    `root` is the project's folder: that it is below `/tmp` means nothing.
    """
    if level == "advisory":
        return ""
    text = f"{command}\n{printed}".replace(root, "")
    hides = level == "namespaces"
    signs = [_REFUSED, _UNSET, *([_EMPTY] if hides else []), *([] if network else [_UNREACHED])]
    if not any(sign.search(text) for sign in signs):
        return ""
    has = [*(["an empty /tmp"] if hides else []), *([] if network else ["no network"]), "no keys"]
    return f"it ran fenced ({', '.join(has)}; only its tree and $TMPDIR are writable)"


def hidden_path(level: Level, root: Path, home: str, shown: Iterable[Path], printed: str) -> str:
    """Name a path that is missing by what a process printed, and is there outside of its fence; else `""`.

    `shown` is what its fence shows besides the folders of the system.
    """
    if level == "advisory" or not _MISSING.search(printed):
        return ""
    seen = [*ALWAYS, Path("/proc"), Path("/dev"), root / ".taskers", *shown]
    for line in filter(_MISSING.search, printed.splitlines()):
        for said in _PATHS.findall(line):
            path = Path(f"{home}{said[1:]}" if said[0] == "~" else said)
            if exists(path) and not root.is_relative_to(path) and not any(map(path.is_relative_to, seen)):
                keys = "`[worktree] copy` or `[fence] read`" if root in path.parents else "`[fence] read`"
                return f"the fence keeps {path} from it; {keys} in orchestrate.toml shows it"
    return ""


def _cancels(site: Site, command: TreeCommand) -> tuple[Path, ...]:
    """Return the files that stop a command: its own, and those of its worker, where it has one."""
    own, everyone, stopping = cancel_paths(site.run, command.stem)
    if command.worker:
        return own, everyone, stopping, site.run.cancel_path(command.worker)
    # What a run had completed before it was cancelled can land: its gate must not be cancelled with it.
    return (own, stopping) if everyone.exists() else (own, everyone, stopping)


async def _stop_earlier(site: Site, stem: str) -> None:
    """Stop a command that a killed runtime left running: no caller waits for its result any more."""
    folder = site.run.path / "checks"
    started = folder / f"{stem}.started.json"
    if is_held(started):
        cancel = site.run.cancel_path(stem)
        cancel.parent.mkdir(exist_ok=True)
        cancel.touch()
        await wait_adopted(stem, folder / f"{stem}.exit.json", started, mark=mark_of(site.run, stem))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}.{number}"
