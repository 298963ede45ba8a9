"""A phase of which some templates cannot be read: every problem that can be told, and no mere consequence."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tickets.problems import Problem, TicketError
from tickets.templates._draft import Draft, Values, drafts_of
from tickets.templates.render import body_problems, phase_of
from tickets.templates.template import Template, examine_template, is_template
from tickets.ticket import Ticket


class Sketch(NamedTuple):
    """What can be told of such a phase; its tickets are for proofs and never run."""

    tickets: tuple[Ticket, ...]
    """With the keys that could be read."""
    problems: tuple[Problem, ...]
    is_ordered: bool
    """Whether all that orders tickets and narrows scopes could be read: else an overlap may be none."""


def sketch_phase(files: Mapping[str, bytes], values: Values) -> Sketch:
    """Read and render what can be, of all templates and of the phase's tickets."""
    problems: list[Problem] = []
    drafts: list[Draft] = []
    unclear: set[str] = set()
    """Stems of which nobody can say what tickets they make for this phase."""
    for path in filter(is_template, files):
        try:
            template, found = examine_template(path, files[path])
        except TicketError as error:
            problems += error.problems
            unclear.add(PurePosixPath(path).stem)
            continue
        problems += found
        phase = _phase(template, values)
        if phase is not None and phase != values.phase:
            continue
        made, found = _filled(template, values)
        problems += found
        if phase is None or any("matrix" in draft.unsure for draft in made):
            unclear.add(template.stem)
        drafts += made if phase is not None else []
    tickets = _tickets(drafts)
    for draft, ticket in zip(drafts, tickets, strict=True):
        if not draft.unsure & {"body", "matrix", "depends_on"}:
            problems += [problem for problem, certain in body_problems(ticket, values) if certain]
    return Sketch(
        tuple(_provable(draft, ticket, unclear) for draft, ticket in zip(drafts, tickets, strict=True)),
        tuple(dict.fromkeys(problems)),
        not any(draft.unsure & {"depends_on", "excludes"} for draft in drafts)
        and not any(_stem(id_) in unclear for ticket in tickets for id_ in ticket.depends_on),
    )


def _phase(template: Template, values: Values) -> str | None:
    """Give the phase of a template; None where it cannot be told."""
    if "phase" in template.unsure:
        return None
    try:
        return phase_of(template, values)
    except TicketError:
        return None  # told again when its keys are read


def _filled(template: Template, values: Values) -> tuple[list[Draft], list[Problem]]:
    """Read the tickets of a template; one, without what its matrix would say, where that is wrong."""
    problems: list[Problem] = []
    drafts: list[Draft] = []
    if "matrix" not in template.unsure:
        drafts = list(drafts_of(template, values, problems))
    if not drafts:
        drafts = [Draft(template._replace(unsure=template.unsure | {"matrix"}), {}, values)]
    for draft in drafts:
        draft.fill()
        problems += draft.problems
    return drafts, problems


def _tickets(drafts: list[Draft]) -> list[Ticket]:
    fan_outs: dict[str, list[str]] = {}
    for draft in drafts:
        fan_outs.setdefault(draft.template.stem, []).append(draft.id)
        draft.fields = {
            name: read for name, value in draft.fields.items() if (read := _read(value)) is not None
        }
        draft.fields.setdefault("agent", "codex")
    return [draft.ticket("Worker", fan_outs) for draft in drafts]


def _read(value: Any) -> Any:
    """Leave out of a key's value what could not be read."""
    return tuple(one for one in value if one is not None) if isinstance(value, tuple) else value


def _provable(draft: Draft, ticket: Ticket, unclear: set[str]) -> Ticket:
    """Take from a ticket what would only be a consequence: nothing owned, nothing there to wait for."""
    known = tuple(id_ for id_ in ticket.depends_on if _stem(id_) not in unclear)
    mode = "read-only" if "owns" in draft.unsure or not ticket.owns else ticket.mode
    return ticket._replace(depends_on=known, mode=mode)


def _stem(id_: str) -> str:
    return id_.partition("[")[0]
