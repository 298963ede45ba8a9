"""Acceptance commands and the gate: the project's own commands, in a fresh tree that nobody has touched."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from orchestrator.execute._setup import furniture_of, set_up
from orchestrator.execute.command import CheckResult, free_stem, run_in_tree
from orchestrator.execute.runtime import Runtime
from workers.worktree.checkout import make_tree
from workers.worktree.worktree import Place, remove_place

EVIDENCE = ("exited", "timed_out", "idle", "output_cap")
"""Ends of a command that say something about the tree that it ran in; else somebody kept it from that."""


async def run_check(
    runtime: Runtime,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    before: Callable[[Place, Path], None] | None = None,
) -> CheckResult:
    """Run one command by `sh -c` in a fresh worktree of `tree`, below a shim, without any key.

    The worktree is furnished like a worker's. `before` prepares it and the scratch folder further.

    `name` is unique in the run; a check that an earlier runtime had begun is run again beside its leavings.
    One that never came to run, or whose shim is gone, says nothing of the work: it is run once more.
    """
    result = await _run_once(runtime, name, command, tree, parent, before=before)
    if result.end not in (*EVIDENCE, "cancelled") and not runtime.stopping:
        result = await _run_once(runtime, name, command, tree, parent, before=before)
    return result


async def _run_once(
    runtime: Runtime,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    before: Callable[[Place, Path], None] | None,
) -> CheckResult:
    stem = await free_stem(runtime, name)
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
        return await run_in_tree(runtime, stem, command, tree=stem, limit=limit)
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
