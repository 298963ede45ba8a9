"""Workers that ended with a question, and go on with the lead's answer in their own thread and tree."""

from orchestrator.execute.begin import answered_by
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.runtime_lifecycle import record
from orchestrator.runs.events import WorkerReopened
from orchestrator.state.events import RosterEntry, RunDeployed
from tickets.problems import Problem
from tickets.ticket import Ticket
from workers.engine.local import read_ended


async def reopen(runtime: Runtime, ticket: Ticket, re: str, said: str) -> list[Problem]:
    """Let a worker that has ended go on with the lead's answer to the message `re`, in this runtime."""
    worker, name = runtime.of(ticket), ticket.worker
    now = runtime.as_it_is(ticket)
    _, answer = await read_ended(runtime.run, now, worker.attempts)
    begin = answered_by(now, answer, worker.reason, worker.evidence.files, said)
    runtime.note(WorkerReopened(name, re, worker.attempts, begin))
    problems = _return_to_roster(runtime, ticket)
    if runtime.take_again is not None:
        runtime.take_again(ticket)
    return problems


def _return_to_roster(runtime: Runtime, ticket: Ticket) -> list[Problem]:
    manifest = runtime.manifest
    entry = RosterEntry(ticket.worker, ticket.title, ticket.owns)
    at = runtime.clock()
    event = RunDeployed(runtime.run.id, manifest.phase, at, manifest.lead, (entry,))
    return record(runtime, event, *(manifest.taken(at) if ticket.phase_worker else ()))
