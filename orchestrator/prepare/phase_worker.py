"""The phase worker of a phase before its run: the plans that it will own, and why it cannot start."""

from collections.abc import Collection, Sequence
from pathlib import Path

from orchestrator.errors import HELD, Refusal, StateError
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.state import unfinished_runs
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.phases import plan_file
from orchestrator.state.phases.paths import name_of, plan_path, status_path
from orchestrator.state.phases.phase_status import read as phase_status
from orchestrator.store.read import read_state
from tickets.problems import Problem
from tickets.ticket import AssignedPlan, Ticket
from tickets.value import Value

FAMILY = "phases"


class PlansFound(Value):
    """The plans of a phase as the files have them."""

    name: str
    """The short name of the phase."""
    open: tuple[AssignedPlan, ...] = ()
    """Those that have not landed."""
    listed: int = 0
    """How many PLAN.md has."""
    is_there: bool = False
    """Whether there is a PLAN.md."""
    has_new: bool = False
    """Whether no worker has begun one of them: a phase worker that is done is not done with that."""
    problems: tuple[Problem, ...] = ()
    """Why they cannot be read: only a run that needs them is stopped by it."""


def plans_found(root: Path, phase: str, status: str) -> PlansFound:
    """Read the plans of a phase; `status` is the text of STATUS.md."""
    name = ""
    try:
        name = name_of({STATUS: status.encode()} if status else {}, phase)
        text, shown = (read_state(root, path(name)) for path in (plan_path, status_path))
        if text is None:
            return PlansFound(name)
        plans = plan_file.read(plan_path(name), text)
        rows = phase_status.read(status_path(name), shown).plans if shown else ()
    except (StateError, Refusal) as error:
        return PlansFound(name, is_there=True, problems=error.problems)
    landed = {row.plan for row in rows if row.landed}
    begun = {row.plan for row in rows if row.state != "not started"}
    left = (plan for plan in plans if plan.id not in landed)
    given = tuple(AssignedPlan(one.id, one.title, one.verify or "", one.tasks) for one in left)
    has_new = any(plan.id not in begun for plan in plans)
    return PlansFound(name, given, len(plans), is_there=True, has_new=has_new)


def assigned(ticket: Ticket, found: PlansFound) -> tuple[AssignedPlan, ...]:
    """Return the plans of a phase worker: those of PLAN.md, else those of its template."""
    return found.open if found.is_there else ticket.named_plans


def phase_worker_problems(
    tickets: Sequence[Ticket], found: PlansFound, families: Collection[str]
) -> list[Problem]:
    """Return why the phase worker among some tickets must not start, and what it should know."""
    ticket = next((one for one in tickets if one.phase_worker), None)
    if ticket is None:
        return []
    place = ticket.place("phase_worker")
    if FAMILY not in families:
        what = f"a phase worker needs the family `{FAMILY}`, which is off"
        return [Problem(place, what, f"`orchestrate init --with {FAMILY}` turns it on")]
    if found.problems:
        return list(found.problems)
    if found.is_there and ticket.plans:
        what = f"{plan_path(found.name)} is there, and holds; `plans` only begins one"
        return [Problem(ticket.place("plans"), what, "take `plans` out", "warning"), *_empty(place, found)]
    return [] if ticket.plans else _empty(place, found)


def _empty(place: str, found: PlansFound) -> list[Problem]:
    if found.listed:
        return []
    do = 'add one by `orchestrate phase plan TITLE`, or `plans: ["02-01: Lexer"]` to the template'
    return [Problem(place, f"{found.name} has no plan, and a phase worker owns its plans", do)]


def refuse_taken(root: Path, found: PlansFound, phase: str) -> None:
    """Refuse a second phase worker of a phase while a run that has one is running or interrupted."""
    for state in unfinished_runs(root, []):
        status = state.status()
        if status not in ("running", "interrupted") or not _is_same(state.phase, phase, found):
            continue
        ticket = read_manifest(state.run).phase_worker
        if ticket is not None:
            what = f"{found.name} belongs to {state.run.id}.{ticket.worker}, whose run is {status}"
            do = "wait for it" if status == "running" else "continue it, or cancel it"
            raise Refusal(Problem(state.run.id, what, do), exit_code=HELD, next_action=next_of_run(state))


def _is_same(other: str, phase: str, found: PlansFound) -> bool:
    return other == phase or name_of({}, other) == found.name
