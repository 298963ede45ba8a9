"""What waits for a verdict, and the command that settles it. Light, since `status` asks."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from orchestrator.runs.worker_state import WorkerState

HELD_UP = ("gate", "hook", "conflict", "dependency")
"""Who may make a verdict wait that the rule, or the lead, had already found."""
MENDED_FIRST = ("gate", "hook")
"""Those of them whom the work of anybody else would meet as well."""
MOST_NAMED = 20
"""Names of one command; after it, the next command names the next ones."""
GATHERED = 3
"""Workers of a fan-out that are named each; more of them are called by its name."""
_ALWAYS_WHOLE = "read_only_wrote"
_Workers = Mapping[str, WorkerState]


class Pending(NamedTuple):
    """The workers of a run whose verdict is still to be found, by what helps."""

    asked: tuple[str, ...]
    """They wait for the lead's word: accepted, they land as far as they are in scope."""
    outside: tuple[str, ...]
    """So do these; but nothing of what they changed lies inside their scope, so nothing would land."""
    held_up: tuple[str, ...]
    """A gate, a hook, a conflict or another worker keeps these from landing, whatever the lead says."""
    mend_first: bool
    """What holds them up would hold up the others, too."""


def pending_of(workers: _Workers) -> Pending:
    """Sort the pending workers of a run."""
    asked: list[str] = []
    outside: list[str] = []
    held_up: list[str] = []
    mend_first = False
    for name, worker in workers.items():
        if worker.verdict != "pending":
            continue
        if worker.settled_by in HELD_UP:
            held_up.append(name)
            mend_first = mend_first or worker.settled_by in MENDED_FIRST
        else:
            (outside if _lands_nothing(worker) else asked).append(name)
    return Pending(tuple(asked), tuple(outside), tuple(held_up), mend_first)


def settles(run: str, workers: _Workers) -> str:
    """Give the one command that takes all pending workers further."""
    found = pending_of(workers)
    command = f"orchestrate integrate {run}"
    if found.mend_first or not (found.asked or found.outside):
        # What is held up is accepted already: saying so again would not land it.
        return command
    room = MOST_NAMED
    for option, names in (("--accept", found.asked), ("--reject", found.outside)):
        called, _ = called_by(names, workers, room)
        command += f" {option} {' '.join(called)}" if called else ""
        room -= len(called)
    return command


def called_by(names: Sequence[str], workers: _Workers, most: int = MOST_NAMED) -> tuple[list[str], int]:
    """Give the words that mean just these workers, and how many workers they leave out.

    A fan-out of which all that is pending is meant goes by its name: so `integrate` reads it.
    """
    meant = frozenset(names)
    fan_outs: dict[str, list[str]] = {}
    for name, worker in workers.items():
        stem, bracket, _ = worker.ticket.partition("[")
        if bracket and worker.verdict == "pending":
            fan_outs.setdefault(stem, []).append(name)
    called: dict[str, int] = {}
    for name in names:
        stem = workers[name].ticket.partition("[")[0]
        members = fan_outs.get(stem, [])
        if len(members) > GATHERED and meant.issuperset(members) and _is_one_word(stem, workers):
            called[stem] = len(members)
        else:
            called[name] = 1
    said = list(called)[: max(0, most)]
    return said, sum(called.values()) - sum(called[one] for one in said)


def again(phase: str, names: Sequence[str], workers: _Workers) -> str:
    """Give the command that runs the tickets of some workers once more."""
    tickets = ((workers[name].ticket, name) for name in names[:MOST_NAMED])
    # A fan-out's ticket needs quotes in a shell; its worker is known by its own name, too.
    return f"orchestrate run {phase} --only {' '.join(name if '[' in one else one for one, name in tickets)}"


def _lands_nothing(worker: WorkerState) -> bool:
    """Tell whether a worker changed something, and all of it outside its scope.

    One that was to write nothing is accepted for what it found.
    """
    evidence = worker.evidence
    kinds = {one.kind for one in evidence.violations}
    return bool(evidence.patch and not evidence.files and _ALWAYS_WHOLE not in kinds)


def _is_one_word(stem: str, workers: Collection[str]) -> bool:
    return stem not in workers and stem.replace("-", "").replace("_", "").replace(".", "").isalnum()
