"""Work that the lead lands although its worker was not complete: what was against it stays known."""

from collections.abc import Mapping
from typing import Any

from orchestrator.execute.runtime import Deployment
from tickets.problems import Problem

_LEAVES_NOTHING_OUT = "too_many_files"
"""The one violation that keeps none of a worker's files from landing."""


def although(said: str, facts: Mapping[str, Any]) -> str:
    """Put beside the lead's word for a worker what it overrules."""
    return said if facts["outcome"] == "complete" else f"{said}, although {_against(facts)}"


def has_landed_whole(facts: Mapping[str, Any]) -> bool:
    """Tell whether nothing was left out of what a worker changed, given that it has landed."""
    return all(one["kind"] == _LEAVES_NOTHING_OUT for one in facts["violations"])


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
