"""`orchestrate plan` on the command line."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.budget.warnings import budget_lines
from orchestrator.cli.options import add_phase_options
from orchestrator.cli.text import clean, problem_lines
from orchestrator.commands.answer import Answer
from orchestrator.commands.plan import Arguments
from orchestrator.prepare.prepare import SHOWN
from tickets.templates.fan_out import gathered, stem_of
from tickets.wording import count_of, rest_of, some_of

MOST_IN_FULL = 8
"""How many tickets of a fan-out are shown one by one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plan`."""
    parser.add_argument("phase", metavar="PHASE", help="as the templates name it: phase-1")
    add_phase_options(parser)


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    # A skipped ticket has its reason below it.
    shown = {one["ticket"] for one in document["tickets"] if one["skipped"]}
    said = [one for one in answer.problems if not (one.what.startswith("skipped: ") and one.place in shown)]
    return [*_lines(document, may_start=not answer.exit_code), *problem_lines(said, answer.step)]


def _lines(document: dict[str, Any], *, may_start: bool) -> list[str]:
    slots = document["slots"]
    kinds = ", ".join(f"{name} {number or 'off'}" for name, number in slots.items() if name != "total")
    base = (document["base"] or "no commit")[:10]
    lines = [
        f"{document['phase']}: {count_of(len(document['tickets']), 'ticket')} from {base}",
        f"{slots['total']} slots ({kinds}), fence: {document['fence']}",
        *budget_lines(document["budget"]),
        "",
    ]
    order = _order_lines(document["order"])
    is_done = all(one["done"] for one in document["tickets"])
    nothing = "nothing is left to run" if is_done else "nothing can start: see the errors below"
    lines += order if may_start and not is_done else [nothing]
    lines += [*_ticket_lines(_in_order(document)), ""]
    if any(one["mode"] == "write" or one["owns"] for one in document["tickets"]):
        lines += [*_unowned(document["unowned"]), ""]
    return [clean(line) for line in lines]


def _order_lines(order: Sequence[Sequence[str]]) -> list[str]:
    """Return the rule by which the tickets below are ordered, where there is more than one."""
    if sum(map(len, order)) < 2:
        return []
    first = "the first starts" if len(order[0]) == 1 else f"the first {len(order[0])} start"
    rest = "; the others when slots are free, by dependency, priority, age" if len(order) > 1 else ""
    return [f"{first} at once{rest}"]


def _in_order(document: dict[str, Any]) -> list[tuple[int | None, dict[str, Any]]]:
    """Return the tickets in the order of their start, numbered; then those that would not start."""
    at = {
        ticket: number for number, ticket in enumerate((one for wave in document["order"] for one in wave), 1)
    }
    last = len(document["tickets"]) + 1
    ordered = sorted(document["tickets"], key=lambda one: at.get(one["ticket"], last))
    return [(at.get(ticket["ticket"]), ticket) for ticket in ordered]


def _ticket_lines(tickets: Sequence[tuple[int | None, dict[str, Any]]]) -> Iterator[str]:
    """Show each ticket; of a large fan-out the first few, and the rest in one line."""
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
        yield f"     owns {', '.join(ticket['owns'])} ({count_of(ticket['files'], 'file')})"
    if ticket["excludes"]:
        yield f"     but not {', '.join(ticket['excludes'])}"
    if ticket["waits_for"]:
        yield f"     waits for {', '.join(gathered(ticket['waits_for'], ids))}"
    if ticket["done"]:
        commit = f", commit {ticket['done']['commit'][:10]}" if ticket["done"]["commit"] else ""
        yield f"     done in {ticket['done']['run']}{commit}"
    if ticket["continues"]:
        yield from _continued(ticket["continues"])
    if ticket["skipped"]:
        yield f"     skipped: {ticket['skipped']}"


def _continued(found: dict[str, Any]) -> Iterator[str]:
    files, run = found["files"], found["run"]
    from_ = f"its {found['from']}" + (
        f" ({some_of(files, SHOWN)})" if files and not found["conflict"] else ""
    )
    yield f"     goes on from {from_}{f' of {run}' if run else ''}"
    if found["conflict"]:
        count = count_of(len(files), "file")
        told = f"the worker gets the patch of {count} to read"
        yield f"     does not fit the branch: {found['conflict']}; {told}"
    if found["changed_since"]:
        yield f"     changed since: {some_of(found['changed_since'], SHOWN)}"


def _the_rest(stem: str, rest: Sequence[dict[str, Any]]) -> Iterator[str]:
    if rest:
        files = count_of(sum(one["files"] for one in rest), "file")
        more = rest_of(len(rest), 0)[0]
        yield f"     {more} of {stem}: {rest[0]['worker']} to {rest[-1]['worker']} ({files})"


def _unowned(unowned: dict[str, Any]) -> list[str]:
    count = unowned["count"]
    if not count:
        return ["every file has an owner"]
    return [f"nobody owns {count_of(count, 'file')}: {some_of(unowned['paths'], SHOWN, total=count)}"]
