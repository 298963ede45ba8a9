"""Where a ticket's worker works: a tree of its own, or one that read-only workers share."""

from pathlib import Path

import anyio.to_thread

from orchestrator.execute.changes import landable_changes
from orchestrator.execute.command import (
    describe_failed_set_up,
    end_earlier_set_up,
    furniture_of,
    is_furnished,
    set_up,
)
from orchestrator.execute.runtime import Runtime, SharedTree
from orchestrator.runs.events import PathsNotLinked
from orchestrator.runs.kept_refs import keep_base
from orchestrator.tamper.guard import Tampering
from tickets.ticket import Ticket
from workers.errors import WorkerError
from workers.fence.probe import fence_in_force
from workers.worktree.change import Change
from workers.worktree.checkout import Made, make_tree
from workers.worktree.worktree import Place, found_place, remove_place, start_of


async def placed(runtime: Runtime, ticket: Ticket) -> Place | None:
    """Give a worker its tree, made and set up; None where that was cancelled. Raises WorkerError."""
    base = runtime.manifest.base
    if runtime.manifest.dependencies.get(ticket.id):
        base = await anyio.to_thread.run_sync(_base_of, runtime, ticket)
    if not _shares(runtime, ticket):
        return await _made(runtime, ticket.worker, base)
    if base not in runtime.trees.shared:
        async with runtime.trees.sharing:
            if base not in runtime.trees.shared:
                place = _found_shared(runtime, base) or await _made(
                    runtime, _shared_name(base), base, is_shared=True
                )
                if place is None:
                    return None
                runtime.trees.shared[base] = SharedTree(place, set())
    runtime.trees.shared[base].readers.add(ticket.worker)
    return runtime.trees.shared[base].place


def placed_earlier(runtime: Runtime, ticket: Ticket, base: str) -> Place | None:
    """Give the tree that an earlier runtime had given a worker of this base."""
    own = found_place(
        runtime.repository.common, runtime.run.worktree(ticket.worker), base, _index(runtime, ticket.worker)
    )
    if own is not None or ticket.mode != "read-only":
        return own
    place = _found_shared(runtime, base)
    if place is not None:
        runtime.trees.shared.setdefault(base, SharedTree(place, set())).readers.add(ticket.worker)
    return place


def is_shared(runtime: Runtime, ticket: Ticket, place: Place) -> bool:
    """Tell whether a worker's tree is others' as well."""
    return place.path != runtime.run.worktree(ticket.worker)


async def give_back_shared(runtime: Runtime) -> None:
    """Look into the shared trees, now that nobody reads them any more, and take them away."""
    for shared in runtime.trees.shared.values():
        try:
            found = await anyio.to_thread.run_sync(
                runtime.checker.look, shared.place, runtime.settings.limits.patch_cap
            )
            paths = [*(change.path for change in found.changes), *found.special, *found.inside]
        except WorkerError as error:
            paths = [error.reason]
        if paths:
            tampering = Tampering(tuple(paths), tuple(sorted(shared.readers)), is_harm=True)
            runtime.note_tampering(tampering)
        await anyio.to_thread.run_sync(remove_place, shared.place)
    runtime.trees.shared.clear()


def _shares(runtime: Runtime, ticket: Ticket) -> bool:
    if ticket.mode != "read-only":
        return False
    # Where a worker can write, the next one would read what it wrote, and nobody could say whose it is.
    holds = fence_in_force(runtime.settings.fence).level == "namespaces"
    return {"auto": holds, "always": True, "never": False}[runtime.settings.worktree.shared]


def _shared_name(base: str) -> str:
    return f"shared-{base[:16]}"


def _found_shared(runtime: Runtime, base: str) -> Place | None:
    name = _shared_name(base)
    place = found_place(runtime.repository.common, runtime.run.worktree(name), base, _index(runtime, name))
    # What was killed in the making has no record of its start.
    return place if place is not None and start_of(place) is not None else None


async def _made(runtime: Runtime, name: str, base: str, *, is_shared: bool = False) -> Place | None:
    await end_earlier_set_up(runtime, name)
    async with runtime.trees.making:
        place, missing = await anyio.to_thread.run_sync(_make, runtime, name, base)
    if missing:
        runtime.note(PathsNotLinked(name, tuple(missing)))
    failed = await set_up(runtime, name)
    if failed is not None:
        await anyio.to_thread.run_sync(remove_place, place)
        if failed.end == "cancelled":
            return None
        raise WorkerError(describe_failed_set_up(failed))
    if is_shared or is_furnished(runtime.settings):
        await anyio.to_thread.run_sync(runtime.checker.settle, place)
    return place


def _make(runtime: Runtime, name: str, base: str) -> Made:
    furniture = furniture_of(runtime.settings)
    path, index = runtime.run.worktree(name), _index(runtime, name)
    return make_tree(runtime.repository, runtime.checker, path, base, index, furniture=furniture)


def _index(runtime: Runtime, name: str) -> Path:
    return runtime.checker.directory / f"{name}.index"


def _base_of(runtime: Runtime, ticket: Ticket) -> str:
    """Give the run's base with the accepted work of all that a ticket depends on."""
    wanted = set(runtime.manifest.dependencies.get(ticket.id, ()))
    for earlier in reversed(runtime.manifest.tickets):
        if earlier.id in wanted:
            wanted.update(runtime.manifest.dependencies.get(earlier.id, ()))
    merged: dict[str, Change] = {}
    for earlier in runtime.manifest.tickets:
        if earlier.id in wanted:
            merged.update({change.path: change for change in landable_changes(runtime, earlier)})
    if not merged:
        return runtime.manifest.base
    tree = runtime.checker.tree_with(runtime.manifest.base, merged.values())
    return keep_base(
        runtime.repository,
        runtime.run.id,
        runtime.checker.commit(tree, runtime.manifest.base, f"orchestrate: base of {ticket.worker}"),
    )
