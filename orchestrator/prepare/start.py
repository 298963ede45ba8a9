"""The start of a run: a proven phase written down, with its manifest, the scopes it owns, its workers."""

import time
from contextlib import suppress
from datetime import UTC
from typing import NamedTuple

import anyio

from orchestrator.errors import HELD, Refusal
from orchestrator.prepare.doubts import unwritable
from orchestrator.prepare.prepare import Prepared, Request, done_problem, prepare
from orchestrator.project import Project
from orchestrator.redaction import redactor_of
from orchestrator.runs import scopes_in_use
from orchestrator.runs.cleanup import clear_ended_runs
from orchestrator.runs.manifest import Manifest, MessageRules, write_manifest
from orchestrator.runs.roster import superseded
from orchestrator.state.events import Event, RosterEntry, RunDeployed
from orchestrator.step import Waits
from orchestrator.store.folding import forget_folded
from orchestrator.store.read import read_state
from orchestrator.store.store import Store
from tickets.problems import Problem, ProblemError
from tickets.redact import Redactor
from tickets.ticket import Ticket
from workers.fence.probe import fence_in_force
from workers.files.durable import create_file
from workers.files.locks import held_folder, take_lock
from workers.files.run_dir import RunDir, new_run_dir

START_WAIT = 30.0
"""Seconds that a run waits while another command is starting one."""
POLL = 0.1
"""Seconds between two polls of the scopes in use."""


class Started(NamedTuple):
    """A run that was begun, and that no runtime works on yet."""

    run: RunDir
    warnings: tuple[Problem, ...]
    lock: int | None
    """The descriptor that holds the run's lock, for its runtime: at no moment does it look interrupted."""


async def start_run(project: Project, request: Request) -> Started:
    """Prove a phase and begin its run, once its scopes are free.

    Waits as long as was asked for where other runs hold them, but for none that was interrupted: it holds
    them until somebody resumes or cancels it. Raises Refusal before anything is written.
    """
    until = time.monotonic() + request.wait
    while True:
        seen = scopes_in_use.fingerprint(project.repository)
        try:
            return _start_nowait(project, request)
        except Refusal as refusal:
            if refusal.exit_code != HELD or str(refusal.next_action).startswith("orchestrate resume"):
                raise
            while scopes_in_use.fingerprint(project.repository) == seen:
                if time.monotonic() >= until:
                    raise
                await anyio.sleep(POLL)


def _start_nowait(project: Project, request: Request) -> Started:
    if denied := unwritable(project.repository):
        raise Refusal(*denied, next_action=Waits("user", str(denied[0])))
    # One command at a time: two at once would both find no run of the phase.
    with held_folder(project.repository.common, START_WAIT) as had:
        if not had:
            problem = Problem("run", "another command is starting a run", "try again when it has")
            raise Refusal(problem, exit_code=HELD)
        clear_ended_runs(project.repository)
        with Store(project.repository).settled() as unfinished:
            prepared = prepare(project, request)
        told = [done_problem(request.phase, prepared)] if prepared.done else []
        begun = _begin(project, request, prepared)
        return begun._replace(warnings=(*unfinished, *told, *prepared.warnings, *begun.warnings))


def _begin(project: Project, request: Request, prepared: Prepared) -> Started:
    """Write down the run, then put its workers on the roster. Raises StateError, nothing written."""
    store, at = Store(project.repository), project.clock()
    roster = tuple(
        RosterEntry(ticket.worker, ticket.title, ticket.owns)
        for ticket in prepared.plan.tickets
        if ticket.id not in prepared.skipped
    )
    forget_folded(project.repository)
    store.check([RunDeployed("00000000_000000", request.phase, at, request.lead, roster)])
    run = new_run_dir(project.repository.root, at, scopes_in_use.ids(project.repository))
    manifest = _manifest(project, request, prepared, run)
    scopes_in_use.drop_stale(project.repository)
    lock = take_lock(run.path / "run.lock")
    scopes_in_use.write(project.repository, run, manifest)
    for ticket in manifest.tickets:
        if (left := prepared.continues.get(ticket.id)) and left.patch:
            create_file(run.earlier_patch(ticket.worker), left.patch)
    write_manifest(run, manifest)
    # Workers of a lost `.taskers/` leave the roster when they are started again.
    closed = superseded(project.repository, roster, at, request.lead)
    deployed = RunDeployed(run.id, request.phase, at, request.lead, roster)
    families = project.settings.families
    events: list[Event] = [*closed, deployed, *manifest.taken(at)]
    if not (events := [one for one in events if manifest.shows(one)]):
        return Started(run, (), lock)
    done = store.record(events, families=families, message="", commit=False, is_run=True)
    return Started(run, tuple(dict.fromkeys(problem for _, problem in done.left)), lock)


def _manifest(project: Project, request: Request, prepared: Prepared, run: RunDir) -> Manifest:
    plan, values, rules = prepared.plan, prepared.values, prepared.rules
    done, rejected = prepared.earlier.done, prepared.earlier.rejected
    running = {ticket.id for ticket in plan.tickets}
    cut_off = {id_ for id_, one in prepared.continues.items() if one.told.was_cut_off}
    redactor = redactor_of(project.repository.root, project.environ)
    needed = {id_ for ticket in plan.tickets for id_ in ticket.depends_on} - running
    return Manifest(
        run=run.id,
        phase=request.phase,
        created=project.clock().astimezone(UTC).isoformat(timespec="seconds"),
        lead=request.lead,
        base=prepared.head.sha or "",
        branch=prepared.head.branch,
        fence=fence_in_force(project.settings.fence.level).level,
        tickets=tuple(_kept(ticket, prepared, redactor) for ticket in plan.tickets),
        skipped=dict(prepared.skipped),
        dependencies=dict(plan.dependencies),
        reserved=rules.reserved,
        links=dict(rules.links),
        ignore_case=rules.ignore_case,
        files=rules.files,
        project=values.project,
        deliverable=values.deliverable,
        status_text=redactor.clean(values.status),
        decisions_text=redactor.clean(values.decisions),
        done={id_: one for id_, one in done.items() if id_ in needed},
        # Of one that was cut off, what it goes on from says all there is to say.
        rejected={id_: one for id_, one in rejected.items() if id_ in running - cut_off},
        left_out=prepared.left_out,
        again=tuple(id_ for id_ in done if id_ in running),
        messages=MessageRules(*project.settings.messages),
        plans=redactor.value(values.plans or ())[0],
        guardrails=redactor.value(_guardrails(project))[0],
        continues={id_: redactor.value(one.told)[0] for id_, one in prepared.continues.items()},
    )


def _guardrails(project: Project) -> tuple[str, ...]:
    """Return what the active context says that all agents are to keep; nothing where the family is off."""
    if "ai_memory" not in project.settings.families:
        return ()
    from orchestrator.state.ai_memory.context_guardrails import guardrails_of  # noqa: PLC0415 - for start-up time
    from orchestrator.state.ai_memory.context_read import PATH  # noqa: PLC0415 - as above

    with suppress(ProblemError):  # a run never fails for a state file; `resume` names it
        return guardrails_of(read_state(project.repository.root, PATH))
    return ()


def _kept(ticket: Ticket, prepared: Prepared, redactor: Redactor) -> Ticket:
    """Return a ticket as the run keeps it: done by its doer, and no secret in what is only read."""
    title, body, deliverable = redactor.value((ticket.title, ticket.body, ticket.deliverable))[0]
    doer = prepared.doers.of(ticket)
    return ticket.done_by(doer)._replace(title=title, body=body, deliverable=deliverable)
