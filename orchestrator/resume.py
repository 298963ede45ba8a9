"""After a stop: what is true, what was repaired, what is next. Spends nothing and starts no worker."""

from typing import Any, NamedTuple

from orchestrator.runs import RunState, unfinished_runs
from orchestrator.store import Store
from tickets.problems import Problem
from workers.exits import is_held, read_exit
from workers.git import Repository


class Standing(NamedTuple):
    """Where the project stands."""

    runs: tuple[RunState, ...]
    """Those that are not integrated, oldest first."""
    repaired: tuple[str, ...]
    problems: tuple[Problem, ...]
    next_action: str


def look(repository: Repository) -> Standing:
    """Finish what a killed command had decided, and see what stands."""
    store = Store(repository)
    repaired = tuple(store.pending())
    problems = tuple(store.finish()) if repaired else ()
    runs = tuple(unfinished_runs(repository.root))
    next_action = runs[-1].next_action() if runs else "orchestrate status"
    return Standing(runs, repaired, problems, next_action)


def standing_of(state: RunState) -> list[dict[str, Any]]:
    """Say of each worker of a run what it is doing, from its files alone."""
    found = []
    for name, facts in state.workers.items():
        shown = {"worker": name, "ticket": facts["ticket"], "state": _state(state, name, facts)}
        found.append({**shown, "outcome": facts["outcome"], "verdict": facts["verdict"]})
    return found


def _state(state: RunState, worker: str, facts: dict[str, Any]) -> str:
    if facts["ended"]:
        return "ended"
    if not facts["started"]:
        return "waiting"
    files = state.run.attempt(worker, facts["attempts"])
    ended = read_exit(files.exit)
    if ended is not None:
        return "stopped" if ended.end == "cancelled" else "ended, not judged"
    return "running" if is_held(files.started) else "lost"
