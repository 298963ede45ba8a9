"""The project's own commands in trees of ours: setup, acceptance and the gate; fenced, limited, keyless."""

import itertools
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import anyio
import anyio.to_thread

from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import AcceptanceResult, TreeSetUp
from orchestrator.settings.settings import Settings
from workers.engine.command import Command, describe_end, run_command
from workers.engine.launch import cancel_paths, mark_of, worker_environment
from workers.engine.process import wait_adopted
from workers.fence.policy import worker_walls
from workers.fence.probe import Level
from workers.files.exit_record import is_held
from workers.shim.spec import Limits
from workers.worktree.checkout import Furniture, make_tree
from workers.worktree.worktree import Place, remove_place

EVIDENCE = ("exited", "timed_out", "idle", "output_cap")
"""Ends of a command that are evidence about the tree that it ran in; with any other it did not get to run."""


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
    fenced: str = ""
    """What the fence denies it, where it failed and its output suggests that as the reason."""

    def in_words(self) -> str:
        """Describe how it failed, on one line."""
        return f"`{self.command}` ({describe_end(self.end, self.exit_code)}; see {self.output})"

    def recorded(self) -> AcceptanceResult:
        """Return what a worker's record keeps of it."""
        return AcceptanceResult(
            self.command, self.passed, self.exit_code, self.end, self.seconds, self.output
        )


async def run_check(
    runtime: Runtime,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    before: Callable[[Place, Path], None] | None = None,
) -> CheckResult:
    """Run one command by `sh -c` in a fresh worktree of `tree`, set up like a worker's, without any key.

    `before` prepares the worktree and the scratch folder further. `name` is unique in the run; a check that
    an earlier runtime had begun is run again beside its files. One that did not get to run, or whose shim is
    gone, is no evidence about the work: it is run once more.
    """
    result = await _run_once(runtime, name, command, tree, parent, before=before)
    if result.end not in (*EVIDENCE, "cancelled") and not runtime.stopping:
        result = await _run_once(runtime, name, command, tree, parent, before=before)
    return result


def furniture_of(settings: Settings) -> Furniture:
    """Return what is copied and linked into a tree."""
    return Furniture(settings.worktree.copy, settings.worktree.link)


def is_furnished(settings: Settings) -> bool:
    """Return whether anything is brought into a tree beyond its checkout."""
    return bool(settings.worktree.setup or settings.worktree.copy or settings.worktree.link)


async def set_up(runtime: Runtime, tree: str) -> CheckResult | None:
    """Run the setup commands in a tree of the run; return the first that failed, after which none is run."""
    for at, command in enumerate(runtime.settings.worktree.setup, 1):
        stem = await _free_stem(runtime, f"{tree}.setup-{at}")
        result = await _run_in_tree(
            runtime, stem, command, tree=tree, limit=runtime.settings.worktree.setup_timeout
        )
        runtime.note(TreeSetUp(tree, command, result.passed, result.seconds))
        if not result.passed:
            return result
    return None


async def end_earlier_set_up(runtime: Runtime, tree: str) -> None:
    """Stop the setup commands that an earlier runtime left running in a tree that it had not finished."""
    for at in range(1, len(runtime.settings.worktree.setup) + 1):
        await _free_stem(runtime, f"{tree}.setup-{at}")


def describe_failed_set_up(failed: CheckResult) -> str:
    """Describe how a setup command failed, with the last line that it printed."""
    lines = [line.strip() for line in failed.tail.splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    fenced = f"; {failed.fenced}" if failed.fenced else ""
    return f"setup failed: {failed.in_words()}{last}{fenced}"


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
_UNSET = re.compile(r"unbound variable|parameter (?:not set|null)|KeyError: '[A-Z][A-Z0-9_]*'")


def fence_signs(level: Level, network: Literal["open", "none"], root: str, command: str, printed: str) -> str:
    """Describe what the fence denies a command, where its output suggests that as the reason; else `""`.

    `root` is the project's folder: that it is below `/tmp` means nothing.
    """
    if level == "advisory":
        return ""
    said = f"{command}\n{printed}".replace(root, "")
    hides, closed = level == "namespaces", network == "none"
    signs = [_REFUSED, _UNSET, *([_EMPTY] if hides else []), *([_UNREACHED] if closed else [])]
    if not any(sign.search(said) for sign in signs):
        return ""
    has = [*(["an empty /tmp"] if hides else []), *(["no network"] if closed else []), "no keys"]
    return f"it ran fenced ({', '.join(has)}; only its tree and $TMPDIR are writable)"


async def _run_once(
    runtime: Runtime,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    before: Callable[[Place, Path], None] | None,
) -> CheckResult:
    stem = await _free_stem(runtime, name)
    scratch = runtime.run.scratch(stem)
    scratch.mkdir(parents=True, exist_ok=True)
    async with runtime.trees.making:
        place = await anyio.to_thread.run_sync(_make_tree, runtime, stem, tree, parent)
    try:
        failed = await set_up(runtime, stem)
        if failed is not None:
            return failed
        if before is not None:
            before(place, scratch)
        limit = runtime.settings.limits.acceptance_timeout
        return await _run_in_tree(runtime, stem, command, tree=stem, limit=limit)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_place, place)
            await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))


def _make_tree(runtime: Runtime, stem: str, tree: str, parent: str) -> Place:
    commit = runtime.checker.commit(tree, parent, f"orchestrate: tree of {stem}")
    index = runtime.checker.directory / f"{stem}.index"
    path = runtime.run.worktree(stem)
    return make_tree(
        runtime.repository, runtime.checker, path, commit, index, furniture=furniture_of(runtime.settings)
    ).place


async def _run_in_tree(runtime: Runtime, stem: str, text: str, *, tree: str, limit: float) -> CheckResult:
    """Run a command in the worktree of the run that is called `tree`, where it may write.

    `limit` is in seconds; `stem` is unique in the run and names its records and its output.
    """
    runtime.run.scratch(tree).mkdir(parents=True, exist_ok=True)
    fence, network = runtime.site.fence, runtime.settings.agent("command").network
    command = Command(
        text,
        runtime.run.path / "checks",
        stem,
        cwd=runtime.run.worktree(tree),
        env=worker_environment(runtime.run, tree, runtime.environ, fence=fence),
        limits=Limits(limit, runtime.settings.limits.grace, runtime.settings.limits.output_cap),
        cancel_paths=_cancels(runtime, stem),
        mark=mark_of(runtime.run, stem),
        fence=fence,
        walls=worker_walls(
            runtime.run,
            runtime.repository,
            tree,
            mode="write",
            environ=runtime.environ,
            network=network == "open",
        ),
    )
    ran = await run_command(runtime.nursery, command)
    ended, tail = ran.ended, ran.stdout + ran.stderr
    fenced = "" if ran.passed else fence_signs(fence.level, network, str(runtime.run.root), text, tail)
    output = runtime.run.relative(ran.output)
    return CheckResult(text, ran.passed, ended.exit_code, ended.end, ended.seconds, output, tail, fenced)


def _cancels(runtime: Runtime, stem: str) -> tuple[Path, ...]:
    """Return the files that stop a check: its own, and what stops its worker, where it has one."""
    worker = stem.partition(".")[0]
    own, everyone, stopping = cancel_paths(runtime.run, stem)
    if worker in runtime.state.workers:
        return own, everyone, stopping, *cancel_paths(runtime.run, worker)[:1]
    # What a run had completed before it was cancelled can land: its gate must not be cancelled with it.
    return (own, stopping) if everyone.exists() else (own, everyone, stopping)


async def _free_stem(runtime: Runtime, name: str) -> str:
    """Return a free name for a command's files; one that an earlier runtime left running is stopped first."""
    folder = runtime.run.path / "checks"
    free = next(n for n in itertools.count(1) if not (folder / f"{_numbered(name, n)}.started.json").exists())
    for number in range(1, free):
        await _end_earlier(runtime, _numbered(name, number))
    return _numbered(name, free)


async def _end_earlier(runtime: Runtime, stem: str) -> None:
    """Stop a command that a killed runtime left running: no caller waits for its result any more."""
    folder = runtime.run.path / "checks"
    started = folder / f"{stem}.started.json"
    if is_held(started):
        cancel = cancel_paths(runtime.run, stem)[0]
        cancel.parent.mkdir(exist_ok=True)
        cancel.touch()
        mark = mark_of(runtime.run, stem)
        await wait_adopted(stem, folder / f"{stem}.exit.json", started, mark=mark)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}.{number}"
