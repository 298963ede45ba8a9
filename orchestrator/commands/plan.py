"""`plan PHASE`: shows what would run, in what order, with which owners; starts and writes nothing."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orchestrator.budget.totals import spent_on
from orchestrator.budget.warnings import budget_of
from orchestrator.commands._project import project_of, request_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.invoke import next_step
from orchestrator.errors import Refusal
from orchestrator.prepare.prepare import Prepared, Starter, examine, in_use, starting_order
from orchestrator.project import Project
from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.next_action import quoted
from orchestrator.settings.settings import Settings
from orchestrator.step import Step
from tickets.plan import OnOverlap
from tickets.problems import Problem
from tickets.scopes.ownership import Ownership, ownership
from tickets.scopes.pattern import PatternError
from tickets.scopes.scope import Scope
from tickets.ticket import Ticket
from tickets.types import AgentName
from tickets.value import Value
from workers.fence.probe import fence_in_force
from workers.git.run import Repository, git_fields

MOST_UNOWNED = 1_000
"""How many paths the document lists; a phase of one ticket leaves most of a repository unowned."""


MOST_OVERLAPS = 1_000
"""How many overlaps the document lists; a fan-out of a thousand tickets can have half a million."""


class _Seen(Value):
    """A phase in the form that `plan` shows."""

    prepared: Prepared
    problems: tuple[Problem, ...]
    in_use: Sequence[holding.Conflict]
    ownership: Ownership
    budget: dict[str, Any]
    order: list[list[str]]


class Arguments(Value):
    """The arguments of `plan`."""

    phase: str
    only: tuple[str, ...] = ()
    """Just these tickets."""
    again: bool = False
    """Show also tickets that are done as tickets that would run."""
    continues: bool = False
    """Only what is unfinished, from what earlier runs have left of it."""
    strict_agents: bool = False
    """Refuse if an agent is missing or off."""
    on_overlap: OnOverlap = "refuse"


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Prepare a phase as `run` does, and show it, whatever its problems. Raises Refusal."""
    phase = arguments.phase
    request = request_of(caller, phase, arguments)._replace(new=True)
    project = project_of(caller, request)
    prepared, problems = examine(project.repository, project.settings, request, dict(caller.environ))
    if not prepared.plan.tickets and not prepared.done:
        raise Refusal(*problems)
    held = [] if problems else in_use(project.repository, prepared, new=False)
    budget = _budget(project, prepared, f"{caller.now():%Y-%m-%d}")
    order = _order(project.settings, prepared)
    seen = _Seen(prepared, problems, held, _ownership(project.repository, prepared), budget, order)
    warned = [conflict.problem()._replace(severity="warning") for conflict in held][: holding.MOST_SHOWN]
    said = list(problems) or [*warned, *prepared.warnings]
    next_action: Step = holding.next_action(held) if held else f"orchestrate run {quoted(phase)}"
    if not prepared.plan.tickets:
        next_action = "orchestrate status"
    if problems:
        next_action = next_step(problems, "plan", arguments)
    shown = answer(said, next_action, **_keys(project, phase, seen))
    return shown._replace(exit_code=2 if problems else 0)


def _budget(project: Project, prepared: Prepared, day: str) -> dict[str, Any]:
    starting = [ticket for ticket in prepared.plan.tickets if ticket.id not in prepared.skipped]
    today = spent_on(project.repository.own / "spending", day)
    return budget_of(project.settings, starting, prepared.doers, today)


def _order(settings: Settings, prepared: Prepared) -> list[list[str]]:
    """Return the tickets in the order of their start; those that start together form one group."""
    starters = [
        Starter(one.id, prepared.doers.of(one), one.priority, prepared.plan.dependencies.get(one.id, ()))
        for one in prepared.plan.tickets
    ]
    rooms: dict[str, int] = {name: _slots(settings, name) for name in settings.slots.agents}
    return starting_order(starters, prepared.skipped, settings.slots.total, rooms)


def _ownership(repository: Repository, prepared: Prepared) -> Ownership:
    files = git_fields("ls-files", "-z", cwd=repository.root)
    # What is done is not nobody's, though it may overlap with what would run.
    done: dict[str, Scope] = {}
    for ticket in prepared.done:
        with suppress(PatternError):  # a link in the repository has changed since
            done[ticket.id] = prepared.rules.scope_of(ticket)
    return ownership(files, {**done, **prepared.plan.scopes}, prepared.rules.reserved_scope)


def _keys(project: Project, phase: str, seen: _Seen) -> dict[str, Any]:
    slots, head = project.settings.slots, seen.prepared.head
    unowned = seen.ownership.unowned
    return {
        "phase": phase,
        "base": head.sha,
        "branch": head.branch,
        "fence": fence_in_force(project.settings.fence.level).level,
        "slots": {"total": slots.total, **{name: _slots(project.settings, name) for name in slots.agents}},
        "budget": seen.budget,
        "tickets": [_ticket(seen, ticket) for ticket in (*seen.prepared.plan.tickets, *seen.prepared.done)],
        "order": seen.order,
        "overlaps": _overlaps(seen.prepared.plan.tickets, seen),
        "overlap_count": len(seen.prepared.plan.overlaps),
        "in_use": [
            {"ticket": one.ticket.id, "run": one.other.run, "worker": one.other.worker,
             "standing": one.other.standing, "witness": one.witness}
            for one in seen.in_use
        ],
        "unowned": {"count": len(unowned), "paths": list(unowned[:MOST_UNOWNED])},
        "reserved": seen.ownership.reserved,
    }  # fmt: skip


def _slots(settings: Settings, name: AgentName) -> int:
    """Return how many workers of an agent may run at once; 0 where it is disabled."""
    return settings.slots.agents[name] if settings.is_enabled(name) else 0


def _ticket(seen: _Seen, ticket: Ticket) -> dict[str, Any]:
    prepared = seen.prepared
    return {
        "ticket": ticket.id,
        "worker": ticket.worker,
        "agent": prepared.doers.of(ticket),
        "title": ticket.title,
        "mode": ticket.mode,
        "priority": ticket.priority,
        "owns": list(ticket.owns),
        "excludes": list(ticket.excludes),
        "place": ticket.place("owns"),
        "files": seen.ownership.owned.get(ticket.id, 0),
        "waits_for": list(prepared.plan.dependencies.get(ticket.id, ())),
        "acceptance": list(ticket.acceptance),
        "timeout": ticket.timeout,
        "budget_usd": ticket.budget_usd,
        "budget_tokens": ticket.budget_tokens,
        "skipped": prepared.skipped.get(ticket.id),
        "done": _done(prepared, ticket),
        "continues": _continues(prepared, ticket),
    }


def _done(prepared: Prepared, ticket: Ticket) -> dict[str, Any] | None:
    found = prepared.earlier.done.get(ticket.id) if ticket in prepared.done else None
    return {"run": found.run, "worker": found.worker, "commit": found.commit} if found else None


def _continues(prepared: Prepared, ticket: Ticket) -> dict[str, Any] | None:
    found = prepared.continues.get(ticket.id)
    return found.told.document() if found else None


def _overlaps(tickets: Sequence[Ticket], seen: _Seen) -> list[dict[str, Any]]:
    """Return each conflict with both its places; the ticket that runs first comes first."""
    order = {ticket.id: (at, ticket) for at, ticket in enumerate(tickets)}
    found = []
    for overlap in seen.prepared.plan.overlaps[:MOST_OVERLAPS]:
        (_, first), (_, second) = sorted(
            (order[overlap.first], order[overlap.second]), key=lambda one: one[0]
        )
        found.append({
            "first": first.id, "second": second.id, "witness": overlap.witness,
            "places": [first.place("owns"), second.place("owns")],
        })  # fmt: skip
    return found
