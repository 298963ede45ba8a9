"""The changes of ended workers from their patches: the part that may land, and that others build on."""

import os

from orchestrator.execute.runtime import Runtime
from tickets.scopes.scope import Scope
from tickets.ticket import Ticket
from workers.errors import WorkerError
from workers.files.read import opened, refuse_larger
from workers.git.run import GitError
from workers.worktree.change import ABSENT, Change


def landable(ticket: Ticket, changes: tuple[Change, ...], scope: Scope) -> tuple[Change, ...]:
    """Return the part of the changes that may land at all: a write ticket's, inside its scope."""
    return tuple(change for change in changes if ticket.mode == "write" and scope.covers(change.path))


def landable_changes(runtime: Runtime, ticket: Ticket) -> list[Change]:
    """Return the part of a worker's patch that lies in its scope. Raises WorkerError where it is lost."""
    worker, run = runtime.of(ticket), runtime.run
    files, patch = worker.evidence.files, worker.evidence.patch
    if not patch and not files:
        return []
    patch = patch or run.relative(run.attempt(ticket.worker, 1).patch)
    changes = runtime.patches.get(patch)
    if changes is None or not all(_is_loose(runtime, change) for change in changes):
        changes = _read_back(runtime, worker.base, patch)
    found = list(landable(ticket, changes, runtime.manifest.scopes[ticket.id]))
    # A patch that was cut or overwritten would land less than was accepted, and be reported as all of it.
    missing = sorted(
        {*files} - {name for one in found for name in (one.path, runtime.redactor.clean(one.path))}
    )
    if missing:
        raise WorkerError(f"{patch}: holds nothing of {missing[0]}; put it back, or reject")
    return found


def _read_back(runtime: Runtime, base: str, patch: str) -> tuple[Change, ...]:
    path = runtime.run.root / patch
    try:
        os.close(opened(path))
        refuse_larger(path, path.stat().st_size, runtime.settings.limits.patch_cap)
        return tuple(runtime.checker.changes_of_patch(base, path))
    except GitError:
        raise WorkerError(f"{patch}: is damaged; put it back, or reject") from None
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise WorkerError(f"{patch}: cannot be read: {why}; put it back, or reject") from None


def _is_loose(runtime: Runtime, change: Change) -> bool:
    # A `git gc --prune=now` meanwhile removes what no ref reaches; reading the patch brings it back.
    sha = change.new_sha
    loose = runtime.repository.common / "objects" / sha[:2] / sha[2:]
    return change.new_mode == ABSENT or loose.is_file()
