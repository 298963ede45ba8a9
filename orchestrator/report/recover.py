"""After a stop: what is true, what was repaired, what is next. Spends nothing and starts no worker."""

from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.errors import StateError
from orchestrator.runs.live import doing_of
from orchestrator.runs.roster import landed_meanwhile
from orchestrator.runs.state import RunState, unfinished_runs
from orchestrator.store.store import Store
from tickets.problems import Problem, TicketError
from workers.files.locks import is_locked
from workers.git.run import Repository


class Standing(NamedTuple):
    """What was waiting to be finished, and what still is."""

    runs: tuple[RunState, ...]
    """Those that are not integrated, oldest first."""
    repaired: tuple[str, ...]
    problems: tuple[Problem, ...]


def look(repository: Repository, at: datetime, lead: str, *, commit: bool) -> Standing:
    """Finish what a killed command had decided, record what landed of runs that are gone, see what waits."""
    store = Store(repository)
    repaired = tuple(store.pending())
    problems = tuple(store.finish()) if repaired else ()
    if not problems:
        recorded, problems = _record_landed(store, repository, at, lead, commit=commit)
        repaired += recorded
    return Standing(tuple(unfinished_runs(repository.root)), repaired, problems)


def standing_of(state: RunState) -> list[dict[str, Any]]:
    """Describe the state of each worker of a run, from its files alone."""
    found = []
    lives = is_locked(state.run.path / "run.lock")
    for name, worker in state.workers.items():
        shown = {"worker": name, "ticket": worker.ticket, "state": doing_of(state, name, lives=lives)}
        found.append({**shown, "outcome": worker.outcome, "verdict": worker.verdict})
    return found


def _record_landed(
    store: Store, repository: Repository, at: datetime, lead: str, *, commit: bool
) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    """Record what had landed of a run that was lost before its record, so that it is not done again."""
    try:
        events = landed_meanwhile(repository, at, lead)
        if not events:
            return (), ()
        runs = ", ".join(dict.fromkeys(event.run for event in events))
        trailers = "\n".join(f"Orchestrate-State: {event.run}" for event in events)
        message = f"Record what had landed of run {runs}\n\n{trailers}\n"
        done = store.record(events, message=message, commit=commit)
    except (StateError, TicketError) as error:
        return (), tuple(problem._replace(severity="warning") for problem in error.problems)
    said = tuple(
        f"run {event.run} had landed as {(event.landing or '')[:10]} and is gone; recorded for "
        + ", ".join(worker.worker for worker in event.workers)
        for event in events
    )
    return said, done.problems
