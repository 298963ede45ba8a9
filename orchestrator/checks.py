"""Acceptance commands and the gate: the project's own commands, in a fresh tree that nobody has touched."""

import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from orchestrator.deployment import Deployment
from workers.attempt import cancel_paths, mark_of, worker_environment
from workers.exits import is_held
from workers.fence import enclosed, fence_in_force
from workers.follow import read_tail
from workers.process import Launch, Limits, wait_adopted
from workers.walls import Walls, worker_walls
from workers.worktree import Place, make_place, remove_place


class CheckResult(NamedTuple):
    """What became of one command."""

    command: str
    passed: bool
    exit_code: int | None
    end: str
    seconds: float
    output: str
    """The path of what it printed, relative to the root."""
    tail: str

    def in_words(self) -> str:
        """Say how it failed, on one line."""
        how = f"exit code {self.exit_code}" if self.end == "exited" else self.end.replace("_", " ")
        return f"`{self.command}` ({how}; see {self.output})"

    def as_json(self) -> dict[str, Any]:
        """Give what stands in a worker's record."""
        return {name: value for name, value in self._asdict().items() if name != "tail"}


async def run_check(
    d: Deployment,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    before: Callable[[Place, Path], None] | None = None,
) -> CheckResult:
    """Run one command by `sh -c` in a fresh worktree of `tree`, below a shim, without any key.

    `before` prepares the worktree and the scratch folder further.

    `name` is unique in the run; a check that an earlier runtime had begun is run again beside its leavings.
    """
    folder = d.run.path / "checks"
    free = next(n for n in itertools.count(1) if not (folder / f"{_numbered(name, n)}.started.json").exists())
    stem = _numbered(name, free)
    for number in range(1, free):
        await _see_dead(d, _numbered(name, number))
    scratch = d.run.scratch(stem)
    scratch.mkdir(parents=True, exist_ok=True)
    nothing = folder / "nothing"
    nothing.touch()
    async with d.trees:
        place = await anyio.to_thread.run_sync(_make_tree, d, stem, tree, parent)
    if before is not None:
        before(place, scratch)
    fence = fence_in_force(d.settings.fence)
    launch = Launch(
        worker=stem,
        argv=("sh", "-c", command),
        env=worker_environment(d.run, stem, d.environ, fence=fence),
        cwd=place.path,
        stdin=nothing,
        stdout=folder / f"{stem}.stdout",
        stderr=folder / f"{stem}.stderr",
        started_record=folder / f"{stem}.started.json",
        exit_record=folder / f"{stem}.exit.json",
        capture="pipe",
        limits=Limits(
            d.settings.limits.acceptance_timeout, d.settings.limits.grace, d.settings.limits.output_cap
        ),
        cancel_paths=_cancels(d, stem),
        mark=mark_of(d.run.id, stem),
    )
    try:
        ended = await d.nursery.run(enclosed(launch, fence, _walls(d, stem)))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_place, place)
            await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
    passed = ended.end == "exited" and ended.exit_code == 0
    printed = launch.stderr if ended.stderr_bytes and not ended.stdout_bytes else launch.stdout
    tail = read_tail(launch.stdout) + read_tail(launch.stderr)
    return CheckResult(
        command, passed, ended.exit_code, ended.end, ended.seconds, d.run.relative(printed), tail
    )


def _walls(d: Deployment, stem: str) -> Walls:
    """Give the walls around a check: it may write in its own tree, which nobody uses after it."""
    network = d.settings.agent("command").network == "open"
    return worker_walls(d.run, d.repository, stem, mode="write", environ=d.environ, network=network)


def _cancels(d: Deployment, stem: str) -> tuple[Path, ...]:
    """Name the files that stop a check: what stops its worker, where it has one."""
    worker = stem.partition(".")[0]
    own, everyone, stopping = cancel_paths(d.run, stem)
    if worker in d.state.workers:
        return own, everyone, stopping, *cancel_paths(d.run, worker)[:1]
    # What a run had completed before it was cancelled can land: its gate must not be cancelled with it.
    return (own, stopping) if everyone.exists() else (own, everyone, stopping)


async def _see_dead(d: Deployment, stem: str) -> None:
    """Stop a check that a killed runtime left running: its answer is of no use to anybody."""
    folder = d.run.path / "checks"
    started = folder / f"{stem}.started.json"
    if is_held(started):
        cancel = cancel_paths(d.run, stem)[0]
        cancel.parent.mkdir(exist_ok=True)
        cancel.touch()
        mark = mark_of(d.run.id, stem)
        await wait_adopted(stem, folder / f"{stem}.exit.json", started, mark=mark)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}.{number}"


def _make_tree(d: Deployment, stem: str, tree: str, parent: str) -> Place:
    commit = d.checker.commit(tree, parent, f"orchestrate: tree of {stem}")
    index = d.checker.directory / f"{stem}.index"
    return make_place(d.repository.root, d.repository.common, d.run.worktree(stem), commit, index)
