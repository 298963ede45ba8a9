"""THE MAIN PATH: a phase's templates become tickets, workers, verdicts, a landing and the project's state."""

import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Literal, NamedTuple

import anyio
import anyio.to_thread

from orchestrator.errors import HELD, Refusal
from orchestrator.execute.runtime import ALL, Clock, Runtime, Tell, open_runtime
from orchestrator.execute.worker import work
from orchestrator.integrate.integrate import Decision, integrate
from orchestrator.prepare.fence_check import fence_of, unmet
from orchestrator.prepare.prepare import Prepared, Request, prepare
from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.events import RunReopened, RunStopped
from orchestrator.runs.kept_refs import let_bases_go
from orchestrator.runs.lost import superseded
from orchestrator.runs.manifest import Manifest, read_manifest, write_manifest
from orchestrator.runs.state import RunState, read_run
from orchestrator.settings.settings import Settings
from orchestrator.state.errors import StateError
from orchestrator.state.events import Event, RosterEntry, RunClosed, RunDeployed
from orchestrator.store.repo import import_gitpython
from orchestrator.store.store import Store
from orchestrator.tamper.run_files import refuse_altered
from tickets.problems import Problem
from workers.files.locks import held_folder, is_locked
from workers.files.run_dir import RunDir, new_run_dir, runs_of
from workers.git.run import Repository
from workers.worktree.worktree import remove_empty_folders, remove_places_below, remove_tree

START_WAIT = 30.0
"""Seconds that a run waits while another command is starting one."""
STARTING = 0.6
"""Seconds that it takes to start a pool full of workers."""
SCOPES_LOOK = 0.1
"""Seconds between two looks at the scopes in use."""


class Project(NamedTuple):
    """A repository as one command sees it: its settings, its environment, and who watches."""

    repository: Repository
    settings: Settings
    environ: Mapping[str, str]
    tell: Tell
    clock: Clock


class Ended(NamedTuple):
    """Where a command left a run."""

    state: RunState
    problems: tuple[Problem, ...]
    signalled: int | None = None
    """The signal that stopped it, where one did."""


async def run_phase(project: Project, request: Request) -> Ended:
    """Take a phase from its templates to the project's state. Raises Refusal before anything is started."""
    run, warnings = await start_in_time(project, request)
    return await go_on(project, run, warnings)


async def deploy_phase(project: Project, request: Request) -> Ended:
    """Take a phase as far as its workers' ends; judging them together and landing is left to the lead."""
    run, warnings = await start_in_time(project, request)
    return await go_on(project, run, warnings, integrates=False)


async def start_in_time(project: Project, request: Request) -> tuple[RunDir, tuple[Problem, ...]]:
    """Start a phase, and wait as long as was asked for where others hold what it needs. Raises Refusal."""
    until = time.monotonic() + request.wait
    while True:
        seen = holding.picture(project.repository)
        try:
            return start(project, request)
        except Refusal as refusal:
            if refusal.exit_code != HELD:
                raise
            while holding.picture(project.repository) == seen:
                if time.monotonic() >= until:
                    raise
                await anyio.sleep(SCOPES_LOOK)


def start(project: Project, request: Request) -> tuple[RunDir, tuple[Problem, ...]]:
    """Prove a phase and write it down, one command at a time: two at once would both find no run of it.

    Raises Refusal before anything is written.
    """
    with held_folder(project.repository.common, START_WAIT) as had:
        if not had:
            problem = Problem("run", "another command is starting a run", "try again when it has")
            raise Refusal(problem, exit_code=HELD, next_action="orchestrate ps")
        _clear_after_others(project.repository)
        with Store(project.repository).settled() as unfinished:
            prepared = prepare(project.repository, project.settings, request, project.environ)
        return begin(project, request, prepared), (*unfinished, *prepared.warnings)


def begin(project: Project, request: Request, prepared: Prepared) -> RunDir:
    """Write down what is to run, then put its workers on the roster. Raises StateError, nothing written."""
    store, at = Store(project.repository), project.clock()
    roster = tuple(
        RosterEntry(ticket.worker, ticket.title, ticket.owns)
        for ticket in prepared.plan.tickets
        if ticket.id not in prepared.skipped
    )
    store.check([RunDeployed("00000000_000000", request.phase, at, request.lead, roster)])
    run = new_run_dir(project.repository.root, at, holding.ids(project.repository))
    manifest = _manifest(project, request, prepared, run)
    holding.drop_stale(project.repository)
    holding.write(project.repository, run, manifest)
    write_manifest(run, manifest)
    # What a lost `.taskers/` left on the roster goes when its workers are sent out again.
    closed = superseded(project.repository, roster, at, request.lead)
    deployed = RunDeployed(run.id, request.phase, at, request.lead, roster)
    store.record([*closed, deployed], message="", commit=False)
    return run


async def go_on(
    project: Project, run: RunDir, warnings: tuple[Problem, ...] = (), *, integrates: bool = True
) -> Ended:
    """See a run to its end, from wherever it stands."""
    problems: list[Problem] = []
    async with _opened(project, run) as runtime:
        _refuse_overtaken(runtime)
        if runtime.state.closed == "interrupted":
            problems += _return_to_roster(runtime)
        async with _watched(runtime) as signalled:
            await work(runtime)
            problems += [found.as_problem() for found in runtime.tampered]
            if runtime.is_all_cancelled and not runtime.stopping:
                problems += _leave_roster(runtime, "cancelled")
            elif integrates and not runtime.stopping:
                problems += await integrate(runtime)
        if runtime.stopping:
            problems += _leave_roster(runtime, "interrupted")
    return _closed(runtime, (*warnings, *problems), signalled())


def _refuse_overtaken(runtime: Runtime) -> None:
    """Refuse to go on with a run while another one holds what its workers would write to.

    Both have locked what they own before they look: of two that start at once, one at least sees the other.
    """
    if ALL in runtime.run.cancelled() or runtime.state.has_ended:
        return
    with held_folder(runtime.repository.common, START_WAIT):
        others = [
            one for one in holding.claimed(runtime.repository, None, runtime.run) if one.standing == "running"
        ]
    mine = [ticket for ticket in runtime.manifest.tickets if not runtime.of(ticket).ended]
    found = holding.conflicts(mine, runtime.manifest.scopes, others, ignore_case=runtime.manifest.ignore_case)
    holding.refuse_conflicts(found)


async def judge_run(project: Project, run: RunDir, decision: Decision) -> Ended:
    """Judge, gate, land and record what a run brought back; its workers have all ended."""
    async with _opened(project, run) as runtime, _watched(runtime) as signalled:
        problems = await integrate(runtime, decision)
    return _closed(runtime, tuple(problems), signalled())


def _leave_roster(runtime: Runtime, status: Literal["cancelled", "interrupted"]) -> list[Problem]:
    """Have the state files say that a run's workers do not run: cancelled for good, or until `resume`.

    What some of a cancelled run had completed can still be integrated.
    """
    if runtime.state.closed == status or runtime.state.is_integrated:
        return []
    problems = _told(runtime, RunClosed(runtime.run.id, runtime.clock(), runtime.manifest.lead, status))
    runtime.note(RunStopped(status))
    return problems


def _return_to_roster(runtime: Runtime) -> list[Problem]:
    """Say that an interrupted run goes on."""
    sent = (ticket for ticket in runtime.manifest.tickets if ticket.id not in runtime.manifest.skipped)
    roster = tuple(RosterEntry(ticket.worker, ticket.title, ticket.owns) for ticket in sent)
    event = RunDeployed(
        runtime.run.id, runtime.manifest.phase, runtime.clock(), runtime.manifest.lead, roster
    )
    problems = _told(runtime, event)
    runtime.note(RunReopened())
    return problems


def _told(runtime: Runtime, event: Event) -> list[Problem]:
    try:
        return list(Store(runtime.repository).record([event], message="", commit=False).problems)
    except StateError as error:
        return list(error.problems)


def _closed(runtime: Runtime, problems: tuple[Problem, ...], signalled: int | None = None) -> Ended:
    """Take away the workings of a run that nothing more can come of; its outputs stay."""
    _clear(runtime.repository, runtime.state, runtime.manifest.base)
    return Ended(runtime.state, problems, signalled)


def _clear_after_others(repository: Repository) -> None:
    """Take away the workings of runs that were over, and whose runtime was killed before it could."""
    for run in runs_of(repository.root, closed=False):
        state = read_run(run)
        if state is None or state.is_unfinished or is_locked(run.path / "run.lock"):
            continue
        with contextlib.suppress(Refusal):
            _clear(repository, state, read_manifest(run).base)


def _clear(repository: Repository, state: RunState, base: str) -> None:
    """Take away what a run needed while it was on; word is left last, so that the next one ends a cut."""
    run = state.run
    if not state.is_unfinished:
        holding.drop(repository, run)
    if state.is_integrated:
        let_bases_go(repository, state, base)
        root = repository.root / ".taskers"
        scratch = root / "scratch" / run.id
        remove_empty_folders(scratch)  # most are: to look into a thousand costs more than to try
        for folder in (repository.own / "runs" / run.id, scratch):
            remove_tree(folder)
        # A worktree that no patch could be taken of holds the only copy of somebody's work.
        if not any(worker.evidence.worktree for worker in state.workers.values()):
            remove_places_below(repository.common, root / "worktrees" / run.id)
        with contextlib.suppress(OSError):
            (root / "homes" / run.id).rmdir()
    state.mark_end()


@asynccontextmanager
async def _opened(project: Project, run: RunDir) -> AsyncIterator[Runtime]:
    """Become the runtime of a run. Raises Refusal where another one is, or the fence does not hold."""
    if problems := unmet(project.settings, fence_of(project.settings)):
        raise Refusal(*problems)
    manifest = read_manifest(run)
    refuse_altered(run, project.repository.own / "runs" / run.id)
    with _while_there(run), holding.held(project.repository, run, manifest):
        async with open_runtime(
            project.repository,
            run,
            manifest,
            project.settings,
            environ=project.environ,
            tell=project.tell,
            clock=project.clock,
        ) as runtime:
            run.closed_path.unlink(missing_ok=True)
            yield runtime


@contextlib.contextmanager
def _while_there(run: RunDir) -> Iterator[None]:
    """Say that somebody deleted the run's folder, where that is what went wrong."""
    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        if run.path.is_dir():
            raise
        what = "the run's folder was deleted while it ran: what its workers had not landed is lost"
        do = "`orchestrate status` shows what is left; begin the phase again"
        refusal = Refusal(Problem(str(run.path), what, do), exit_code=1, next_action="orchestrate status")
        raise refusal from error


@asynccontextmanager
async def _watched(runtime: Runtime) -> AsyncIterator[Callable[[], int | None]]:
    """Watch for signals and cancels during the block.

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
        group.start_soon(_import_what_lands)
        yield lambda: caught[0] if caught else None
        group.cancel_scope.cancel()


async def _import_what_lands() -> None:
    """Have GitPython at hand: before the workers start, or after their end, all would wait for its import."""
    await anyio.sleep(STARTING)
    await anyio.to_thread.run_sync(import_gitpython, abandon_on_cancel=True)


def _manifest(project: Project, request: Request, prepared: Prepared, run: RunDir) -> Manifest:
    plan, values, rules = prepared.plan, prepared.values, prepared.rules
    return Manifest(
        run=run.id,
        phase=request.phase,
        created=project.clock().astimezone(UTC).isoformat(timespec="seconds"),
        lead=request.lead,
        base=prepared.head.sha or "",
        branch=prepared.head.branch,
        fence=fence_of(project.settings).level,
        tickets=tuple(ticket.done_by(prepared.doers.of(ticket)) for ticket in plan.tickets),
        skipped=dict(prepared.skipped),
        dependencies=dict(plan.dependencies),
        reserved=rules.reserved,
        links=dict(rules.links),
        ignore_case=rules.ignore_case,
        files=rules.files,
        project=values.project,
        deliverable=values.deliverable,
        status_text=values.status,
        decisions_text=values.decisions,
    )
