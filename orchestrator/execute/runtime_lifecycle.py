"""The start and end of a runtime: its lock on the run, signals and cancels, and the roster."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import anyio.to_thread

from orchestrator.errors import HELD, Refusal, StateError
from orchestrator.execute.runtime import ALL, Runtime
from orchestrator.prepare.prepare import UNSHALLOW
from orchestrator.prepare.start import START_WAIT
from orchestrator.project import Project
from orchestrator.runs import scopes_in_use
from orchestrator.runs.events import RunReopened, RunStopped
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.next_action import wait_for
from orchestrator.runs.state import JOURNAL, RunState
from orchestrator.schedule.availability import unmet_fence
from orchestrator.state.events import Event, RosterEntry, RunClosed, RunDeployed
from orchestrator.store.repo import RepoBlocked, UserRepo, import_gitpython
from orchestrator.store.store import Store
from orchestrator.tamper.run_files import refuse_altered
from tickets.problems import Problem
from tickets.wording import some_of
from workers.engine.process import open_fork_server
from workers.fence.probe import fence_in_force
from workers.files.journal import Journal
from workers.files.locks import held_folder, held_lock
from workers.files.run_dir import RunDir

STARTING = 0.6
"""Seconds that it takes to start a pool full of workers."""


@asynccontextmanager
async def open_runtime(project: Project, run: RunDir, lock: int | None = None) -> AsyncIterator[Runtime]:
    """Become the runtime of a run for the block. Raises Refusal where another one is, or the fence fails.

    `lock` is the descriptor that holds the run's lock, where it is held already.
    """
    if problems := unmet_fence(project.settings, fence_in_force(project.settings.fence.level)):
        raise Refusal(*problems)
    manifest = read_manifest(run)
    refuse_altered(run, project.repository.own / "runs" / run.id)
    with (
        _refusing_deleted(run),
        scopes_in_use.held(project.repository, run, manifest),
        held_lock(run.path / "run.lock", lock) as is_ours,
    ):
        if not is_ours:
            problem = Problem(
                run.id, "another runtime works on this run", "wait for it, or check `orchestrate ps`"
            )
            raise Refusal(problem, exit_code=HELD, next_action=wait_for(run))
        # Whoever has started this process in the background sees by it that the run is taken over.
        (run.path / "run.lock").write_text(f"{os.getpid()}\n")
        # Left by a runtime that was interrupted: this one continues the run, and its workers are to run.
        run.stopping_path.unlink(missing_ok=True)
        with contextlib.closing(Journal(run.path / JOURNAL)) as journal:
            async with open_fork_server(run.path / "nursery.log") as fork_server:
                runtime = Runtime(project, run, manifest, fork_server, journal)
                _refuse_forgotten(runtime.state)
                _refuse_without_base(runtime)
                runtime.checker.prepare()
                run.closed_path.unlink(missing_ok=True)
                yield runtime


@asynccontextmanager
async def heeding_stops(runtime: Runtime) -> AsyncIterator[Callable[[], int | None]]:
    """Obey signals and cancels during the block; yield a function that returns the first signal.

    The first Ctrl-C or TERM stops the run in order: its workers end within their grace, its files say
    `interrupted`. The second lets them have no grace. A hang-up does the same, unless it is ignored, as it
    is for a runtime that was started to outlive its terminal.
    """
    caught: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    async def listen() -> None:
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                caught.append(number)
                if len(caught) == 1:
                    runtime.stop()
                else:
                    runtime.stop_at_once()

    runtime.look_for_cancels()
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        group.start_soon(runtime.watch_cancels)
        if runtime.mail is not None:
            group.start_soon(runtime.mail.follow)
        if runtime.checkpoints is not None:
            group.start_soon(runtime.checkpoints.follow)
        group.start_soon(_import_what_lands)
        yield lambda: caught[0] if caught else None
        group.cancel_scope.cancel()


def refuse_overtaken(runtime: Runtime) -> None:
    """Refuse to continue a run while another one holds paths that its workers would write to.

    Both have locked what they own before they look: of two that start at once, one at least sees the other.
    """
    if ALL in runtime.run.cancelled() or runtime.state.has_ended:
        return
    with held_folder(runtime.repository.common, START_WAIT):
        claimed = scopes_in_use.claimed(runtime.repository, None, runtime.run)
    others = [one for one in claimed if one.standing == "running"]
    manifest = runtime.manifest
    mine = [ticket for ticket in manifest.tickets if not runtime.of(ticket).ended]
    found = scopes_in_use.conflicts(mine, manifest.scopes, others, ignore_case=manifest.ignore_case)
    scopes_in_use.refuse_conflicts(found)


def return_to_roster(runtime: Runtime) -> list[Problem]:
    """Record that the workers of an interrupted run continue; nothing for another run."""
    if runtime.state.closed != "interrupted":
        return []
    manifest = runtime.manifest
    sent = (ticket for ticket in manifest.tickets if ticket.id not in manifest.skipped)
    roster = tuple(RosterEntry(ticket.worker, ticket.title, ticket.owns) for ticket in sent)
    at = runtime.clock()
    event = RunDeployed(runtime.run.id, manifest.phase, at, manifest.lead, roster)
    problems = record(runtime, event, *manifest.taken(at))
    runtime.note(RunReopened())
    return problems


def leave_roster(runtime: Runtime, status: Literal["cancelled", "interrupted"]) -> list[Problem]:
    """Record that a run's workers do not run: cancelled for good, or until `resume`.

    What some of a cancelled run had completed can still be integrated.
    """
    if runtime.state.closed == status or runtime.state.is_integrated:
        return []
    manifest = runtime.manifest
    event = RunClosed(runtime.run.id, runtime.clock(), manifest.lead, status, manifest.phase)
    problems = record(runtime, event)
    runtime.note(RunStopped(status))
    return problems


def record(runtime: Runtime, *events: Event) -> list[Problem]:
    """Show events of a run that is on in the state files, without a commit; return what prevents it."""
    if not (events := tuple(one for one in events if runtime.manifest.shows(one))):
        return []
    try:
        families = runtime.settings.families
        done = Store(runtime.repository).record(
            events, families=families, message="", commit=False, is_run=True
        )
        return list(done.problems)
    except (StateError, RepoBlocked) as error:
        return list(error.problems)


@contextlib.contextmanager
def _refusing_deleted(run: RunDir) -> Iterator[None]:
    """Turn an error into a refusal where the run's folder was deleted meanwhile."""
    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        if run.path.is_dir():
            raise
        what = "the run's folder was deleted while it ran: what its workers had not landed is lost"
        do = "`orchestrate status` shows what is left; begin the phase again"
        refusal = Refusal(Problem(str(run.path), what, do), exit_code=1, next_action="orchestrate status")
        raise refusal from error


def _refuse_forgotten(state: RunState) -> None:
    """Refuse to continue by a journal that was cut or emptied: existing work would be done again."""
    lost = state.forgotten()
    if lost:
        what = f"says nothing of an attempt of {some_of(lost, 1)}: its records are lost"
        do = "restore it, or run its phase again with `--new`; the run's files stay"
        raise Refusal(Problem(f"{state.run.relative(state.run.path)}/{JOURNAL}", what, do))


def _refuse_without_base(runtime: Runtime) -> None:
    """Refuse to continue a run of another clone, where the commit is missing that it began at."""
    if not any(worker.started for worker in runtime.state.workers.values()):
        return  # it begins here
    repo, base = UserRepo(runtime.repository), runtime.manifest.base
    if repo.lacks([base]):
        what = f"this clone does not have the commit that it began at, {base[:10]}"
        do = UNSHALLOW if repo.is_shallow() else "fetch the branch that holds it"
        raise Refusal(Problem(f"run {runtime.run.id}", what, do))


async def _import_what_lands() -> None:
    """Import GitPython once the workers have started: before that all of them would wait for it."""
    await anyio.sleep(STARTING)
    await anyio.to_thread.run_sync(import_gitpython, abandon_on_cancel=True)
