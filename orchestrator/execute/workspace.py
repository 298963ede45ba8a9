"""Where a ticket's worker works: a tree of its own, or one that read-only workers share."""

from pathlib import Path

import anyio.to_thread

from orchestrator.execute.command import (
    describe_failed_set_up,
    end_earlier_set_up,
    furniture_of,
    is_furnished,
    set_up,
)
from orchestrator.execute.runtime import Deployment, SharedTree
from orchestrator.runs.events import PathsNotLinked
from orchestrator.runs.kept_refs import keep_base
from orchestrator.tamper.guard import Tampering
from tickets.ticket import Ticket
from workers.errors import WorkerError
from workers.fence.probe import fence_in_force
from workers.worktree.change import Change
from workers.worktree.checkout import Made, make_tree
from workers.worktree.worktree import Place, found_place, remove_place, start_of


async def placed(d: Deployment, ticket: Ticket) -> Place | None:
    """Give a worker its tree, made and set up; None where that was cancelled. Raises WorkerError."""
    base = d.manifest.base
    if d.manifest.dependencies.get(ticket.id):
        base = await anyio.to_thread.run_sync(_base_of, d, ticket)
    if not _shares(d, ticket):
        return await _made(d, ticket.worker, base)
    if base not in d.shared:
        async with d.sharing:
            if base not in d.shared:
                place = _found_shared(d, base) or await _made(d, _shared_name(base), base, is_shared=True)
                if place is None:
                    return None
                d.shared[base] = SharedTree(place, set())
    d.shared[base].readers.add(ticket.worker)
    return d.shared[base].place


def placed_earlier(d: Deployment, ticket: Ticket, base: str) -> Place | None:
    """Give the tree that an earlier runtime had given a worker of this base."""
    own = found_place(d.repository.common, d.run.worktree(ticket.worker), base, _index(d, ticket.worker))
    if own is not None or ticket.mode != "read-only":
        return own
    place = _found_shared(d, base)
    if place is not None:
        d.shared.setdefault(base, SharedTree(place, set())).readers.add(ticket.worker)
    return place


def is_shared(d: Deployment, ticket: Ticket, place: Place) -> bool:
    """Tell whether a worker's tree is others' as well."""
    return place.path != d.run.worktree(ticket.worker)


async def give_back_shared(d: Deployment) -> None:
    """Look into the shared trees, now that nobody reads them any more, and take them away."""
    for shared in d.shared.values():
        try:
            found = await anyio.to_thread.run_sync(d.checker.look, shared.place, d.settings.limits.patch_cap)
            paths = [*(change.path for change in found.changes), *found.special, *found.inside]
        except WorkerError as error:
            paths = [error.reason]
        if paths:
            tampering = Tampering(tuple(paths), tuple(sorted(shared.readers)), is_harm=True)
            d.note(tampering.as_event())
            d.tampered.append(tampering)
        await anyio.to_thread.run_sync(remove_place, shared.place)
    d.shared.clear()


def _shares(d: Deployment, ticket: Ticket) -> bool:
    if ticket.mode != "read-only":
        return False
    # Where a worker can write, the next one would read what it wrote, and nobody could say whose it is.
    holds = fence_in_force(d.settings.fence).level == "namespaces"
    return {"auto": holds, "always": True, "never": False}[d.settings.worktree.shared]


def _shared_name(base: str) -> str:
    return f"shared-{base[:16]}"


def _found_shared(d: Deployment, base: str) -> Place | None:
    name = _shared_name(base)
    place = found_place(d.repository.common, d.run.worktree(name), base, _index(d, name))
    # What was killed in the making has no record of its start.
    return place if place is not None and start_of(place) is not None else None


async def _made(d: Deployment, name: str, base: str, *, is_shared: bool = False) -> Place | None:
    await end_earlier_set_up(d, name)
    async with d.trees:
        place, missing = await anyio.to_thread.run_sync(_make, d, name, base)
    if missing:
        d.note(PathsNotLinked(name, tuple(missing)))
    failed = await set_up(d, name)
    if failed is not None:
        await anyio.to_thread.run_sync(remove_place, place)
        if failed.end == "cancelled":
            return None
        raise WorkerError(describe_failed_set_up(failed))
    if is_shared or is_furnished(d.settings):
        await anyio.to_thread.run_sync(d.checker.settle, place)
    return place


def _make(d: Deployment, name: str, base: str) -> Made:
    furniture = furniture_of(d.settings)
    path, index = d.run.worktree(name), _index(d, name)
    return make_tree(d.repository, d.checker, path, base, index, furniture=furniture)


def _index(d: Deployment, name: str) -> Path:
    return d.checker.directory / f"{name}.index"


def _base_of(d: Deployment, ticket: Ticket) -> str:
    """Give the run's base with the accepted work of all that a ticket depends on."""
    wanted = set(d.manifest.dependencies.get(ticket.id, ()))
    for earlier in reversed(d.manifest.tickets):
        if earlier.id in wanted:
            wanted.update(d.manifest.dependencies.get(earlier.id, ()))
    merged: dict[str, Change] = {}
    for earlier in d.manifest.tickets:
        if earlier.id in wanted:
            merged.update({change.path: change for change in d.landable_changes(earlier)})
    if not merged:
        return d.manifest.base
    tree = d.checker.tree_with(d.manifest.base, merged.values())
    return keep_base(
        d.repository,
        d.run.id,
        d.checker.commit(tree, d.manifest.base, f"orchestrate: base of {ticket.worker}"),
    )
