"""`status`: the state at a glance, from files alone. Imports little: called often."""

from datetime import datetime
from typing import Any

from orchestrator.budget.totals import Spent
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, NoArguments, repository_of
from orchestrator.errors import Refusal
from orchestrator.report.situation import Situation
from orchestrator.runs.next_action import next_of_run, run_problems
from orchestrator.runs.state import RunState
from orchestrator.state import NEEDED
from orchestrator.state.canonical.status.read import Status
from orchestrator.state.document import merge_conflicts
from orchestrator.step import step_keys
from orchestrator.store.read import read_file
from tickets.problems import Problem
from tickets.value import Value
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
    found = Situation(repository_of(caller), caller.now())
    runs = found.newest(RUNS_SHOWN)[::-1]
    today, costs = found.spent(runs)
    problems = [*found.status_problems, *found.merging, *_settings_problems(found.repository)]
    problems += merge_conflicts({path: found.text(path) for path in NEEDED[1:]})
    problems += [*reversed(found.unreadable(RUNS_SHOWN)), *found.interrupted]
    # Whoever began it in the background has no other answer that tells it.
    problems += [one for run in runs[:1] for one in run_problems(run) if one.place == "gate"]
    known = {run.run.id: (run, cost) for run, cost in zip(runs, costs, strict=True)}
    return answer(
        problems, found.step.step, project=found.repository.root.name,
        **(_said(found.status) if found.status else {}), phases=found.phases,
        runs=[_shown(run, cost, found.at) for run, cost in known.values()],
        spent={"day": found.day, **today._asdict()},
    ).showing(View(found.p0, known, today))  # fmt: skip


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


def _shown(state: RunState, cost: Spent, now: datetime) -> dict[str, Any]:
    outcomes: dict[str, int] = {}
    lives = state.stage is not None
    for name, worker in state.workers.items():
        going = "running" if lives or state.outlives(name) else "stopped"
        going = "retrying" if worker.retrying else going
        word = worker.outcome or (going if worker.started else "waiting")
        word = worker.standing if worker.standing == "rejected" else word
        outcomes[word] = outcomes.get(word, 0) + 1
    return {
        "run": state.run.id,
        "phase": state.phase,
        "status": state.status(),
        "outcomes": outcomes,
        "pending": list(state.pending),
        "parked": state.parked_at(now) if state.status() == "running" else {},
        "spent": cost._asdict(),
        **step_keys(next_of_run(state, now)),
    }
