"""After a stop: what is true, what was repaired, what is next. Spends nothing and starts no worker."""

from typing import Any, NamedTuple

from orchestrator.live import doing_of
from orchestrator.runs import RunState, unfinished_runs
from orchestrator.store import Store
from tickets.problems import Problem
from workers.git import Repository
from workers.output import is_locked


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
    lives = is_locked(state.run.path / "run.lock")
    for name, facts in state.workers.items():
        shown = {"worker": name, "ticket": facts["ticket"], "state": doing_of(state, name, lives=lives)}
        found.append({**shown, "outcome": facts["outcome"], "verdict": facts["verdict"]})
    return found
