"""The rendered ticket of a worker, written when its turn comes: only then its dependencies' outputs exist."""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from orchestrator.execute.runtime import Runtime
from orchestrator.runs.check_output import last_lines, named_outputs
from orchestrator.runs.packed import packed_text
from tickets.prompt import EarlierWork, PromptContext, long_form
from tickets.templates.render import render_body
from tickets.ticket import Ticket
from workers.agents.agent import agent_named
from workers.fence.policy import message_log
from workers.files.durable import create_file
from workers.files.read import read_start, read_whole
from workers.messages.delivery import Reading, delivery
from workers.messages.own_log import NotSentError, OwnLog
from workers.messages.record import participant

OUTPUT_SHOWN = 100_000
"""Characters of a dependency's output that a prompt may hold; the rest is named by its path."""
LINE = 500
"""Characters of one line of an earlier run's output that a prompt may hold."""
MESSAGES = "Messages for You"
BESIDE_SHOWN = 20
"""Tickets that may run beside one and are named in its prompt; the rest is counted."""


def write_prompt(runtime: Runtime, ticket: Ticket) -> None:
    """Create `tickets/WORKER.md` in the run's directory; a second attempt has the first one's."""
    path = runtime.run.ticket(ticket.worker)
    if not path.exists():
        create_file(path, runtime.redactor.clean(rendered(runtime, ticket)).encode())


def add_to_prompt(
    runtime: Runtime, ticket: Ticket, number: int, said: str, *, alone: bool, since: str | None
) -> Path:
    """Create `tickets/WORKER.N.md`, the prompt of a later attempt: `alone`, or below the whole ticket.

    It ends with the worker's new messages. With `since` also with those that it was shown from then on and
    has not answered: the attempt that they were shown to was cut off.
    """
    path = runtime.run.ticket(ticket.worker, number)
    if not path.exists():
        whole = "" if alone else read_whole(runtime.run.ticket(ticket.worker)).decode() + "\n"
        clean = runtime.redactor.clean
        _show_messages(
            runtime, ticket, since, lambda text: create_file(path, clean(whole + said + text).encode())
        )
    return path


def rendered(runtime: Runtime, ticket: Ticket) -> str:
    """Render a ticket in its long form."""
    outputs = {id_: _output(runtime, id_) for id_ in ticket.depends_on}
    body = render_body(ticket, runtime.manifest.values, outputs)
    root = runtime.repository.root
    waits = runtime.manifest.dependencies.get(ticket.id, ())
    blocks = runtime.manifest.blocks.get(ticket.id, ())
    related = {ticket.id, *waits, *blocks}
    # Not all of them: each prompt of a long queue would name the whole queue.
    beside = (other.id for other in runtime.manifest.tickets if other.id not in related)
    named = tuple(islice(beside, BESIDE_SHOWN))
    context = PromptContext(
        assigned=runtime.clock().date(),
        blocked_by=waits,
        blocks=blocks,
        parallel_with=named,
        parallel_more=len(runtime.manifest.tickets) - len(related) - len(named),
        phase_criteria=runtime.manifest.phase_criteria,
        rejected=_rejected(runtime, ticket),
        earlier=_begun(runtime, ticket),
        guardrails=() if ticket.agent == "command" else runtime.manifest.guardrails,
        exists=lambda path: (root / path).exists(),
        plans=runtime.manifest.plans if ticket.phase_worker else (),
        searches_tools=agent_named(ticket.agent).SEARCHES_TOOLS,
    )
    return long_form(ticket, body, context)


def _show_messages(runtime: Runtime, ticket: Ticket, since: str | None, show: Callable[[str], None]) -> None:
    """Call `show` with the section of a worker's messages, empty without any, and acknowledge them."""
    log, worker = message_log(runtime.run, ticket.worker), participant(runtime.run.id, ticket.worker)
    reading = Reading(str(log.parent), worker)
    reading.catch_up()
    is_shown = False
    if reading.book.new_for(worker) or (since and reading.book.shown_since(worker, since)):
        with suppress(NotSentError), delivery(OwnLog(str(log), worker), reading, since=since) as news:
            show(f"\n## {MESSAGES}\n\n{news.text}\n" if news.text else "")
            is_shown = True
    if not is_shown:
        show("")


def _output(runtime: Runtime, ticket_id: str) -> str:
    if done := runtime.manifest.done.get(ticket_id):
        output, gone = done.output, f"(done in run {done.run}, whose files are gone)"
    else:
        output, gone = runtime.of(runtime.manifest.by_id(ticket_id)).evidence.output, ""
    text = _start_of(runtime.run.root, output, 4 * OUTPUT_SHOWN) if output else None
    if text is None:
        return gone
    if len(text) <= OUTPUT_SHOWN:
        return text
    return f"{text[:OUTPUT_SHOWN]}\n[cut here; the whole is in {output}]\n"


def _start_of(root: Path, path: str, most: int) -> str | None:
    """Return the beginning of an output, also from a packed run; None where it is gone."""
    try:
        return read_start(root / path, most).decode("utf-8", "replace")
    except FileNotFoundError:
        return packed_text(root, path, most)


def _begun(runtime: Runtime, ticket: Ticket) -> EarlierWork | None:
    found = runtime.manifest.continues.get(ticket.id)
    if found is None:
        return None
    conflict = found.conflict or ""
    return EarlierWork(found.run or "", found.reason, found.files, conflict, found.changed_since, found.notes)


def _rejected(runtime: Runtime, ticket: Ticket) -> str:
    """Describe why the work of an earlier run was not accepted, with the last lines of what it names."""
    found = runtime.manifest.rejected.get(ticket.id)
    if found is None:
        return ""
    root = runtime.run.root
    verdict = f", {found.verdict}" if found.verdict else ""
    said = [f"{found.worker} of run {found.run} ended as {found.outcome}{verdict}: {found.reason}"]
    said += [f"It had ended with: {found.found}"] if found.found else []
    outputs = list(named_outputs(root, f"{found.reason} {found.found}"))
    if found.output and (lines := last_lines(root, found.output)):
        outputs.append(("Its last message", lines))
    for name, lines in outputs:
        said += ["", f"{name} ends with:", *(line[:LINE] for line in lines)]
    return "\n".join(said)
