"""`orchestrate plan PHASE`: what would run, in what order, who owns what; starts and writes nothing."""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from orchestrator.budget.totals import spent_on
from orchestrator.budget.warnings import budget_lines, budget_of
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import next_step, now
from orchestrator.cli.project import add_phase_arguments, project_of, request_of
from orchestrator.errors import Refusal
from orchestrator.prepare.fence_check import fence_of
from orchestrator.prepare.prepare import SHOWN, Prepared, examine, in_use
from orchestrator.prepare.start_order import Starter, starting_order
from orchestrator.project import Project
from orchestrator.runs import scopes_in_use as holding
from orchestrator.settings.settings import Settings
from tickets.problems import Problem
from tickets.scopes.ownership import Ownership, ownership
from tickets.templates.fan_out import gathered, stem_of
from tickets.ticket import Ticket
from tickets.types import AgentName
from workers.git.run import Repository, git_fields

MOST_UNOWNED = 1_000
"""Paths that the document lists; a phase of one ticket leaves most of a repository unowned."""


MOST_OVERLAPS = 1_000
"""Overlaps that the document lists; a fan-out of a thousand tickets can have half a million."""
MOST_IN_FULL = 8
"""Tickets of one fan-out that a person is shown each."""


class _Seen(NamedTuple):
    """A phase as `plan` shows it."""

    prepared: Prepared
    problems: tuple[Problem, ...]
    in_use: Sequence[holding.Conflict]
    ownership: Ownership
    budget: dict[str, Any]
    order: list[list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `plan` takes."""
    parser.add_argument("phase", metavar="PHASE", help="as the templates name it: phase-1")
    add_phase_arguments(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    """Prepare a phase as `run` does, and show it, whatever stands in its way. Raises Refusal."""
    request = request_of(arguments, new=True)
    project = project_of(arguments, request)
    prepared, problems = examine(project.repository, project.settings, request, dict(os.environ))
    if not prepared.plan.tickets:
        raise Refusal(*problems)
    held = [] if problems else in_use(project.repository, prepared, new=False)
    budget = _budget(project, prepared)
    order = _order(project.settings, prepared)
    seen = _Seen(prepared, problems, held, _ownership(project.repository, prepared), budget, order)
    warned = [conflict.problem()._replace(severity="warning") for conflict in held][: holding.MOST_SHOWN]
    said = list(problems) or [*warned, *prepared.warnings]
    next_action = holding.next_action(held) if held else f"orchestrate run {arguments.phase}"
    if problems:
        next_action = next_step(problems, arguments)
    document = _document(project, request.phase, seen, said, next_action)
    # Whom nobody starts is told of below its ticket.
    shown = {one["ticket"] for one in document["tickets"] if one["skipped"]}
    told = [one for one in said if not (one.what.startswith("skipped: ") and one.place in shown)]
    lines = _lines(document, may_start=not problems) + problem_lines(told, next_action)
    return Answer(2 if problems else 0, document, tuple(lines))


def _budget(project: Project, prepared: Prepared) -> dict[str, Any]:
    starting = [ticket for ticket in prepared.plan.tickets if ticket.id not in prepared.skipped]
    today = spent_on(project.repository.own / "spending", f"{now():%Y-%m-%d}")
    return budget_of(project.settings, starting, prepared.doers, today)


def _order(settings: Settings, prepared: Prepared) -> list[list[str]]:
    """Give the tickets in the order of their start; those that start together side by side."""
    starters = [
        Starter(one.id, prepared.doers.of(one), one.priority, prepared.plan.dependencies.get(one.id, ()))
        for one in prepared.plan.tickets
    ]
    rooms: dict[str, int] = {name: _slots(settings, name) for name in settings.slots.agents}
    return starting_order(starters, prepared.skipped, settings.slots.total, rooms)


def _ownership(repository: Repository, prepared: Prepared) -> Ownership:
    files = git_fields("ls-files", "-z", cwd=repository.root)
    return ownership(files, prepared.plan.scopes, prepared.rules.reserved_scope)


def _document(
    project: Project, phase: str, seen: _Seen, problems: list[Problem], next_action: str
) -> dict[str, Any]:
    slots, head = project.settings.slots, seen.prepared.head
    unowned = seen.ownership.unowned
    return envelope(
        problems,
        next_action,
        ok=not seen.problems,
        phase=phase,
        base=head.sha,
        branch=head.branch,
        fence=fence_of(project.settings).level,
        slots={"total": slots.total, **{name: _slots(project.settings, name) for name in slots.agents}},
        budget=seen.budget,
        tickets=[_ticket(seen, ticket) for ticket in seen.prepared.plan.tickets],
        order=seen.order,
        overlaps=_overlaps(seen.prepared.plan.tickets, seen),
        overlap_count=len(seen.prepared.plan.overlaps),
        in_use=[
            {"ticket": one.ticket.id, "run": one.other.run, "worker": one.other.worker,
             "standing": one.other.standing, "witness": one.witness}
            for one in seen.in_use
        ],
        unowned={"count": len(unowned), "paths": list(unowned[:MOST_UNOWNED])},
        reserved=seen.ownership.reserved,
    )  # fmt: skip


def _slots(settings: Settings, name: AgentName) -> int:
    """Return how many of an agent's workers may run at once; 0 where it is disabled."""
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
    }


def _overlaps(tickets: Sequence[Ticket], seen: _Seen) -> list[dict[str, Any]]:
    """Give each conflict with both its places; first stands who runs first, where one waits for the other."""
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


def _lines(document: dict[str, Any], *, may_start: bool) -> list[str]:
    slots = document["slots"]
    kinds = ", ".join(f"{name} {number or 'off'}" for name, number in slots.items() if name != "total")
    base = (document["base"] or "no commit")[:10]
    lines = [
        f"{document['phase']}: {len(document['tickets'])} tickets from {base}",
        f"{slots['total']} slots ({kinds}), fence: {document['fence']}",
        *budget_lines(document["budget"]),
        "",
    ]
    order = _order_lines(document["order"])
    lines += order if may_start else ["nothing can start: see the errors below"]
    lines += [*_ticket_lines(_in_order(document)), ""]
    if any(one["mode"] == "write" or one["owns"] for one in document["tickets"]):
        lines += [*_unowned(document["unowned"]), ""]
    return [clean(line) for line in lines]


def _order_lines(order: Sequence[Sequence[str]]) -> list[str]:
    """Say by which rule the tickets below stand in their order, where there is more than one."""
    if sum(map(len, order)) < 2:
        return []
    first = "the first starts" if len(order[0]) == 1 else f"the first {len(order[0])} start"
    rest = "; the others when slots are free, by dependency, priority, age" if len(order) > 1 else ""
    return [f"{first} at once{rest}"]


def _in_order(document: dict[str, Any]) -> list[tuple[int | None, dict[str, Any]]]:
    """Give the tickets in the order of their start, numbered; after them those that would not start."""
    at = {
        ticket: number for number, ticket in enumerate((one for wave in document["order"] for one in wave), 1)
    }
    last = len(document["tickets"]) + 1
    ordered = sorted(document["tickets"], key=lambda one: at.get(one["ticket"], last))
    return [(at.get(ticket["ticket"]), ticket) for ticket in ordered]


def _ticket_lines(tickets: Sequence[tuple[int | None, dict[str, Any]]]) -> Iterator[str]:
    """Show each ticket, but of a large fan-out the first few, and the rest in one line."""
    ids = [ticket["ticket"] for _, ticket in tickets]
    fan_outs: dict[str, list[int]] = {}
    for number, id_ in enumerate(ids):
        fan_outs.setdefault(stem_of(id_), []).append(number)
    for stem, numbers in fan_outs.items():
        if len(numbers) > MOST_IN_FULL:
            fan_outs[stem] = numbers[:SHOWN]
    for number, (at, ticket) in enumerate(tickets):
        stem = stem_of(ticket["ticket"])
        if number in fan_outs[stem]:
            yield from _in_full(at, ticket, ids)
            if number == fan_outs[stem][-1]:
                yield from _the_rest(
                    stem, [one for _, one in tickets[number + 1 :] if stem_of(one["ticket"]) == stem]
                )


def _in_full(at: int | None, ticket: dict[str, Any], ids: Sequence[str]) -> Iterator[str]:
    number = f"{at:>3}." if at else "   -"
    who = f"{ticket['worker']:<17} {ticket['priority']} {ticket['mode']:<9}"
    yield f"{number} {who} {ticket['ticket']}: {ticket['title']}"
    if ticket["owns"]:
        yield f"     owns {', '.join(ticket['owns'])} ({_files(ticket['files'])})"
    if ticket["excludes"]:
        yield f"     but not {', '.join(ticket['excludes'])}"
    if ticket["waits_for"]:
        yield f"     waits for {', '.join(gathered(ticket['waits_for'], ids))}"
    if ticket["skipped"]:
        yield f"     skipped: {ticket['skipped']}"


def _the_rest(stem: str, rest: Sequence[dict[str, Any]]) -> Iterator[str]:
    if rest:
        files = _files(sum(one["files"] for one in rest))
        yield f"     and {len(rest)} more of {stem}: {rest[0]['worker']} to {rest[-1]['worker']} ({files})"


def _unowned(unowned: dict[str, Any]) -> list[str]:
    paths, count = unowned["paths"][:SHOWN], unowned["count"]
    if not count:
        return ["every file has an owner"]
    more = f" and {count - len(paths)} more" if count > len(paths) else ""
    return [f"nobody owns {_files(count)}: {', '.join(paths)}{more}"]


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
