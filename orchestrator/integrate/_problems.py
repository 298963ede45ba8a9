"""The problems that an integration leaves for the lead: a broken gate, open decisions, overruled findings."""

from orchestrator.integrate._gate_tampering import HARM
from orchestrator.integrate._overrule import against
from orchestrator.runs.next_action import (
    again,
    again_with_fallen,
    broke_the_gate,
    called_by,
    overtaken,
    pending_of,
)
from orchestrator.runs.state import RunState
from orchestrator.tamper.guard import tampering_problem
from tickets.problems import Problem
from tickets.wording import some_of


def open_problems(state: RunState) -> list[Problem]:
    """Return the problems of a run after its integration, each with the command that helps."""
    return [*_of_gate(state), *_of_tampering(state), *_of_outside(state), *_of_ignored(state),
            *_of_overruled(state)]  # fmt: skip


def remedy(fenced: str, do: str) -> str:
    """Return the remedy of a failed gate, with the fence's possible part in it."""
    return f"{fenced}; {do}" if fenced else do


def _of_gate(state: RunState) -> list[Problem]:
    """Return a problem for the workers that broke the gate in its last run, with the lead's options."""
    over = overtaken(state)
    names = [
        name for name, worker in state.workers.items() if broke_the_gate(worker) and worker.ticket not in over
    ]
    gate = state.gate
    if not names or "broken by" not in gate.result:
        return []
    # The gate finds the same in the same work: to run it again helps only if something else was fixed.
    run_again = again_with_fallen(state.phase, names, state.workers, state.waits_for)
    accept = f"orchestrate integrate {state.run.id} --accept {' '.join(names)}"
    do = f"run it again: {run_again}; or, where the gate or the branch is at fault, fix that, then: {accept}"
    return [Problem("gate", gate.result, remedy(gate.fenced, do))]


def _of_tampering(state: RunState) -> list[Problem]:
    """Return the tampering that waits for the lead, and the commands that settle it."""
    held = {
        name: worker
        for name, worker in state.workers.items()
        if (worker.verdict, worker.settled_by) == ("pending", HARM)
    }
    if not held:
        return []
    done = [tampering_problem(one) for worker in held.values() for one in worker.harm]
    whys = dict.fromkeys(worker.reason for worker in held.values())
    do = f"check their changes, then: orchestrate integrate {state.run.id} --accept {' '.join(held)}"
    return [*done, *(Problem("gate", why, f"{do} (or --reject)") for why in whys)]


def _of_outside(state: RunState) -> list[Problem]:
    """Return a problem for the workers whose acceptance would land nothing, with what helps instead."""
    workers = state.workers
    names = pending_of(workers).outside
    if not names:
        return []
    said, more = called_by(names, workers)
    place = some_of(said, len(said), total=len(said) + more)
    what = "none of their changes is inside their scope, so accepting lands nothing"
    do = f"reject, fix `owns` or the prompt, then: {again(state.phase, names, workers)}"
    return [Problem(place, what, do, "warning")]


def _of_ignored(state: RunState) -> list[Problem]:
    """Return a problem for each worker whose files in its scope were left out: they go with its tree."""
    do = "take them out of .gitignore and run it again, or leave them to a build"
    return [
        Problem(
            name,
            f"git ignores what it wrote in its scope, so that did not land: {some_of(left)}",
            do,
            "warning",
        )
        for name, worker in state.workers.items()
        if (left := worker.evidence.left_out)
    ]


def _of_overruled(state: RunState) -> list[Problem]:
    """Return a problem for each incomplete worker that landed: why it was incomplete, and how to revert."""
    found = []
    for name, worker in state.workers.items():
        if name in state.landings and worker.evidence.files and worker.outcome != "complete":
            commit = state.landings[name]
            do = f"let a ticket fix it, or: git revert {commit[:10]}" if commit else "let a ticket fix it"
            found.append(Problem(name, f"landed, although {against(worker)}", do, "warning"))
    return found
