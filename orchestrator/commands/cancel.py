"""`cancel RUN [WORKER...]`: stops whole process trees, whether their runtime is alive or not."""

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from orchestrator.commands._names import live_named, workers_named
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.runs.live import LiveRun, doing_of
from orchestrator.runs.next_action import next_of_run
from tickets.problems import Problem
from tickets.wording import some_of
from workers.files.run_dir import RunDir
from workers.git.run import Repository

LOOK = 0.02
NAMED = 3
"""How many workers a line names before it counts the rest."""
MARGIN = 15.0
"""Seconds beyond the grace until we stop waiting for trees that do not exit; shims try for longer."""


class Arguments(NamedTuple):
    """The arguments of `cancel`."""

    run: str
    workers: tuple[str, ...] = ()
    """These workers; empty: the whole run."""


def call(caller: Caller, arguments: Arguments) -> Answer[str]:
    """Stop a run, or some of its workers, and wait until they have exited."""
    repository = repository_of(caller)
    live = live_named(repository, arguments.run)
    run, workers = live.state.run, live.state.workers
    named = workers_named(live.state, arguments.workers)
    over = [name for name in named if workers[name].ended]
    concerned = [name for name in named or workers if not workers[name].ended]
    if not concerned or live.state.status() in ("cancelled", "integrated"):
        who = f"{some_of(over, NAMED)} had ended before" if over else "it had ended before"
        return _answered(live, named, [], f"{who}; there was nothing to stop", ())
    run.cancel(named or ["all"])
    problems = _wait_dead(repository, live, concerned, whole=not named)
    if not live.is_running and not problems:
        problems = [] if named else _close(caller, run)
    live.look()
    before = f"; {some_of(over, NAMED)} had ended before" if over else ""
    stopped = [name for name in concerned if _is_stopped(live, name)]
    what = f"told {some_of(concerned, NAMED)} to stop" if problems else _done(live, concerned, stopped)
    return _answered(live, named or concerned, problems, what + before, stopped)


def _done(live: LiveRun, concerned: list[str], stopped: list[str]) -> str:
    """Describe what was stopped: some workers never ran, and some had ended before."""
    workers = live.state.workers
    unstarted = [name for name in concerned if not workers[name].started]
    rest = [name for name in concerned if name not in {*stopped, *unstarted}]
    kinds = {"stopped ": stopped, "kept from starting ": unstarted, "ended by then: ": rest}
    return "; ".join(f"{words}{some_of(names, NAMED)}" for words, names in kinds.items() if names)


def _is_stopped(live: LiveRun, worker: str) -> bool:
    """Return whether a worker ran, and was stopped by a cancel."""
    known = live.state.workers[worker]
    if known.ended or not known.started:
        return known.outcome == "cancelled"
    return doing_of(live.state, worker, lives=live.is_running) != "ended, not judged"


def _wait_dead(repository: Repository, live: LiveRun, concerned: list[str], *, whole: bool) -> list[Problem]:
    """Wait until the trees have exited, and the runtime, if there is one, has noted it."""
    began, given = time.monotonic(), MARGIN
    while True:
        live.look()
        lives = live.is_running
        left = [name for name in concerned if not _is_over(live, name, lives=lives)]
        if not left and not (whole and lives):
            return []
        waited = time.monotonic() - began
        if waited > given and given == MARGIN:
            from orchestrator.settings.settings import read_settings  # noqa: PLC0415 - for start-up time

            given = MARGIN + read_settings(repository.root).limits.grace
        if waited > given:
            break
        time.sleep(LOOK)
    run = live.state.run.id
    if not left:
        return [Problem(run, "its runtime has not ended yet", f"call again: `orchestrate wait {run}`")]
    what = "has not exited yet"
    return [Problem(f"{run} {name}", what, "call again: `orchestrate ps`") for name in left]


def _is_over(live: LiveRun, worker: str, *, lives: bool) -> bool:
    known = live.state.workers[worker]
    if known.ended or lives:
        return known.ended
    match doing_of(live.state, worker, lives=False):
        case "running":
            return False
        case "lost":
            # No other process would find the processes that a killed shim left running.
            from workers.engine.launch import mark_of  # noqa: PLC0415 - for start-up time
            from workers.engine.process import kill_marked  # noqa: PLC0415 - as above

            kill_marked(mark_of(live.state.run, worker, known.attempts))
    return True


def _close(caller: Caller, run: RunDir) -> list[Problem]:
    """Do the work of the run's dead runtime: judge the workers that ended, close the run."""
    from orchestrator.commands._project import project_of  # noqa: PLC0415 - for start-up time
    from orchestrator.commands._stages import finish  # noqa: PLC0415 - as above
    from orchestrator.run import go_on  # noqa: PLC0415 - as above

    project = project_of(caller)
    return list(finish(caller, project, partial(go_on, project, run)).problems)


def _answered(
    live: LiveRun, workers: list[str], problems: list[Problem], what: str, stopped: Sequence[str]
) -> Answer[str]:
    """Answer about the run and these workers; `what` describes the result in one line."""
    state = live.state
    shown = []
    for name in workers:
        known = state.workers[name]
        doing = known.outcome or doing_of(state, name, lives=live.is_running)
        shown.append({"worker": name, "ticket": known.ticket, "state": doing, "reason": known.reason})
    return answer(
        problems, next_of_run(state), run=state.run.id, phase=state.phase, status=state.status(),
        workers=shown, stopped=list(stopped),
    ).showing(what)  # fmt: skip
