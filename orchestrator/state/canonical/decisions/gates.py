"""Approval gates: their meaning, and the user's answers on record in DECISIONS.md."""

import re
from typing import TYPE_CHECKING

from orchestrator.state.canonical.decisions.read import PATH, dated_headings
from orchestrator.state.canonical.status.read import Phase, Status, slug
from orchestrator.state.document import opened
from tickets.markdown import plain
from tickets.value import Value

if TYPE_CHECKING:
    from orchestrator.state.events import GateAnswered

KINDS = {
    "first-plan": "the first plan",
    "phase": "a phase transition",
    "milestone": "a major milestone",
    "breaking-change": "a breaking change of an API or of the architecture",
    "technology": "a change of technology",
    "scope": "a change of scope",
    "pool": "a larger pool of workers",
}
"""Gate names; all but the first may have a suffix: `phase-2`, `technology-database`, `pool-20`."""

_TITLE = re.compile(
    r"Gate (?P<gate>[a-z0-9.-]+): (?P<answer>approved|rejected) by (?P<by>.*?)"
    r"(?P<condition>, on a condition)?(?: \(\d+\))?$"
)


class GateAnswer(Value):
    """The newest answer at a gate."""

    gate: str
    answer: str
    by: str
    date: str
    line: int
    has_condition: bool


def answers(text: bytes) -> dict[str, GateAnswer]:
    """Return the newest answer at each gate. Raises StateError where the log cannot be read."""
    found: dict[str, GateAnswer] = {}
    document = opened(PATH, text)
    for heading, entry in dated_headings(document):
        match = _TITLE.match(plain(entry.title))
        # As it is spelled: the title of a decision that says the same has its colon escaped.
        spelled = document.text(heading.start, heading.end)
        if match and match["gate"] not in found and f"Gate {match['gate']}: " in spelled:
            found[match["gate"]] = GateAnswer(
                match["gate"], match["answer"], match["by"], entry.date, entry.line, bool(match["condition"])
            )
    return found


def stands(text: bytes, event: "GateAnswered") -> bool:
    """Return whether the log holds this answer already, and no newer one."""
    known = answers(text).get(event.gate)
    if known is None or event.condition or known.has_condition:
        return False
    return (known.answer, known.by) == (event.answer, " ".join(event.by.split()))


def approved_pool(text: bytes) -> int:
    """Return the largest approved pool, 0 where there is none. Raises StateError."""
    sizes = (
        int(gate.removeprefix("pool-"))
        for gate, said in answers(text).items()
        if re.fullmatch(r"pool-\d+", gate) and said.answer == "approved"
    )
    return max(sizes, default=0)


def phase_gate(phase: Phase, kind: str = "phase") -> str:
    """Return the gate of a phase's transition, or of its milestone."""
    return f"{kind}-{slug(phase.title).removeprefix('phase-')}"


def gate_between(status: Status, ended: Phase | None, begun: Phase | None) -> str:
    """Return the gate that a transition between phases must pass; empty where it needs no approval."""
    if begun is None:
        return phase_gate(ended, "milestone") if ended and ended.number != "0" else ""
    if begun.number == "0":
        return ""
    # Foundation work needs no approval, so it is none for the plan either.
    later = [phase for phase in status.phases if phase.number != "0"]
    moved = any(phase.complete or phase.status.upper().startswith("IN PROGRESS") for phase in later)
    return phase_gate(begun) if moved else "first-plan"


def growth_gate(text: bytes, number: str) -> str:
    """Return the gate of an additional phase: empty while the user has not approved the plan.

    Raises StateError where the log cannot be read.
    """
    said = answers(text).items()
    agreed = any(
        answer.answer == "approved" and (gate == "first-plan" or gate.startswith("phase-"))
        for gate, answer in said
    )
    return f"scope-phase-{number}" if agreed else ""
