"""`orchestrate plan PHASE`: what would run, in what order, who owns what; starts and writes nothing."""

import argparse
import os
from typing import Any

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.project import add_phase_arguments, project_of, request_of
from orchestrator.prepare import Prepared, prepare
from workers.fence import level_in_force


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `plan` takes."""
    parser.add_argument("phase", metavar="PHASE", help="as the templates name it: phase-1")
    add_phase_arguments(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    """Prepare a phase as `run` does, and show it."""
    request = request_of(arguments, new=True)
    project = project_of(arguments, request)
    prepared = prepare(project.repository, project.settings, request, dict(os.environ))
    slots = project.settings.slots
    next_action = f"orchestrate run {arguments.phase}"
    document = envelope(
        prepared.warnings,
        next_action,
        phase=arguments.phase,
        base=prepared.head.sha,
        branch=prepared.head.branch,
        fence=level_in_force(),
        slots={"total": slots.total, "codex": slots.codex, "claude": slots.claude, "gemini": slots.gemini},
        tickets=[_ticket(prepared, ticket) for ticket in prepared.plan.tickets],
        overlaps=[overlap._asdict() for overlap in prepared.plan.overlaps],
    )
    return Answer(0, document, tuple(_lines(document) + problem_lines(prepared.warnings, next_action)))


def _ticket(prepared: Prepared, ticket: Any) -> dict[str, Any]:
    return {
        "ticket": ticket.id,
        "worker": ticket.worker,
        "agent": prepared.agents.get(ticket.id, ticket.agent),
        "title": ticket.title,
        "mode": ticket.mode,
        "owns": list(ticket.owns),
        "excludes": list(ticket.excludes),
        "waits_for": list(prepared.plan.dependencies.get(ticket.id, ())),
        "acceptance": list(ticket.acceptance),
        "timeout": ticket.timeout,
        "skipped": prepared.skipped.get(ticket.id),
    }


def _lines(document: dict[str, Any]) -> list[str]:
    slots = document["slots"]
    kinds = ", ".join(f"{name} {number}" for name, number in slots.items() if name != "total")
    lines = [
        f"{document['phase']}: {len(document['tickets'])} tickets from {document['base'][:10]}",
        f"{slots['total']} slots ({kinds}), fence: {document['fence']}",
        "",
    ]
    for at, ticket in enumerate(document["tickets"], 1):
        lines.append(
            f"{at:>3}. {ticket['worker']:<17} {ticket['mode']:<9} {ticket['ticket']}: {ticket['title']}"
        )
        if ticket["owns"]:
            lines.append(f"     owns {', '.join(ticket['owns'])}")
        if ticket["waits_for"]:
            lines.append(f"     waits for {', '.join(ticket['waits_for'])}")
        if ticket["skipped"]:
            lines.append(f"     skipped: {ticket['skipped']}")
    lines.append("")
    return [clean(line) for line in lines]
