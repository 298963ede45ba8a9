"""THE MAIN PATH: a phase's templates become tickets, workers, verdicts, a landing and the project's state."""

from typing import NamedTuple

from orchestrator.execute.lifecycle import (
    heeding_stops,
    leave_roster,
    open_runtime,
    refuse_overtaken,
    return_to_roster,
)
from orchestrator.execute.worker import execute
from orchestrator.integrate.integrate import Decision, integrate
<<<<<<< HEAD
from orchestrator.prepare.prepare import Prepared, Request, prepare
from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.events import RunReopened, RunStopped
from orchestrator.runs.kept_refs import let_bases_go
from orchestrator.runs.lost import superseded
from orchestrator.runs.manifest import Manifest, read_manifest, write_manifest
from orchestrator.runs.state import RunState, read_run
from orchestrator.schedule.availability import unmet_fence
from orchestrator.settings.settings import Settings
from orchestrator.state.events import Event, RosterEntry, RunClosed, RunDeployed
from orchestrator.store.repo import import_gitpython
from orchestrator.store.store import Store
from orchestrator.tamper.run_files import refuse_altered
from tickets.problems import Problem
from workers.fence.probe import fence_in_force
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
=======
from orchestrator.prepare.prepare import Request
from orchestrator.prepare.start import start_run
from orchestrator.project import Project
from orchestrator.runs.cleanup import clear_run
from orchestrator.runs.state import RunState
from tickets.problems import Problem
from workers.files.run_dir import RunDir
>>>>>>> commands3


class Ended(NamedTuple):
    """Where a command left a run."""

    state: RunState
    problems: tuple[Problem, ...]
    signalled: int | None = None
    """The signal that stopped it, where one did."""


async def run_phase(project: Project, request: Request) -> Ended:
    """Take a phase from its templates to the project's state. Raises Refusal before anything is started."""
    run, warnings = await start_run(project, request)  # prepare/: a proven plan, written down
    return await go_on(project, run, warnings)


async def deploy_phase(project: Project, request: Request) -> Ended:
    """Take a phase as far as its workers' ends; judging them together and landing is left to the lead."""
    run, warnings = await start_run(project, request)
    return await go_on(project, run, warnings, integrates=False)


async def go_on(
    project: Project, run: RunDir, warnings: tuple[Problem, ...] = (), *, integrates: bool = True
) -> Ended:
    """Take a run to its end, from wherever it stands. Raises Refusal where it must not go on."""
    problems = [*warnings]
    async with open_runtime(project, run) as runtime:  # execute/: the run's lock, its journal, the shims
        refuse_overtaken(runtime)
        problems += return_to_roster(runtime)
        async with heeding_stops(runtime) as signalled:
            problems += await execute(runtime)  # execute/: every ticket to a verdict
            if runtime.is_all_cancelled and not runtime.stopping:
                problems += leave_roster(runtime, "cancelled")
            elif integrates and not runtime.stopping:
                problems += await integrate(runtime)  # integrate/: gate, landing, state files
        if runtime.stopping:
            problems += leave_roster(runtime, "interrupted")
    return _close(project, runtime.state, runtime.manifest.base, problems, signalled())


async def judge_run(project: Project, run: RunDir, decision: Decision) -> Ended:
    """Judge, gate, land and record what a run brought back; its workers have all ended."""
    async with open_runtime(project, run) as runtime, heeding_stops(runtime) as signalled:
        problems = await integrate(runtime, decision)
    return _close(project, runtime.state, runtime.manifest.base, problems, signalled())


<<<<<<< HEAD
def _leave_roster(d: Deployment, status: Literal["cancelled", "interrupted"]) -> list[Problem]:
    """Have the state files say that a run's workers do not run: cancelled for good, or until `resume`.

    What some of a cancelled run had completed can still be integrated.
    """
    if d.state.closed == status or d.state.is_integrated:
        return []
    problems = _told(d, RunClosed(d.run.id, d.clock(), d.manifest.lead, status))
    d.note(RunStopped(status))
    return problems


def _return_to_roster(d: Deployment) -> list[Problem]:
    """Say that an interrupted run goes on."""
    sent = (ticket for ticket in d.manifest.tickets if ticket.id not in d.manifest.skipped)
    roster = tuple(RosterEntry(ticket.worker, ticket.title, ticket.owns) for ticket in sent)
    event = RunDeployed(d.run.id, d.manifest.phase, d.clock(), d.manifest.lead, roster)
    problems = _told(d, event)
    d.note(RunReopened())
    return problems


def _told(d: Deployment, event: Event) -> list[Problem]:
    try:
        return list(Store(d.repository).record([event], message="", commit=False).problems)
    except StateError as error:
        return list(error.problems)


def _closed(d: Deployment, problems: tuple[Problem, ...], signalled: int | None = None) -> Ended:
    """Take away the workings of a run that nothing more can come of; its outputs stay."""
    _clear(d.repository, d.state, d.manifest.base)
    return Ended(d.state, problems, signalled)


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
async def _opened(project: Project, run: RunDir) -> AsyncIterator[Deployment]:
    """Become the runtime of a run. Raises Refusal where another one is, or the fence does not hold."""
    if problems := unmet_fence(project.settings, fence_in_force(project.settings.fence)):
        raise Refusal(*problems)
    manifest = read_manifest(run)
    refuse_altered(run, project.repository.own / "runs" / run.id)
    with _while_there(run), holding.held(project.repository, run, manifest):
        async with open_deployment(
            project.repository,
            run,
            manifest,
            project.settings,
            environ=project.environ,
            tell=project.tell,
            clock=project.clock,
        ) as d:
            run.closed_path.unlink(missing_ok=True)
            yield d


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
async def _watched(d: Deployment) -> AsyncIterator[Callable[[], int | None]]:
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
                    d.stop()
                else:
                    d.stop_at_once()

    d.look_for_cancels()
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        group.start_soon(d.watch_cancels)
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
        fence=fence_in_force(project.settings.fence).level,
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
=======
def _close(
    project: Project, state: RunState, base: str, problems: list[Problem], signalled: int | None
) -> Ended:
    clear_run(project.repository, state, base)  # runs/: what is not needed any more goes
    return Ended(state, tuple(problems), signalled)
>>>>>>> commands3
