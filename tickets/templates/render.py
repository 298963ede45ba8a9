"""Templates to tickets: rendered string by string, refused with every problem at once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tickets.problems import Problem, TicketError
from tickets.templates._draft import Draft, Values, drafts_of, name_workers
from tickets.templates._front_matter import Scalar
from tickets.templates.jinja import Choices, fill, has_marks
from tickets.templates.template import FOLDER, Template, is_template, read_template, read_templates
from tickets.ticket import Ticket

__all__ = [
    "FOLDER",
    "Template",
    "Values",
    "body_problems",
    "is_template",
    "phase_of",
    "read_template",
    "read_templates",
    "render_body",
    "render_tickets",
]


def phase_of(template: Template, values: Values) -> str:
    """Tell which phase a template belongs to, so that those of other phases can be left out."""
    node = template.fields.values.get("phase")
    if not isinstance(node, Scalar) or node.is_null:
        return values.phase
    draft = Draft(template, {}, values)
    phase = draft.one("phase")
    if draft.problems:
        raise TicketError(*draft.problems)
    return str(phase)


def render_tickets(templates: Sequence[Template], values: Values) -> list[Ticket]:
    """Render the templates of one phase, in the natural order of their names.

    Raises TicketError with every problem of every template. Bodies are rendered too, with stand-ins
    for outputs, so that no undefined variable is found after workers have started.
    """
    ordered = sorted(templates, key=lambda template: (_natural(template.stem), template.path))
    problems: list[Problem] = list(_twins(ordered))
    drafts: list[Draft] = []
    for template in ordered:
        drafts += drafts_of(template, values, problems)
    for draft in drafts:
        draft.fill()
        problems += draft.problems
    # The bodies of sound tickets are read all the same: a second try should not find a second lot.
    drafts = [draft for draft in drafts if not draft.problems]
    fan_outs: dict[str, list[str]] = {}
    for draft in drafts:
        fan_outs.setdefault(draft.template.stem, []).append(draft.id)
    workers = name_workers(drafts)
    tickets = [draft.ticket(worker, fan_outs) for draft, worker in zip(drafts, workers, strict=True)]
    for ticket in tickets:
        problems += [
            problem
            for problem, certain in body_problems(ticket, values)
            if certain or "outputs" not in ticket.body
        ]
    if problems:
        raise TicketError(*dict.fromkeys(problems))
    return tickets


def body_problems(ticket: Ticket, values: Values) -> list[tuple[Problem, bool]]:
    """List what is wrong with a body, each with whether it holds whatever the outputs are."""
    stand_ins = {id_: f"(the output of {id_})" for id_ in ticket.depends_on}
    return _fill_body(ticket, values, stand_ins)[1]


def render_body(ticket: Ticket, values: Values, outputs: Mapping[str, str]) -> str:
    """Render a ticket's prompt. `outputs` are texts by ticket id; only those of `depends_on` are seen.

    Raises TicketError.
    """
    text, found = _fill_body(ticket, values, outputs)
    if found:
        raise TicketError(*(problem for problem, _ in found))
    return text


def _fill_body(
    ticket: Ticket, values: Values, outputs: Mapping[str, str]
) -> tuple[str, list[tuple[Problem, bool]]]:
    """Render a body; problems come with whether they hold whatever the outputs are."""
    if not has_marks(ticket.body):
        return ticket.body, _empty(ticket, ticket.body)
    seen = {id_: outputs[id_] for id_ in ticket.depends_on if id_ in outputs}
    families: dict[str, list[str]] = {}
    for id_ in seen:
        families.setdefault(id_.partition("[")[0], []).append(id_)
    for stem, ids in families.items():
        # `depends_on: codex-3` means all of a fan-out, so outputs["codex-3"] is all of theirs.
        seen.setdefault(stem, "\n\n".join(f"{id_}:\n\n{seen[id_]}" for id_ in ids))
    names = {
        **values._asdict(),
        "phase": ticket.phase,
        "deliverable": ticket.deliverable or "",
        "worker": ticket.worker,
        "matrix": Choices("matrix", ticket.matrix, otherwise="add it to `matrix`"),
        "outputs": Choices("outputs", seen, otherwise="add it to `depends_on`"),
        "ticket": Choices("ticket", _shown(ticket)),
    }
    filled = fill(ticket.body, names)
    line = ticket.lines.get("body", 1)
    found = [
        (Problem(f"{ticket.template}:{line + fault.line - 1}", fault.what, fault.do), fault.certain)
        for fault in filled.faults
    ]
    return filled.text, found or _empty(ticket, filled.text)


def _shown(ticket: Ticket) -> dict[str, Any]:
    """Return what a prompt may ask about its own ticket."""
    keys = {name: value for name, value in ticket._asdict().items() if name not in ("body", "lines")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in keys.items()}


def _empty(ticket: Ticket, text: str) -> list[tuple[Problem, bool]]:
    """Give what is wrong with a prompt that renders to nothing; a command needs none."""
    if text.strip() or (ticket.agent == "command" and not ticket.fallback):
        return []
    line = ticket.lines.get("body", 1)
    return [(Problem(f"{ticket.template}:{line}", "the prompt renders to nothing", "write it"), False)]


def _twins(templates: Sequence[Template]) -> Iterator[Problem]:
    first: dict[str, Template] = {}
    for template in templates:
        other = first.setdefault(template.stem, template)
        if other is not template:
            yield Problem(template.path, f"has the same id as {other.path}", "rename one of them")


def _natural(stem: str) -> list[Any]:
    """Order `codex-2` before `codex-10`."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]{1,18})", stem))]
