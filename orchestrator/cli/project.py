"""What the commands that work on a run share: the project, the lead's name, the answer about a run."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TextIO, cast

import anyio

from orchestrator.cli.answer import Answer
from orchestrator.cli.calling import lead_of, now, repository_of
from orchestrator.cli.terminal.painter import Painter, standard_painter
from orchestrator.cli.terminal.progress import summary_lines, tell_lines, tell_nothing
from orchestrator.cli.terminal.table import LiveTable
from orchestrator.errors import APPROVAL, Refusal
from orchestrator.log import configure
from orchestrator.prepare.prepare import Request, problems_besides
from orchestrator.project import Project, Tell
from orchestrator.run import Ended
from orchestrator.runs.next_action import undone_problems
from orchestrator.runs.state import RunState, unfinished_runs
from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.rules import rules
from tickets.problems import Problem
from workers.fence.probe import begin_trial
from workers.files.locks import GLANCE
from workers.files.run_dir import RunDir
from workers.git.run import Repository

GARBAGE = 5_000
"""Values more after which garbage is looked for: a worker makes hundreds, and hardly a cycle."""
PICTURE = 0.5
"""Seconds between two pictures of the live table."""


def project_of(arguments: argparse.Namespace, request: Request | None = None) -> Project:
    """Read what a command needs to know. Raises Refusal; for a phase, with all that stands in its way."""
    painter = None if arguments.json else standard_painter(os.environ)
    _configure_logs(painter)
    repository = repository_of(arguments)
    tell: Tell = tell_nothing if arguments.json else tell_lines
    if painter is not None:
        tell = LiveTable(painter, os.environ)
    try:
        settings = read_settings(repository.root)
    except Refusal as refusal:
        besides = problems_besides(repository, request) if request else []
        raise Refusal(*refusal.problems, *besides) from None
    if request and settings.unapproved:
        # Only who would start workers is asked: what is out goes on within the pool that is approved.
        raise Refusal(
            settings.unapproved,
            exit_code=APPROVAL,
            next_action=rules.asks_approval(settings.unapproved),
        )
    return Project(repository, settings, dict(os.environ), tell, now)


def request_of(arguments: argparse.Namespace, *, new: bool) -> Request:
    """Take what was asked for from the arguments of a command about a phase. Raises Refusal."""
    return Request(
        phase=arguments.phase,
        lead=lead_of(arguments, repository_of(arguments)),
        only=tuple(arguments.only),
        new=new,
        strict_agents=arguments.strict_agents,
        on_overlap=arguments.on_overlap,
        wait=getattr(arguments, "wait", 0.0),
        day=f"{now():%Y-%m-%d}",
    )


def add_phase_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a phase's tickets are chosen: the same for the commands that show and that run them."""
    parser.add_argument("--only", nargs="+", default=[], metavar="TICKET", help="just these tickets")
    parser.add_argument("--strict-agents", action="store_true", help="refuse if an agent is missing or off")
    parser.add_argument("--on-overlap", choices=["refuse", "serialize"], default="refuse",
                        help="what becomes of tickets that own the same path")  # fmt: skip


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Declare how long a command that starts workers waits for scopes that others hold."""
    parser.add_argument("--wait", type=_seconds, default=0.0, metavar="S",
                        help="seconds to wait for scopes that other runs hold (default: 0)")  # fmt: skip


def newest_unfinished(repository: Repository) -> RunDir:
    """Give the newest run that is not integrated. Raises Refusal where there is none."""
    found = unfinished_runs(repository.root)
    if not found:
        problem = Problem("run", "nothing is unfinished, and no phase was named", "name a phase")
        raise Refusal(problem)
    return found[-1].run


def finish(
    project: Project,
    work: Callable[[], Coroutine[Any, Any, Ended]],
    expected: tuple[str, ...] = ("integrated",),
) -> Answer:
    """Run the stages and answer about the run; `expected` are the states that are no failure."""
    begin_trial(project.settings.fence)
    gc.set_threshold(GARBAGE)
    try:
        ended = anyio.run(partial(_watched, project, work))
    except BaseExceptionGroup as group:
        raise _first(group) from group
    state = ended.state
    problems = (*ended.problems, *undone_problems(state.phase, state.workers, state.waits_for))
    _wait_left(state)
    document = state.document()
    document["problems"] = [problem.as_json() for problem in problems]
    # Who is told nothing on the way reads JSON at the end.
    lines = () if project.tell is tell_nothing else summary_lines(state, problems, document["next_action"])
    return Answer(_exit_code(ended, document, expected), document, tuple(lines))


def _wait_left(state: RunState) -> None:
    """Wait until nobody works on a run that we have just left.

    A program that we were starting at that moment may hold a copy of its lock for an instant.
    """
    until = time.monotonic() + GLANCE
    while state.status() == "running" and time.monotonic() < until:
        time.sleep(0.005)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return seconds


async def _watched(project: Project, work: Callable[[], Coroutine[Any, Any, Ended]]) -> Ended:
    """Run the stages; where a table shows them, draw it again and again until they have ended."""
    table = project.tell
    if not isinstance(table, LiveTable):
        return await work()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_draw, table)
            ended = await work()
            group.cancel_scope.cancel()
    finally:
        table.painter.erase()
    return ended


async def _draw(table: LiveTable) -> None:
    while True:
        table.draw(now())
        await anyio.sleep(PICTURE)


def _exit_code(ended: Ended, document: dict[str, Any], expected: tuple[str, ...]) -> int:
    if ended.signalled:
        return 128 + ended.signalled
    known = any(problem.severity == "error" for problem in ended.problems)
    return 1 if known or ended.state.has_failures or document["status"] not in expected else 0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give what a task group was ended by: a refusal is one, however deep it lies."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _configure_logs(painter: Painter | None) -> None:
    """Log to standard error, where a person reads what went wrong and a machine reads JSON."""
    terminal = sys.stderr.isatty()
    # The table must know of each line on the terminal that it stands on.
    stream = cast("TextIO", painter) if painter is not None and terminal else sys.stderr
    quiet = terminal or "ORCHESTRATE_LOG" not in os.environ
    configure(stream, is_terminal=terminal, level="warning" if quiet else "info")
