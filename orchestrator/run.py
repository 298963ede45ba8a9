"""THE MAIN PATH: a phase's templates become tickets, workers, verdicts, a landing and the project's state."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio.to_thread

from orchestrator.execute.checkpoints import checkpointing
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.runtime_lifecycle import (
    heeding_stops,
    leave_roster,
    open_runtime,
    refuse_overtaken,
    return_to_roster,
)
from orchestrator.execute.ticket import execute
from orchestrator.integrate.integrate import LeadDecision, integrate
from orchestrator.messages.coordinator import coordinating
from orchestrator.prepare.prepare import Request, finished_deliverables
from orchestrator.prepare.start import start_run
from orchestrator.project import Project
from orchestrator.runs.cleanup import clear_run
from orchestrator.runs.events import DeliverablesFinished
from orchestrator.runs.state import RunState
from tickets.problems import Problem
from workers.files.run_dir import RunDir
from workers.git.run import GitError


class Ended(NamedTuple):
    """The state in which a command left a run."""

    state: RunState
    problems: tuple[Problem, ...]
    signalled: int | None = None
    """The signal that stopped it, where one did."""


class HinderedError(Exception):
    """Raised where git or the machine stops a run that was started; its files say how far it is."""

    def __init__(self, run: RunDir, cause: GitError | OSError) -> None:
        super().__init__(f"run {run.id}: {cause}")
        self.run, self.cause = run, cause


def first_error(error: BaseException) -> BaseException:
    """Return the error that ended a task group, however deep it is nested; another one as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def run_phase(project: Project, request: Request) -> Ended:
    """Take a phase from its templates to the project's state. Raises Refusal before anything is started."""
    begun = await start_run(project, request)  # prepare/: a proven plan, written down
    project.warn(begun.warnings)
    return await go_on(project, begun.run, begun.warnings, lock=begun.lock)


async def deploy_phase(project: Project, request: Request) -> Ended:
    """Run the workers of a phase to their ends; judging them together and landing is left to the lead."""
    begun = await start_run(project, request)
    project.warn(begun.warnings)
    return await go_on(project, begun.run, begun.warnings, lock=begun.lock, integrates=False)


async def go_on(
    project: Project,
    run: RunDir,
    warnings: tuple[Problem, ...] = (),
    *,
    lock: int | None = None,
    integrates: bool = True,
) -> Ended:
    """Continue a run to its end, from any state. Raises Refusal where it must not continue.

    `lock` is the descriptor that holds the run's lock, where it is held already.
    """
    problems = [*warnings]
    async with (
        open_runtime(project, run, lock) as runtime,  # execute/: the run's lock, its journal, the shims
        _telling_of(run),
        coordinating(runtime) as mail,  # messages/: what the participants tell each other
        checkpointing(runtime) as checkpoints,  # docs/progress/: how far each agent has come
    ):
        refuse_overtaken(runtime)
        problems += return_to_roster(runtime)
        async with heeding_stops(runtime) as signalled:
            problems += await execute(runtime)  # execute/: every ticket to a verdict
            await checkpoints.write()
            if runtime.is_all_cancelled and not runtime.stopping:
                problems += leave_roster(runtime, "cancelled")
            elif integrates and not runtime.stopping:
                problems += await integrate(runtime)  # integrate/: gate, landing, state files
                await _note_deliverables(runtime)
        if runtime.stopping:
            problems += leave_roster(runtime, "interrupted")
        checkpoints.look_at_place()
        problems += [*mail.problems, *checkpoints.problems]
    return _close(project, runtime.state, runtime.manifest.base, problems, signalled())


async def judge_run(project: Project, run: RunDir, decision: LeadDecision) -> Ended:
    """Judge, gate, land and record the outputs of a run; its workers have all ended."""
    async with open_runtime(project, run) as runtime, _telling_of(run), heeding_stops(runtime) as signalled:
        problems = await integrate(runtime, decision)
        await _note_deliverables(runtime)
    return _close(project, runtime.state, runtime.manifest.base, problems, signalled())


async def _note_deliverables(runtime: Runtime) -> None:
    """Note what the run has finished: `wait` and `status` have no time to render templates."""
    state = runtime.state
    if runtime.stopping or not state.is_integrated:
        return
    made = await anyio.to_thread.run_sync(finished_deliverables, runtime.repository.root, state.phase)
    if tuple(made) != state.finished_deliverables:
        runtime.note(DeliverablesFinished(tuple(made)))


@asynccontextmanager
async def _telling_of(run: RunDir) -> AsyncIterator[None]:
    """Name the run with an error that stops it. Raises HinderedError in place of the error."""
    try:
        yield
    except (GitError, OSError, BaseExceptionGroup) as error:
        cause = first_error(error)
        if not isinstance(cause, GitError | OSError) or not run.path.is_dir():
            raise
        raise HinderedError(run, cause) from error


def _close(
    project: Project, state: RunState, base: str, problems: list[Problem], signalled: int | None
) -> Ended:
    clear_run(project.repository, state, base)  # runs/: what is not needed any more goes
    return Ended(state, tuple(problems), signalled)
