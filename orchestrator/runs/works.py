"""What a run has made of its tickets, by its records; kept beside the archive once the run is packed."""

import json
from collections.abc import Iterator

from orchestrator.runs.manifest import Manifest
from orchestrator.runs.packed_works import SCHEMA, Work, works_path
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WorkerState
from tickets.ticket import Ticket
from workers.files.durable import create_file


def works_of(state: RunState, manifest: Manifest) -> Iterator[Work]:
    """Yield what a run has made of its tickets."""
    for ticket in manifest.tickets:
        worker = state.workers.get(ticket.worker)
        if worker is not None and worker.started and worker.ended:
            yield _work(state, worker, ticket)


def keep_works(state: RunState, manifest: Manifest) -> None:
    """Write what a run has made of its tickets beside its archive: it outlives the run's folder there."""
    works = [one._asdict() for one in works_of(state, manifest)]
    text = json.dumps({"schema": SCHEMA, "phase": state.phase, "tickets": works})
    works_path(state.run).unlink(missing_ok=True)  # of a call that did not come further
    create_file(works_path(state.run), text.encode() + b"\n")


def _work(state: RunState, worker: WorkerState, ticket: Ticket) -> Work:
    name = ticket.worker
    return Work(
        state.run.id,
        ticket.id,
        ticket.digest,
        name,
        worker.lands,
        worker.ended_as,
        worker.verdict or "",
        worker.reason,
        "" if worker.found == worker.reason else worker.found,
        worker.evidence.output,
        is_change=state.is_to_land(name),
        has_landed=name in state.landings,
        commit=state.landings.get(name),
    )
