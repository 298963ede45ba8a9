"""One attempt of a ticket as a job of the run's engine, and what the engine reports while it runs."""

from orchestrator.execute._prompt import add_to_prompt, write_prompt
from orchestrator.execute.begin import text_of
from orchestrator.execute.dispatch import Permit, most_usd, park
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import kept_tree, planned_tree
from orchestrator.runs.continued import Continued
from orchestrator.runs.events import Begin, Kind, PathsNotLinked, TreeSetUp, WorkerStarted
from tickets.ticket import Ticket
from workers.engine.job import (
    CheckpointSaid,
    EarlierWork,
    Emit,
    EngineEvent,
    FirstAnswer,
    Job,
    PatchDue,
    PathsMissing,
    SetUpRan,
    Throttled,
    TreePlan,
    TreeReady,
)
from workers.engine.local import read_ended
from workers.fence.probe import fence_in_force
from workers.files.run_dir import RunDir
from workers.shim.spec import Limits


async def new_job(runtime: Runtime, ticket: Ticket, number: int, begin: Begin, permit: Permit) -> Job:
    """Write the prompt of a new attempt, and return its job. Raises WorkerError, TicketError."""
    tree = await planned_tree(runtime, ticket)
    write_prompt(runtime, ticket)
    job = _job(runtime, ticket, number, tree)
    earlier = runtime.manifest.continues.get(ticket.id) if number == 1 else None
    # What an earlier run has left is a part of the whole prompt; in its thread the agent has read that.
    is_told = (ticket.agent == "command" and not begin.answer) or (earlier and not begin.thread)
    text = "" if is_told else text_of(begin)
    if text:
        since = await _cut_off(runtime, ticket, number - 1)
        prompt = add_to_prompt(runtime, ticket, number, text, alone=begin.thread is not None, since=since)
        job = job._replace(prompt=prompt)
    if earlier is not None:
        job = job._replace(earlier=_earlier(runtime, ticket, earlier))
    return job._replace(
        thread=begin.thread,
        budget_usd=most_usd(permit.reservation),
        lock_fds=tuple(permit.slot.fds),
        deadline=runtime.clock().timestamp() + ticket.timeout,
    )


def started_job(runtime: Runtime, ticket: Ticket) -> Job:
    """Return the job of the newest attempt, which has been started already; it is not started again."""
    job = _job(runtime, ticket, runtime.of(ticket).attempts, kept_tree(runtime, ticket))
    return job._replace(is_adopted=True)


def _earlier(runtime: Runtime, ticket: Ticket, found: Continued) -> EarlierWork:
    home = None
    if found.thread and found.run and found.worker:
        home = RunDir(runtime.run.root, found.run).home(found.worker)
    patch = runtime.run.earlier_patch(ticket.worker) if found.conflict else None
    return EarlierWork(home, patch)


async def _cut_off(runtime: Runtime, ticket: Ticket, number: int) -> str | None:
    """Return when an attempt began, as records have times, if it ended without a closing record."""
    before = await read_ended(runtime.run, ticket, number)
    return runtime.of(ticket).started_at.replace("+00:00", "Z") if before.answer.ended == "none" else None


def event_handler(runtime: Runtime, ticket: Ticket, number: int, kind: Kind) -> Emit:
    """Return the function that passes the events of an attempt on: to journal, guard and schedule."""
    worker, agent, guard = ticket.worker, ticket.agent, runtime.guard

    def handle(event: EngineEvent) -> None:
        match event:
            case TreeReady(base):
                if guard is not None:
                    guard.entered(worker, number, is_new=True)
                level = fence_in_force(runtime.settings.fence.level).level
                runtime.note(WorkerStarted(worker, number, base, level, kind, agent))
            case PathsMissing():
                runtime.note(PathsNotLinked(*event))
            case SetUpRan():
                runtime.note(TreeSetUp(*event))
            case FirstAnswer():
                runtime.schedule.logins.answered(agent)
            case Throttled(seconds, message):
                # A provider that its worker waits for is left alone by the others, too.
                until = runtime.clock().timestamp() + seconds if seconds else None
                said = runtime.redactor.clean(f"{worker} has to wait: {message}")
                park(runtime, ticket, said[:300], until)
            case CheckpointSaid(line):
                if runtime.checkpoints is not None:
                    runtime.checkpoints.said(worker, number, line)
            case PatchDue(path):
                if guard is not None:
                    guard.writing(worker, path)

    return handle


def _job(runtime: Runtime, ticket: Ticket, number: int, tree: TreePlan) -> Job:
    limits = runtime.settings.limits
    return Job(
        ticket,
        number,
        tree,
        runtime.settings.agent(ticket.agent),
        Limits(ticket.timeout, limits.grace, limits.output_cap, ticket.idle_timeout),
        runtime.run.ticket(ticket.worker),
        patch_cap=limits.patch_cap,
    )
