"""The worktrees of a run on this machine: made, set up, found again, shared by read-only workers."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from workers.engine.check import CheckResult, TreeCommand, free_stem, run_in_tree
from workers.engine.job import Emit, Job, PathsMissing, SetUp, SetUpRan, Site
from workers.engine.process import ForkServer
from workers.errors import WorkerError
from workers.worktree.changes import Checker
from workers.worktree.checkout import Made, make_tree
from workers.worktree.worktree import (
    Place,
    found_place,
    is_restored,
    readopted_place,
    remove_place,
    start_of,
)


class SharedTree(NamedTuple):
    """A worktree that several workers read, with their names."""

    place: Place
    readers: set[str]


class Trees:
    """The worktrees of one run; shared ones are known by their base."""

    def __init__(self, site: Site, fork_server: ForkServer, checker: Checker) -> None:
        self._site, self._fork_server, self._checker = site, fork_server, checker
        self._making = anyio.CapacityLimiter(4)
        """Worktrees are made by git, which is bound by processor and disk: more at once are slower."""
        self._shared: dict[str, SharedTree] = {}
        self._sharing = anyio.Lock()

    async def ready(self, job: Job, emit: Emit) -> Place | None:
        """Return the tree of a job, made and set up; None where that was cancelled. Raises WorkerError."""
        if job.tree.is_kept and (place := self.find(job)) is not None:
            if job.tree.patch is None or is_restored(place):
                return place
            await anyio.to_thread.run_sync(remove_place, place)  # killed before its work was put back
        if not job.tree.is_shared:
            return await self._made(job, job.ticket.worker, emit)
        base = job.tree.base
        if base not in self._shared:
            async with self._sharing:
                if base not in self._shared:
                    place = self._found_shared(base) or await self._made(job, _shared_name(base), emit)
                    if place is None:
                        return None
                    self._shared[base] = SharedTree(place, set())
        self._shared[base].readers.add(job.ticket.worker)
        return self._shared[base].place

    def find(self, job: Job) -> Place | None:
        """Return the tree that an earlier attempt has worked in; None where it is gone."""
        worker, base = job.ticket.worker, job.tree.base
        place = self._found(worker, base)
        if place is not None or job.ticket.mode != "read-only":
            return place
        # It is whole, with or without the record of its start: this worker was started in it.
        place = self._found(_shared_name(base), base)
        if place is not None:
            self._shared.setdefault(base, SharedTree(place, set())).readers.add(worker)
        return place

    async def unused(self, job: Job, place: Place) -> None:
        """Remove the tree of a job that is not started, if it was made for it."""
        if self.is_shared(job, place):
            self._shared[job.tree.base].readers.discard(job.ticket.worker)
        elif not job.tree.is_kept:
            await anyio.to_thread.run_sync(remove_place, place)

    def is_shared(self, job: Job, place: Place) -> bool:
        """Return whether a job shares its tree with other workers."""
        return place.path != self._site.run.worktree(job.ticket.worker)

    def take_shared(self) -> list[SharedTree]:
        """Return the shared trees, and forget them."""
        taken = [*self._shared.values()]
        self._shared.clear()
        return taken

    async def checked_out(self, name: str, commit: str, set_up: SetUp) -> Made:
        """Make a worktree of a commit with the extra files, but do not set it up. Raises WorkerError."""
        site, path, index = self._site, self._site.run.worktree(name), self._index(name)
        make = partial(make_tree, site.repository, self._checker, path, commit, index)
        async with self._making:
            return await anyio.to_thread.run_sync(partial(make, furniture=set_up.furniture))

    async def set_up(self, name: str, set_up: SetUp, worker: str, emit: Emit) -> CheckResult | None:
        """Run the setup commands in a tree; return the first that failed, after which none is run."""
        for at, text in enumerate((*set_up.commands, *set_up.own), 1):
            stem = await free_stem(self._site, f"{name}.setup-{at}")
            command = TreeCommand(text, stem, name, set_up.limits, set_up.network, worker)
            if at > len(set_up.commands):
                command = command._replace(env=set_up.env, cwd=set_up.cwd)
            result = await run_in_tree(self._site, self._fork_server, command)
            emit(SetUpRan(name, text, result.passed, result.seconds))
            if not result.passed:
                return result
        return None

    async def _made(self, job: Job, name: str, emit: Emit) -> Place | None:
        set_up, is_own = job.tree.set_up, name == job.ticket.worker
        # An earlier runtime may have left its commands running in a tree that it had not finished.
        for at in range(1, len(set_up.commands) + len(set_up.own) + 1):
            await free_stem(self._site, f"{name}.setup-{at}")
        self._found(name, job.tree.base)  # what it had half made in another clone is then known here as that
        place, missing = await self.checked_out(name, job.tree.base, set_up)
        if missing:
            emit(PathsMissing(name, tuple(missing)))
        failed = await self.set_up(name, set_up, name if is_own else "", emit)
        if failed is not None:
            await anyio.to_thread.run_sync(remove_place, place)
            if failed.end == "cancelled":
                return None
            raise WorkerError(failed.as_failed_set_up())
        if not is_own or set_up.changes_tree:
            await anyio.to_thread.run_sync(self._checker.settle, place)
        if job.tree.patch is not None:
            await anyio.to_thread.run_sync(self._checker.restore, place, job.tree.patch)
        return place

    def _found(self, name: str, base: str) -> Place | None:
        (root, common), path, index = self._site.repository, self._site.run.worktree(name), self._index(name)
        place = found_place(common, path, base, index)
        return place if place is not None else readopted_place(root, common, path, base, index)

    def _found_shared(self, base: str) -> Place | None:
        place = self._found(_shared_name(base), base)
        # A tree whose making was killed has no record of its start.
        return place if place is not None and start_of(place) is not None else None

    def _index(self, name: str) -> Path:
        return self._checker.directory / f"{name}.index"


def _shared_name(base: str) -> str:
    return f"shared-{base[:16]}"
