"""Work that the lead lands although its worker was not complete: what was against it stays known."""

from collections.abc import Mapping
from typing import Any

from orchestrator.execute.runtime import Deployment
from orchestrator.state.events import Decider
from tickets.problems import Problem

ACCEPTED, REJECTED = "accepted by the lead", "rejected by the lead"
"""The reason of a verdict of the lead's who gave none."""
_NEVER_LANDS = ("out_of_scope", "touched_state_file", "read_only_wrote")
"""Violations whose paths are changes of the worker's that stay out."""


def although(said: str, facts: Mapping[str, Any]) -> str:
    """Put beside the lead's word for a worker what it overrules."""
    return said if facts["outcome"] == "complete" else f"{said}, although {_against(facts)}"


def said_of(facts: Mapping[str, Any]) -> str:
    """Return why the lead decided so; empty where no reason was given."""
    reason = str(facts["reason"])
    said = reason.removesuffix(f", although {_against(facts)}") if facts["outcome"] != "complete" else reason
    return "" if said in (ACCEPTED, REJECTED) else said


def decider_of(facts: Mapping[str, Any]) -> Decider:
    """Return who settled a verdict: what the lead said also holds where a gate or a conflict put it off."""
    by = facts.get("settled_by")
    if by == "lead" or facts.get("lead_said") == (facts["verdict"], facts["reason"]):
        return "lead"
    return "gate" if by == "gate" else "conflict" if by == "conflict" else "rule"


def finding_of(facts: Mapping[str, Any], harm: str) -> str:
    """Describe what speaks against a worker: as it was found when it ended, and what the gate did with it."""
    is_clean = facts["outcome"] == "complete" and not facts["violations"]
    return "; ".join(one for one in ("" if is_clean else _against(facts), harm) if one)


def outside_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of a worker's changes that never land, whatever is decided."""
    return tuple(one["path"] for one in facts["violations"] if one["kind"] in _NEVER_LANDS)


def overruled_problems(d: Deployment) -> list[Problem]:
    """Say what landed of workers that were not complete, why they were not, and how it is taken back."""
    found = []
    for name, facts in d.state.workers.items():
        if name in d.state.landings and facts["files"] and facts["outcome"] != "complete":
            commit = d.state.landings[name]
            do = f"have a ticket mend it, or: git revert {commit[:10]}" if commit else "have a ticket mend it"
            found.append(Problem(name, f"landed, although {_against(facts)}", do, "warning"))
    return found


def _against(facts: Mapping[str, Any]) -> str:
    """Say why a worker was not complete: as it was found, whatever has been said of it since."""
    return facts.get("found") or f"its outcome is {facts['outcome']}"
