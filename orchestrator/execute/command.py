"""One of the project's own commands, run in a tree of ours: fenced, limited, keyless, its output kept."""

import itertools
from pathlib import Path
from typing import NamedTuple

from orchestrator.execute.fence_hints import fence_signs
from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import AcceptanceResult
from workers.agents.follow import read_tail
from workers.engine.launch import cancel_paths, mark_of, worker_environment
from workers.engine.process import wait_adopted
from workers.fence.policy import Walls, worker_walls
from workers.fence.probe import enclosed, fence_in_force
from workers.files.exit_record import is_held
from workers.shim.spec import Launch, Limits


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
    fenced: str = ""
    """What the fence keeps from it, where it failed and what it said smells of that."""

    def in_words(self) -> str:
        """Say how it failed, on one line."""
        how = f"exit code {self.exit_code}" if self.end == "exited" else self.end.replace("_", " ")
        return f"`{self.command}` ({how}; see {self.output})"

    def recorded(self) -> AcceptanceResult:
        """Return what a worker's record keeps of it."""
        return AcceptanceResult(
            self.command, self.passed, self.exit_code, self.end, self.seconds, self.output
        )


async def free_stem(runtime: Runtime, name: str) -> str:
    """Give a name for a command's files; one that an earlier runtime left running is seen dead first."""
    folder = runtime.run.path / "checks"
    free = next(n for n in itertools.count(1) if not (folder / f"{_numbered(name, n)}.started.json").exists())
    for number in range(1, free):
        await _see_dead(runtime, _numbered(name, number))
    return _numbered(name, free)


async def run_in_tree(runtime: Runtime, stem: str, command: str, *, tree: str, limit: float) -> CheckResult:
    """Run a command by `sh -c` in the worktree of the run that is called `tree`, below a shim.

    `limit` is in seconds; `stem` is unique in the run and names its records and its output.
    """
    folder = runtime.run.path / "checks"
    nothing = folder / "nothing"
    nothing.touch()
    runtime.run.scratch(tree).mkdir(parents=True, exist_ok=True)
    fence = fence_in_force(runtime.settings.fence)
    launch = Launch(
        worker=stem,
        argv=("sh", "-c", command),
        env=worker_environment(runtime.run, tree, runtime.environ, fence=fence),
        cwd=runtime.run.worktree(tree),
        stdin=nothing,
        stdout=folder / f"{stem}.stdout",
        stderr=folder / f"{stem}.stderr",
        started_record=folder / f"{stem}.started.json",
        exit_record=folder / f"{stem}.exit.json",
        capture="pipe",
        limits=Limits(limit, runtime.settings.limits.grace, runtime.settings.limits.output_cap),
        cancel_paths=_cancels(runtime, stem),
        mark=mark_of(runtime.run, stem),
    )
    ended = await runtime.nursery.run(enclosed(launch, fence, _walls(runtime, tree)))
    passed = ended.end == "exited" and ended.exit_code == 0
    printed = launch.stderr if ended.stderr_bytes and not ended.stdout_bytes else launch.stdout
    tail = read_tail(launch.stdout) + read_tail(launch.stderr)
    network, root = runtime.settings.agent("command").network, str(runtime.run.root)
    fenced = "" if passed else fence_signs(fence.level, network, root, command, tail)
    return CheckResult(
        command,
        passed,
        ended.exit_code,
        ended.end,
        ended.seconds,
        runtime.run.relative(printed),
        tail,
        fenced,
    )


def _walls(runtime: Runtime, tree: str) -> Walls:
    """Give the walls around a command: it may write in its tree."""
    network = runtime.settings.agent("command").network == "open"
    return worker_walls(
        runtime.run, runtime.repository, tree, mode="write", environ=runtime.environ, network=network
    )


def _cancels(runtime: Runtime, stem: str) -> tuple[Path, ...]:
    """Name the files that stop a check: what stops its worker, where it has one."""
    worker = stem.partition(".")[0]
    own, everyone, stopping = cancel_paths(runtime.run, stem)
    if worker in runtime.state.workers:
        return own, everyone, stopping, *cancel_paths(runtime.run, worker)[:1]
    # What a run had completed before it was cancelled can land: its gate must not be cancelled with it.
    return (own, stopping) if everyone.exists() else (own, everyone, stopping)


async def _see_dead(runtime: Runtime, stem: str) -> None:
    """Stop a command that a killed runtime left running: its answer is of no use to anybody."""
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
