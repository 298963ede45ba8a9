"""Runs and workers by the names that a user gives. Quick to import, for `ps` and `wait`."""

from collections.abc import Sequence

from orchestrator.errors import Refusal
from orchestrator.runs.live import LiveRun, live_run
from orchestrator.runs.state import RunState, unreadable
from tickets.problems import Problem
from tickets.templates.fan_out import members
from workers.files.run_dir import ARCHIVE, RUNS, RunDir, runs_of
from workers.git.run import Repository

_NAMED = 5
"""How many workers a message names."""


def run_named(repository: Repository, name: str) -> RunDir:
    """Return the run of an id, `last` or a unique beginning. Raises Refusal."""
    runs = runs_of(repository.root)
    found = [run for run in runs if run.id == name] or [run for run in runs if run.id.startswith(name)]
    if name == "last" and runs:
        return runs[-1]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(run.id for run in found)
        raise Refusal(Problem(name, "begins the names of several runs", f"write one of: {ids}"))
    packed = f"{ARCHIVE}/{name}.tar.gz"
    if "/" not in name and (repository.root / packed).is_file():
        do = f"`tar -xzf {packed} -C {RUNS}` brings it back"
        raise Refusal(Problem(name, "this run is packed", do), next_action="orchestrate status")
    newest = f"the newest is {runs[-1].id}, and `last` means it" if runs else "there are none yet"
    raise Refusal(Problem(name, "there is no such run", newest), next_action="orchestrate status")


def live_named(repository: Repository, name: str) -> LiveRun:
    """Read a run by its name. Raises Refusal."""
    run = run_named(repository, name)
    problems: list[Problem] = []
    found = live_run(run, problems)
    if found is None:
        raise Refusal(
            *(problems or [unreadable(run, run.roster_path.name, "it is damaged")]),
            next_action="orchestrate status",
        )
    return found


def workers_named(state: RunState, names: Sequence[str]) -> list[str]:
    """Return the workers of a run by their own names, their tickets' or a fan-out's. Raises Refusal."""
    found = {name: _meant(state, name) for name in names}
    unknown = [name for name, workers in found.items() if not workers]
    if unknown:
        first = list(state.workers)[:_NAMED]
        known = ", ".join(first) + (", ..." if len(state.workers) > _NAMED else "")
        what = f"run {state.run.id} has no such worker"
        raise Refusal(
            *(Problem(name, what, f"its workers: {known}") for name in unknown),
            next_action=f"orchestrate logs {state.run.id}",
        )
    return list(dict.fromkeys(worker for workers in found.values() for worker in workers))


def judged(state: RunState, names: Sequence[str]) -> tuple[str, ...]:
    """Return the named workers; of a fan-out only those without a verdict, if there are any."""
    found: list[str] = []
    for name in names:
        workers = _meant(state, name) or [name]
        waiting = [one for one in workers if one in state.workers and state.workers[one].verdict == "pending"]
        found += waiting or workers
    return tuple(dict.fromkeys(found))


def _meant(state: RunState, name: str) -> list[str]:
    """Return the workers that a name means: itself, its ticket's, or all of a fan-out's."""
    if name in state.workers:
        return [name]
    tickets = {worker.ticket: name for name, worker in state.workers.items()}
    return [tickets[ticket] for ticket in members(name, tickets)]
