"""Runs and workers by the names that a user calls them by. Light to import, for `ps` and `wait`."""

from collections.abc import Sequence

from orchestrator.live import LiveRun, live_run
from orchestrator.refusal import Refusal
from orchestrator.runs import RunState
from tickets.problems import Problem
from workers.git import Repository
from workers.output import RunDir, runs_of


def run_named(repository: Repository, name: str) -> RunDir:
    """Find a run by its id, `last` or a unique beginning. Raises Refusal."""
    runs = runs_of(repository.root)
    found = [run for run in runs if run.id == name] or [run for run in runs if run.id.startswith(name)]
    if name == "last" and runs:
        return runs[-1]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(run.id for run in found)
        raise Refusal(Problem(name, "begins the names of several runs", f"say one of: {ids}"))
    newest = f"the newest is {runs[-1].id}" if runs else "there are none yet"
    raise Refusal(Problem(name, "there is no such run", newest), next_action="orchestrate status")


def live_named(repository: Repository, name: str) -> LiveRun:
    """Read a run by its name. Raises Refusal."""
    run = run_named(repository, name)
    found = live_run(run)
    if found is None:
        what = "cannot be read: it is damaged, or of another version"
        raise Refusal(Problem(run.relative(run.roster_path), what, "begin a new run of its phase"))
    return found


def workers_named(state: RunState, names: Sequence[str]) -> list[str]:
    """Find workers of a run by their own names or their tickets'. Raises Refusal."""
    by_ticket = {facts["ticket"]: worker for worker, facts in state.workers.items()}
    unknown = [name for name in names if name not in state.workers and name not in by_ticket]
    if unknown:
        first = list(state.workers)[:_NAMED]
        known = ", ".join(first) + (", ..." if len(state.workers) > _NAMED else "")
        what = f"run {state.run.id} has no such worker"
        raise Refusal(
            *(Problem(name, what, f"its workers: {known}") for name in unknown), next_action="orchestrate ps"
        )
    return list(dict.fromkeys(by_ticket.get(name, name) for name in names))


_NAMED = 5
