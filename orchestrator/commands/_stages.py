"""The stages of a run, called by a command, and the answer about the run."""

import gc
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio

from orchestrator.commands._completion import completion_of
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.invoke import problem_of_machine, waits_by
from orchestrator.errors import Refusal
from orchestrator.project import Project
from orchestrator.report.situation import Situation
from orchestrator.run import Ended, HinderedError, first_error
from orchestrator.runs.inbox import read_inboxes
from orchestrator.runs.next_action import STATUS, next_of_run, run_problems
from orchestrator.runs.state import RunState, read_run
from orchestrator.step import Step, step_text
from tickets.problems import Problem
from tickets.wording import some_of
from workers.fence.probe import begin_trial
from workers.files.locks import GLANCE
from workers.files.run_dir import RunDir
from workers.git.run import GitError

GARBAGE = 5_000
"""New values after which garbage is collected: a worker makes hundreds, and hardly a cycle."""


def newest_unfinished(found: Situation) -> RunDir | None:
    """Return the newest run that is not integrated. Raises Refusal where another change comes first."""
    if found.unfinished:
        return found.unfinished[-1].run
    problems = found.interrupted
    if (waiting := found.waiting) is not None:
        what = f"run {waiting.run.id} was cancelled, and work of it that was accepted has not landed"
        problems = problems or (Problem("run", what, f"`orchestrate integrate {waiting.run.id}`"),)
    if problems:
        raise Refusal(*problems, next_action=found.step.step)
    return None


def finish(
    caller: Caller,
    project: Project,
    work: Callable[[], Coroutine[Any, Any, Ended]],
    expected: tuple[str, ...] = ("integrated",),
) -> Answer[RunState]:
    """Run the stages and answer about the run; `expected` are the states that are not a failure."""
    begin_trial(project.settings.fence.level)
    gc.set_threshold(GARBAGE)
    try:
        ended = anyio.run(partial(_beside, caller, work))
    except (BaseExceptionGroup, HinderedError) as error:
        return _hindered(first_error(error))
    state = ended.state
    problems = (*ended.problems, *run_problems(state))
    _wait_left(state)
    read_inboxes(project.repository.root, [state], caller.now().timestamp())
    step = _next(state, ended)
    is_well = state.status() == "integrated" and not any(one.severity == "error" for one in ended.problems)
    if is_well and (done := completion_of(state)):
        if step == STATUS:
            step = done
        elif isinstance(done, str):
            made = state.finished_deliverables
            what = f"all tickets are done of {some_of(made, len(made))}"
            problems = (*problems, Problem("deliverables", what, f"complete by `{done}`", "info"))
    document = state.document(step)
    document["problems"] = [problem.as_json() for problem in problems]
    return Answer(_exit_code(ended, document, expected), document, problems, state)


def _hindered(error: BaseException) -> Answer[RunState]:
    """Answer about a run that the machine has stopped; raise any other error."""
    state = read_run(error.run) if isinstance(error, HinderedError) else None
    if not isinstance(error, HinderedError) or state is None:
        raise error
    cause = error.cause
    place = str(error.run.path)
    found = cause.problem if isinstance(cause, GitError) else problem_of_machine(cause, place)
    if found is None:
        raise cause
    _wait_left(state)
    problem = found._replace(do=f"fix it, then: {step_text(next_of_run(state))}")
    document = state.document(waits_by([problem], "outside"))
    document["problems"] = [problem.as_json()]
    return Answer(1, document, (problem,), state)


def _next(state: RunState, ended: Ended) -> Step:
    """Return the step that continues a run, which is not what has just failed."""
    step = next_of_run(state)
    if ended.signalled and state.status() == "finished":
        # In the gate, say: in the background no limit of a tool call ends it.
        return f"orchestrate resume {state.run.id}"
    return step


def _wait_left(state: RunState) -> None:
    """Wait until no process holds the lock of a run that we have just left.

    A program that we were starting at that moment may hold a copy of it for an instant.
    """
    until = time.monotonic() + GLANCE
    while state.status() == "running" and time.monotonic() < until:
        time.sleep(0.005)


async def _beside(caller: Caller, work: Callable[[], Coroutine[Any, Any, Ended]]) -> Ended:
    """Run the stages, and concurrently the caller's display, until the stages have ended."""
    if caller.beside is None:
        return await work()
    async with anyio.create_task_group() as group:
        group.start_soon(caller.beside)
        ended = await work()
        group.cancel_scope.cancel()
    return ended


def _exit_code(ended: Ended, document: dict[str, Any], expected: tuple[str, ...]) -> int:
    if ended.signalled:
        return 128 + ended.signalled
    known = any(problem.severity == "error" for problem in ended.problems)
    return 1 if known or ended.state.has_failures or document["status"] not in expected else 0
