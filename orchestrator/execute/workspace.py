"""The workspace of a ticket's worker: the commit that its tree is made from, and its setup."""

from pathlib import Path

import anyio.to_thread

from orchestrator.execute.landable import landable_changes
from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import Unattributed
from orchestrator.runs.kept_refs import keep_base
from orchestrator.settings.settings import Settings
from tickets.ticket import Ticket
from workers.engine.job import SetUp, TreePlan
from workers.fence.probe import fence_in_force
from workers.shim.spec import Limits
from workers.worktree.change import Change
from workers.worktree.checkout import Furniture


async def planned_tree(runtime: Runtime, ticket: Ticket) -> TreePlan:
    """Plan the tree of an attempt: that of earlier attempts, else a new one. Raises WorkerError."""
    if runtime.of(ticket).started:
        return kept_tree(runtime, ticket)
    base = runtime.manifest.base
    if runtime.manifest.dependencies.get(ticket.id):
        base = await anyio.to_thread.run_sync(_base_of, runtime, ticket)
    shared, patch = _shares(runtime, ticket), earlier_patch(runtime, ticket)
    return TreePlan(base, set_up_of(runtime.settings, ticket), is_shared=shared, patch=patch)


def kept_tree(runtime: Runtime, ticket: Ticket) -> TreePlan:
    """Plan the tree of a started worker: the one that it worked in."""
    worker, set_up = runtime.of(ticket), set_up_of(runtime.settings, ticket)
    # Of one that had ended and goes on: its tree went when it was judged, unless it held more than its patch.
    left = worker.evidence.patch if worker.answered and not worker.evidence.worktree else None
    patch = runtime.run.root / left if left else earlier_patch(runtime, ticket)
    return TreePlan(worker.base, set_up, is_shared=_shares(runtime, ticket), is_kept=True, patch=patch)


def earlier_patch(runtime: Runtime, ticket: Ticket) -> Path | None:
    """Return the changes of an earlier run that a ticket's tree begins with, if it does with any."""
    found = runtime.manifest.continues.get(ticket.id)
    return runtime.run.earlier_patch(ticket.worker) if found and found.files and not found.conflict else None


def set_up_of(settings: Settings, ticket: Ticket | None = None) -> SetUp:
    """Return the setup of a run's trees, with that of a ticket for its own."""
    tree, limits = settings.worktree, settings.limits
    set_up = SetUp(
        Furniture(tree.copy, tree.link),
        tree.setup,
        limits=Limits(tree.setup_timeout, limits.grace, limits.output_cap),
        network=settings.agent("command").network == "open",
    )
    return set_up._replace(own=ticket.setup, env=ticket.env, cwd=ticket.cwd) if ticket else set_up


async def close_shared_trees(runtime: Runtime) -> None:
    """Remove the trees that several workers have read, and note the changes there."""
    for shared in await runtime.engine.close_shared(runtime.settings.limits.patch_cap):
        if shared.paths:
            runtime.note_tampering(Unattributed(shared.paths, shared.readers, harm=True))


def _shares(runtime: Runtime, ticket: Ticket) -> bool:
    if ticket.mode != "read-only" or ticket.setup:
        return False
    # Where a worker can write, the next one would read its changes, which could not be attributed.
    holds = fence_in_force(runtime.settings.fence.level).level == "namespaces"
    return {"auto": holds, "always": True, "never": False}[runtime.settings.worktree.shared]


def _base_of(runtime: Runtime, ticket: Ticket) -> str:
    """Return the run's base with the accepted work of a ticket's dependencies."""
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
