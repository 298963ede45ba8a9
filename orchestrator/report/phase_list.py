"""The phases of the project in a list. Light: `status` shows them, and most phases have no plans."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from orchestrator.state.canonical.status.read import Phase, Status, slug

FAMILY = "phases"
_NOT_KNOWN: Mapping[str, Any] = {"state": None, "worker": None, "counts": None, "blockers": []}
"""What a list says of the plans of a phase while the family is off."""


def phases_listed(
    project: Status, families: Collection[str], read_file: Callable[[str], bytes | None]
) -> list[dict[str, Any]]:
    """Return the phases of the plan, and how their plans stand where the family is on."""
    if FAMILY not in families:
        return [phase_listed(phase) for phase in project.phases]
    from orchestrator.report.phase_plans import in_brief, phase_shown  # noqa: PLC0415 - for start-up time

    shown = ((phase, phase_shown(read_file, slug(phase.title), phase)) for phase in project.phases)
    return [{**phase_listed(phase), **in_brief(one)} for phase, one in shown]


def phase_listed(phase: Phase) -> dict[str, Any]:
    """Return what STATUS.md says of a phase."""
    return {
        "name": slug(phase.title),
        "title": phase.title,
        "status": phase.status,
        "milestone": phase.milestone,
        "deliverables": list(phase.made),
        "criteria": [sum(met for met, _ in phase.criteria), len(phase.criteria)],
        **_NOT_KNOWN,
    }
