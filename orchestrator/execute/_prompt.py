"""The rendered ticket of a worker, written in its turn: only then are its dependencies' outputs there."""

from itertools import islice
from pathlib import Path

from orchestrator.execute.runtime import Deployment
from tickets.prompt import PromptContext, long_form
from tickets.templates.render import render_body
from tickets.ticket import Ticket
from workers.files.durable import create_file
from workers.files.read import read_start, read_whole

OUTPUT_SHOWN = 100_000
"""Characters of a dependency's output that a prompt may hold; the rest is named by its path."""
BESIDE_SHOWN = 20
"""Tickets that may run beside one and are named in its prompt; the rest is counted."""


def write_prompt(d: Deployment, ticket: Ticket) -> None:
    """Create `tickets/WORKER.md` in the run's directory; a second attempt has the first one's."""
    path = d.run.ticket(ticket.worker)
    if not path.exists():
        data = rendered(d, ticket).encode()
        if d.guard is not None:
            d.guard.writes(ticket.worker, path, data)
        create_file(path, data)


def add_to_prompt(d: Deployment, ticket: Ticket, number: int, said: str, *, alone: bool) -> Path:
    """Create `tickets/WORKER.N.md`, what a later attempt is told: `alone`, or below the whole ticket."""
    path = d.run.ticket(ticket.worker, number)
    if not path.exists():
        whole = "" if alone else read_whole(d.run.ticket(ticket.worker)).decode() + "\n"
        create_file(path, (whole + said).encode())
    return path


def rendered(d: Deployment, ticket: Ticket) -> str:
    """Render a ticket in its long form."""
    outputs = {id_: _output(d, id_) for id_ in ticket.depends_on}
    body = render_body(ticket, d.manifest.values, outputs)
    root = d.repository.root
    waits = d.manifest.dependencies.get(ticket.id, ())
    blocks = d.manifest.blocks.get(ticket.id, ())
    related = {ticket.id, *waits, *blocks}
    # Not all of them: each prompt of a long queue would name the whole queue.
    beside = (other.id for other in d.manifest.tickets if other.id not in related)
    named = tuple(islice(beside, BESIDE_SHOWN))
    context = PromptContext(
        assigned=d.clock().date(),
        blocked_by=waits,
        blocks=blocks,
        parallel_with=named,
        parallel_more=len(d.manifest.tickets) - len(related) - len(named),
        phase_criteria=d.manifest.phase_criteria,
        exists=lambda path: (root / path).exists(),
    )
    return long_form(ticket, body, context)


def _output(d: Deployment, ticket_id: str) -> str:
    output = d.of(d.manifest.by_id(ticket_id)).evidence.output
    if not output:
        return ""
    text = read_start(d.run.root / output, 4 * OUTPUT_SHOWN).decode("utf-8", "replace")
    if len(text) <= OUTPUT_SHOWN:
        return text
    return f"{text[:OUTPUT_SHOWN]}\n[cut here; the whole is in {output}]\n"
