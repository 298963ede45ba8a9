"""`status`: the state at a glance, from files alone. Imports little: a lead asks often."""

from typing import Any

from orchestrator.budget.totals import Spent, spent_in, spent_on
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, NoArguments, repository_of
from orchestrator.errors import Refusal
from orchestrator.runs.next_step import Step, next_step, open_p0, phases_done, waiting_of
from orchestrator.runs.state import RunState, read_run
from orchestrator.state.canonical.status.read import Status, doubts, read
from orchestrator.store.intent import decided
from orchestrator.store.read import read_file, read_state
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from workers.files.run_dir import runs_of
from workers.git.run import Repository

SETTINGS = "orchestrate.toml"
RUNS_SHOWN = 3


Arguments = NoArguments


class View(Value):
    """What a text shows beside the document."""

    p0: tuple[str, ...]
    """Open TODO items that come first."""
    runs: dict[str, tuple[RunState, Spent]]
    today: Spent


def call(caller: Caller, _: NoArguments) -> Answer[View]:
    """Return the state of the project."""
    repository = repository_of(caller)
    problems: list[Problem] = []
    status, is_missing = _read(repository, problems)
    state = _said(status) if status else {}
    problems += _settings_problems(repository)
    runs = _runs(repository, problems)
    costs = spent_in(repository.own / "spending", runs)
    day = f"{caller.now():%Y-%m-%d}"
    today = spent_on(repository.own / "spending", day)
    intents = (decided(repository, kind) for kind in ("intent", "landing"))
    waiting = [path.name for path in intents if path.exists()]
    if waiting:
        what = "a change was decided and not completed"
        problems.append(Problem(waiting[0], what, "`orchestrate resume` completes it", "warning"))
    step = _next(caller, repository, status, runs, is_missing=is_missing)
    next_action = "orchestrate resume" if waiting else step.command
    known = {run.run.id: (run, cost) for run, cost in zip(runs, costs, strict=True)}
    p0 = tuple(open_p0(status, phases_done(repository.root, status)))
    return answer(
        problems, next_action, project=repository.root.name, **state,
        runs=[_shown(run, cost) for run, cost in known.values()], spent={"day": day, **today._asdict()},
    ).showing(View(p0, known, today))  # fmt: skip


def _read(repository: Repository, problems: list[Problem]) -> tuple[Status | None, bool]:
    """Return what STATUS.md holds, and whether it is missing."""
    try:
        text = read_state(repository.root, "STATUS.md")
        if text is None:
            problems.append(Problem("STATUS.md", "the file is missing", "`orchestrate init` writes it"))
            return None, True
        found = read(text)
        problems += doubts(text)
    except ProblemError as error:
        problems += error.problems
        return None, False
    return found, False


def _settings_problems(repository: Repository) -> list[Problem]:
    """Warn of settings that cannot be read: the next command that needs them would refuse."""
    try:
        text = read_file(repository.root, SETTINGS)
    except Refusal as refusal:
        return [problem._replace(severity="warning") for problem in refusal.problems]
    if not text:
        return []
    from orchestrator.settings.toml_text import read_toml  # noqa: PLC0415 - for start-up time, where there is no such file

    problems: list[Problem] = []
    read_toml(SETTINGS, text, problems)
    return [problem._replace(severity="warning") for problem in problems]


def _said(found: Status) -> dict[str, Any]:
    return {
        "phase": found.phase,
        "milestone": found.milestone,
        "deliverable": {"name": found.deliverable.name, "status": found.deliverable.status},
        "lead": found.lead,
        "last_updated": found.last_updated,
        "progress": dict(found.progress),
        "todo": {grade: [text for done, text in items if not done] for grade, items in found.todo.items()},
        "active_workers": [
            {"worker": one.worker, "title": one.title, "scope": one.scope, "run": one.run}
            for one in found.active
        ],
    }


def _runs(repository: Repository, problems: list[Problem]) -> list[RunState]:
    """Read the newest runs; all of a thousand would take a second, and no one asks for them here."""
    found = (read_run(run, problems) for run in reversed(runs_of(repository.root)[-RUNS_SHOWN:]))
    return [state for state in found if state is not None]


def _shown(state: RunState, cost: Spent) -> dict[str, Any]:
    outcomes: dict[str, int] = {}
    started = "running" if state.status() == "running" else "started"
    for worker in state.workers.values():
        going = "to be tried again" if worker.retrying else started
        word = worker.outcome or (going if worker.started else "waiting")
        outcomes[word] = outcomes.get(word, 0) + 1
    return {
        "run": state.run.id,
        "phase": state.phase,
        "status": state.status(),
        "outcomes": outcomes,
        "pending": list(state.pending),
        "spent": cost._asdict(),
        "next_action": state.next_action(),
    }


def _next(
    caller: Caller, repository: Repository, status: Status | None, runs: list[RunState], *, is_missing: bool
) -> Step:
    """Return what is next, as `resume`, `report` and `handoff` do."""
    known = {run.run.id: run for run in runs}
    unfinished = (
        known.get(run.id) or read_run(run) for run in reversed(runs_of(repository.root, closed=False))
    )
    waiting = waiting_of(
        (run for run in unfinished if run is not None and run.is_unfinished), runs[0] if runs else None
    )
    there = {run.id for run in runs_of(repository.root)}
    if waiting is None and status and any(one.run and one.run not in there for one in status.active):
        from orchestrator.report.gather import gather  # noqa: PLC0415 - only for a run that is gone
        from orchestrator.report.summary import step_of  # noqa: PLC0415 - as above

        return step_of(gather(repository, caller.now()))
    return next_step(repository.root, status, waiting, None, is_missing=is_missing)
