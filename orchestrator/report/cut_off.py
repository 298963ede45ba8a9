"""The checkpoints of workers whose runtime is gone: what they did last, by their streams and their trees."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from orchestrator.errors import Refusal
from orchestrator.prepare.continuing import checkpoint_of
from orchestrator.runs.checkpoint_place import place_in_the_way
from orchestrator.runs.manifest import Manifest, read_manifest
from orchestrator.runs.stages import GONE, Stages
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WorkerState
from orchestrator.state import Family
from orchestrator.state.events import CheckpointWritten
from orchestrator.store.store import Store
from tickets.ticket import Ticket
from workers.agents.follow import last_said
from workers.errors import WorkerError
from workers.git.run import GitError, Repository
from workers.worktree.changes import Checker
from workers.worktree.worktree import found_place

MOST = 256 << 20
"""Bytes of changes that are looked at."""


def note_cut_off(repository: Repository, runs: Sequence[RunState], families: Sequence[Family]) -> list[str]:
    """Write the checkpoints of agents whose runtime is gone; return a line for each. Raises StateError."""
    if place_in_the_way(repository.root):
        return []
    events: list[CheckpointWritten] = []
    for run in runs:
        if run.status() != "interrupted":
            continue
        with suppress(Refusal):  # `resume` reports a manifest that cannot be read
            events += _of_run(repository, run, read_manifest(run.run))
    if not events:
        return []
    done = Store(repository).record(events, families=tuple(families), message="", commit=False, is_run=True)
    left = {at for at, _ in done.left}
    return [f"checkpoint of {one.agent}: {one.action}" for at, one in enumerate(events) if at not in left]


def _of_run(repository: Repository, run: RunState, manifest: Manifest) -> Iterator[CheckpointWritten]:
    for ticket in manifest.tickets:
        worker = run.workers.get(ticket.worker)
        if worker is None or worker.agent == "command" or worker.ended or not worker.started:
            continue
        if worker.retrying or run.outlives(ticket.worker) or _is_noted(repository, ticket):
            continue
        stdout = run.run.attempt(ticket.worker, worker.attempts).stdout
        last = last_said(worker.agent, stdout, is_work=True)
        stages = Stages(run.run.id, ticket, manifest.phase, manifest.continues.get(ticket.id))
        count = _changed(repository, run, ticket, worker)
        try:
            at = datetime.fromtimestamp(stdout.stat().st_mtime, UTC)
        except OSError:
            at = datetime.fromisoformat(worker.started_at)
        yield stages.gone(at, last, count)


def _is_noted(repository: Repository, ticket: Ticket) -> bool:
    """Return whether a checkpoint says already that its worker is gone."""
    found = checkpoint_of(repository.root, ticket)
    return found is not None and found.last_action.startswith(GONE)


def _changed(repository: Repository, run: RunState, ticket: Ticket, worker: WorkerState) -> int:
    """Count the files that a worker has changed in its tree, which `resume RUN` goes on in."""
    if ticket.mode == "read-only":
        return 0
    checker = Checker(repository.common, repository.own / "runs" / run.run.id, repository.root)
    index = checker.directory / f"{ticket.worker}.index"
    with suppress(WorkerError, GitError, OSError):
        place = found_place(repository.common, run.run.worktree(ticket.worker), worker.base, index)
        if place is not None:
            found = checker.look(place, MOST)
            checker.forget(place)
            return len(found.changes)
    return 0
