"""`orchestrate status`: the state at a glance, from files alone. Imports little: a lead asks often."""

import argparse
import gc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import now, repository_of
from orchestrator.intents import decided
from orchestrator.reading import read_state
from orchestrator.refusal import Refusal
from orchestrator.runs import RunState, read_run
from orchestrator.spent import Spent, spent_in, spent_on
from orchestrator.state.canonical.phases_run import PATH as DECISIONS
from orchestrator.state.canonical.phases_run import phases_run
from orchestrator.state.canonical.status_reading import doubts, read
from orchestrator.state.errors import StateError
from tickets.problems import Problem, TicketError
from workers.git import Repository
from workers.output import runs_of

RUNS_SHOWN = 3
NAMED = 3
"""Workers of one kind that a line names before it counts the rest."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `status` takes: nothing of its own."""


def answer(arguments: argparse.Namespace) -> Answer:
    """Show where the project stands."""
    gc.disable()  # we are gone before anything is worth collecting, and thousands may wait
    repository = repository_of(arguments)
    problems: list[Problem] = []
    state = _state(repository, problems)
    runs = _runs(repository, problems)
    costs = spent_in(repository.own / "spending", runs)
    day = f"{now():%Y-%m-%d}"
    today = spent_on(repository.own / "spending", day)
    intents = (decided(repository, kind) for kind in ("intent", "landing"))
    waiting = [path.name for path in intents if path.exists()]
    if waiting:
        what = "a change was decided and not completed"
        problems.append(Problem(waiting[0], what, "`orchestrate resume` completes it", "warning"))
    next_action = _next_action(repository, state, runs, waiting)
    errors = any(problem.severity == "error" for problem in problems)
    document = envelope(
        problems, next_action, ok=not errors, project=repository.root.name, **state,
        runs=[_shown(run, cost) for run, cost in zip(runs, costs, strict=True)],
        spent={"day": day, **today._asdict()},
    )  # fmt: skip
    lines = _lines(document, {run.run.id: (run, cost) for run, cost in zip(runs, costs, strict=True)})
    if not today.is_nothing:
        lines.append(f"spent today   {today.in_words()}")
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))


def _state(repository: Repository, problems: list[Problem]) -> dict[str, Any]:
    try:
        text = read_state(repository.root, "STATUS.md")
        if text is None:
            problems.append(Problem("STATUS.md", "the file is missing", "`orchestrate init` writes it"))
            return {}
        found = read(text)
        problems += doubts(text)
    except (TicketError, StateError, Refusal) as error:
        problems += error.problems
        return {}
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
    for facts in state.workers.values():
        word = facts["outcome"] or (started if facts["started"] else "waiting")
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


def _next_action(
    repository: Repository, state: dict[str, Any], runs: list[RunState], waiting: list[str]
) -> str:
    if waiting:
        return "orchestrate resume"
    for run in runs:
        if run.status() not in ("integrated", "running", "cancelled"):
            return run.next_action()
    if not state:
        return "orchestrate init"
    number = "".join(c for c in state["phase"].partition("-")[0] if c.isdigit())
    if not number:
        return "orchestrate plan PHASE"
    with suppress(Refusal):
        # Run already: what is next is for the lead to say, and the list is where it is said.
        if f"phase-{number}" in phases_run(read_state(repository.root, DECISIONS)):
            return "orchestrate todo list"
    return f"orchestrate plan phase-{number}"


def _lines(document: dict[str, Any], seen: Mapping[str, tuple[RunState, Spent]]) -> list[str]:
    lines = [f"project       {document['project']}"]
    if "phase" in document:
        named = document["deliverable"]
        lines += [
            f"phase         {document['phase']}",
            f"milestone     {document['milestone']}",
            f"deliverable   {named['name']}" + (f" ({named['status']})" if named["status"] else ""),
            *(f"{name.lower():<13} {text}" for name, text in document["progress"].items()),
            f"lead          {document['lead']}, {document['last_updated']} UTC",
        ]
        first = document["todo"].get("P0", [])[:3]
        lines += [f"P0            {text}" for text in first]
        # The roster keeps a worker until its run is integrated; one that has ended is told of with its run.
        ended = {
            (run.run.id, name)
            for run, _ in seen.values()
            for name, one in run.workers.items()
            if one["ended"]
        }
        lines += [
            f"active        {one['worker']}: {one['title']} (run {one['run'] or '?'})"
            for one in document["active_workers"]
            if (one["run"], one["worker"]) not in ended
        ]
    for told in document["runs"]:
        run, cost = seen[told["run"]]
        counted = ", ".join(f"{number} {_named(word, run)}" for word, number in told["outcomes"].items())
        pending = f"; pending: {_names(run.pending)}" if run.pending else ""
        money = "" if cost.is_nothing else f"; {cost.in_words()}"
        lines.append(f"run           {run.run.id} ({run.phase}) {told['status']}: {counted}{pending}{money}")
    return [clean(line) for line in lines]


def _named(word: str, run: RunState) -> str:
    """Name those who did not end as they should: they are what a lead looks for."""
    failed = [name for name in run.failed if run.workers[name]["outcome"] == word]
    return f"{word} ({_names(failed)})" if failed else word


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
