"""The engine of this machine: one attempt of a worker in a worktree, behind a fence, below a shim.

`LocalEngine.run` takes an attempt from its launch to what it said and changed: a `Job` in, a `Result` out.
It makes the tree where that is not there, since a tree outlives an attempt: retries go on in it, and workers
that only read share one. Who uses the engine removes a tree when its result is judged and recorded. Checks
run in trees of their own, so they have a call of their own.
"""

import shutil
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread

from tickets.ticket import Ticket
from workers.agents.follow import read_tail
from workers.engine._follow import ended, follow
from workers.engine._trees import Trees
from workers.engine.check import Check, CheckResult, TreeCommand, free_stem, run_in_tree
from workers.engine.job import NO_ANSWER, Emit, Ended, Job, PatchDue, Result, Site, TreeReady
from workers.engine.launch import mark_of, prepare_launch
from workers.engine.mail import had_server
from workers.engine.process import ForkServer, stopped_with_runtime, wait_adopted
from workers.errors import ProgramMissingError, WorkerError
from workers.files.exit_record import Exit, read_exit
from workers.files.run_dir import RunDir
from workers.git.run import GitError
from workers.worktree.changes import Checker, Found
from workers.worktree.checkout import lacks
from workers.worktree.worktree import Place, left_its_base, remove_place

_UNSEEN = ("not_started", "lost", "cancelled")
"""Ends of attempts that may not have got as far as their server."""


class SharedResult(NamedTuple):
    """The changes in a tree that several workers have read."""

    readers: tuple[str, ...]
    paths: tuple[str, ...]
    """Changed paths, or the reason why they cannot be read."""


class LocalEngine:
    """Runs the jobs of one run on this machine."""

    def __init__(self, site: Site, fork_server: ForkServer, checker: Checker) -> None:
        self._site, self._fork_server, self._checker = site, fork_server, checker
        self._trees = Trees(site, fork_server, checker)

    async def run(self, job: Job, emit: Emit, may_start: Callable[[], bool] = lambda: True) -> Result:
        """Run an attempt, or wait for one that an earlier runtime has started, and read its result.

        `may_start` is asked once the tree is ready, which takes a while; where it says no, nothing starts.
        `Result.tree` is None where the job did not start, for this or a cancel, or where the tree of an
        adopted one is gone. The changes of a worker that was stopped with its runtime are not read: another
        attempt goes on in its tree. Cancelling the call leaves the worker running, to be adopted.
        Raises WorkerError, GitError or OSError where the worker cannot be started.
        """
        worker, files = job.ticket.worker, self._site.run.attempt(job.ticket.worker, job.number)
        if job.is_adopted:
            place = self._trees.find(job)
            # Also where nothing is seen of it: its launch may have been on its way when the runtime died.
            mark = mark_of(self._site.run, worker, job.number)
            waiting = partial(wait_adopted, worker, files.exit, files.started, mark=mark)
        else:
            place = await self._trees.ready(job, emit)
            if place is None:
                return Result(Exit(worker, "cancelled"))
            if not may_start():
                await self._trees.unused(job, place)
                return Result(Exit(worker, "not_started"))
            emit(TreeReady(place.base))
            try:
                launch = prepare_launch(self._site, job, place.path)
            except ProgramMissingError as error:
                missing = Ended(Exit(worker, "not_started", error=error.reason), NO_ANSWER)
                return await self._read_changes(job, self._result(job, missing, place), place, emit)
            waiting = partial(self._fork_server.run, launch, job.lock_fds)
        found = await follow(job.ticket.agent, files, job.limits.grace, waiting, emit)
        # A worker whose shim was killed while its runtime lived is judged like any other.
        goes_on = stopped_with_runtime(found.exit) and (job.is_adopted or found.exit.end != "lost")
        if place is None or goes_on:
            return self._result(job, found, place)
        return await self._read_changes(job, self._result(job, found, place), place, emit)

    async def read_again(self, job: Job, emit: Emit) -> Result:
        """Read again the result of an ended attempt; its patch is written where it is missing."""
        found, place = await read_ended(self._site.run, job.ticket, job.number), self._trees.find(job)
        result = self._result(job, found, place)
        if place is None:
            return result._replace(error="its tree is gone")
        return await self._read_changes(job, result, place, emit)

    def look(self, job: Job) -> Found | None:
        """Return the changes of a worker at work; None where it shares its tree. Raises WorkerError."""
        place = self._trees.find(job)
        if place is None or self._trees.is_shared(job, place):
            return None
        return self._checker.look(place, job.patch_cap)

    async def check(self, check: Check, emit: Emit) -> CheckResult:
        """Run a command in a fresh worktree, set up like a worker's; the worktree is removed afterwards.

        Where a setup command fails, its result is returned and the command is not run. Raises WorkerError.
        """
        stem = await free_stem(self._site, check.name)
        scratch = self._site.run.scratch(stem)
        scratch.mkdir(parents=True, exist_ok=True)
        commit = partial(self._checker.commit, check.tree, check.parent, f"orchestrate: tree of {stem}")
        place, _ = await self._trees.checked_out(stem, await anyio.to_thread.run_sync(commit), check.set_up)
        try:
            failed = await self._trees.set_up(stem, check.set_up, check.worker, emit)
            if failed is not None:
                return failed
            if check.head:
                (place.admin / "HEAD").write_text(f"{check.head}\n")
            for name, data in check.files.items():
                (scratch / name).write_bytes(data)
            command = TreeCommand(check.command, stem, stem, check.limits, check.network, check.worker)
            command = command._replace(env=check.env, cwd=check.cwd)
            return await run_in_tree(self._site, self._fork_server, command)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_place, place)
                await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))

    async def close_shared(self, patch_cap: int) -> list[SharedResult]:
        """Remove the shared trees, which no worker reads any more; return the changes in each."""
        results = []
        for place, readers in self._trees.take_shared():
            try:
                found = await anyio.to_thread.run_sync(self._checker.look, place, patch_cap)
                paths = [*(change.path for change in found.changes), *found.special, *found.inside]
            except WorkerError as error:
                paths = [error.reason]
            results.append(SharedResult(tuple(sorted(readers)), tuple(paths)))
            await anyio.to_thread.run_sync(remove_place, place)
        return results

    def _result(self, job: Job, found: Ended, place: Place | None) -> Result:
        is_shared = place is not None and self._trees.is_shared(job, place)
        answer = found.answer
        if job.ticket.agent != "command" and found.exit.end not in _UNSEEN:
            missing = () if had_server(self._site.run, job.ticket.worker) else ("no_messages",)
            answer = answer._replace(flags=(*answer.flags, *missing))
        return Result(found.exit, answer, place, is_shared)

    def _lacks(self, job: Job, place: Place) -> str:
        files = self._site.run.attempt(job.ticket.worker, job.number)
        said = (*(job.ticket.command or ()), read_tail(files.stderr), read_tail(files.stdout))
        return lacks(self._site.run.root, place.path, job.ticket.cwd, "\n".join(said))

    async def _read_changes(self, job: Job, result: Result, place: Place, emit: Emit) -> Result:
        """Add the changes of a worker to a result, and write their patch."""
        patch = self._site.run.attempt(job.ticket.worker, job.number).patch
        result = result._replace(left_base=left_its_base(place))
        if job.ticket.agent == "command" and result.answer.ended == "error":
            hint = await anyio.to_thread.run_sync(self._lacks, job, place)
            error = "; ".join(filter(None, (result.answer.error, hint)))
            result = result._replace(answer=result.answer._replace(error=error))
        if result.is_shared:
            # It is read when its last reader has gone: until then a change could not be attributed.
            return result._replace(found=Found((), ()))
        try:
            found = await anyio.to_thread.run_sync(self._checker.look, place, job.patch_cap)
            if not found.changes:
                return result._replace(found=found)
            emit(PatchDue(patch))
            if not patch.exists():
                await anyio.to_thread.run_sync(self._checker.write_patch, place, found, patch)
        except (WorkerError, GitError, OSError) as error:
            # Its work is done and paid for: it is judged by what is known of it.
            return result._replace(
                error=_describe(error, self._site.run.relative(patch)),
                patch=patch if patch.exists() else None,
            )
        return result._replace(found=found, patch=patch)


def _describe(error: WorkerError | GitError | OSError, patch: str) -> str:
    match error:
        case WorkerError():
            return error.reason
        case GitError():
            return f"{patch}: the changes could not be kept: {error.said}"
        case OSError():
            return f"{patch}: the changes could not be kept: {(error.strerror or str(error)).lower()}"


async def read_ended(run: RunDir, ticket: Ticket, number: int) -> Ended:
    """Read again how an ended attempt ended, and its output; `lost` where no record exists."""
    files = run.attempt(ticket.worker, number)
    return await ended(ticket.agent, files, read_exit(files.exit) or Exit(ticket.worker, "lost"))
