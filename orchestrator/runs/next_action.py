"""The next step of a run, decided from its state alone: `status` and `ps` ask often."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.runs.cut_off import goes_on
from orchestrator.runs.state import RunState, read_roster, read_run, shown_of
from orchestrator.runs.worker_state import HELD_UP, WorkerState
from orchestrator.step import Step, Waits, Who
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from tickets.wording import some_of
from workers.files.run_dir import RunDir, later_runs

if TYPE_CHECKING:
    from orchestrator.state.canonical.status.read import Status

STATUS = "orchestrate status"
TEMPLATES = "docs/worker-ticket-templates"
"""As in `tickets.templates.render`, whose import would slow down `status`."""
INBOX = "orchestrate msg inbox"
MENDED_FIRST = ("gate", "hook")
"""Those of them that would delay the work of the other workers as well."""
MOST_NAMED = 20
"""How many names one command has; after it, the next command has the next ones."""
_ALWAYS_WHOLE = "read_only_wrote"
_RAISE = {
    "the run's": "a new run has a budget of its own",
    "the day's": "continue tomorrow (UTC), or raise the day's limit below `[budget]`",
    "the ticket's": "raise its own budget in the template",
}
"""The remedy, by the beginning of the reason that names the limit."""
_TOO_SMALL = " is less than "
"""In the reason of a limit in which the ticket never fits, whatever is spent."""
_WIDEN = "raise that limit below `[budget]`, or lower what the template asks for"
_STOPPED = "raise what it may cost, in the template or below `[budget]`"
_DONE_AGAIN = '--reason "done again on the branch as it is now"'
"""The reason to reject work that conflicts with the branch, as it is proposed."""
_LONGEST = 160
"""Characters of a reason in the sentence about a wait."""
_LONG_PARK = timedelta(minutes=10)
"""Where a provider is parked for longer, nobody waits for it by call after call."""
_Workers = Mapping[str, WorkerState]
_WaitsFor = Mapping[str, Collection[str]]


def next_of_run(run: RunState, now: datetime | None = None) -> Step:
    """Return the step that continues a run; given the time, also a wait for providers that are parked.

    A message that its lead was not shown yet comes first: a worker may wait for the answer.
    """
    if run.inbox.new:
        return INBOX
    match run.status():
        case "integrated":
            return next_of_ended(run, overtaken(run))
        case "running":
            wait = wait_of(run)
            if now and run.parked and (parked := _parked_as_a_whole(run, now)) is not None:
                return Waits("outside", f"{parked}; until then nothing of the run goes on, then `{wait}`")
            return wait
        case "cancelled" if not has_work(run):
            return next_of_ended(run, overtaken(run))
        case "cancelled" | "finished":
            step = settles(run)
            blocked = "" if _is_back(run) else run.blocked
            if blocked and not run.pending and isinstance(step, str):
                then = f"; then `{step}`" if step not in blocked else ""
                return Waits("lead", f"{blocked}{then}")
            if blocked and isinstance(step, Waits):
                return step._replace(what=f"{blocked}; and {step.what}")
            return step
        case _:
            return f"orchestrate resume {run.run.id}"


def wait_of(run: RunState) -> str:
    """Return the command that waits for what happens next in a run."""
    return f"orchestrate wait {run.run.id} --since {run.cursor}"


def wait_for(run: RunDir) -> str:
    """Return the same for a run that was not read; without a journal it has just begun."""
    state = read_run(run)
    return wait_of(state) if state else f"orchestrate wait {run.id} --since 0"


def _is_back(run: RunState) -> bool:
    """Return whether the user is on the branch again that a run waits for."""
    from workers.git.run import GitError, git_line  # noqa: PLC0415 - for start-up time: few wait for one

    try:
        return bool(run.awaits) and git_line("symbolic-ref", "-q", "HEAD", cwd=run.run.root) == run.awaits
    except GitError:
        return False  # a detached HEAD


def completing(run: RunState, status: "Status | None" = None) -> str:
    """Return the command that completes what a run has finished and the plan has open; empty for nothing.

    `status` is STATUS.md as it is read here otherwise.
    """
    if not (run.finished_deliverables and run.is_integrated):
        return ""
    status = status or _status_of(run.run.root)
    phases = status.phases if status else ()
    is_open = {one.name for phase in phases for one in phase.deliverables if not one.done}
    made = [name for name in run.finished_deliverables if name in is_open]
    if not (made and status):
        return ""
    named = quoted(made[0]) if len(made) == 1 else "--finished"
    elsewhere = "" if run.phase == status.phase_slug else f" --phase {quoted(run.phase)}"
    return f"orchestrate deliverable done {named}{elsewhere}"


def once_mended(obstacle: str, command: str) -> Step:
    """Return a command, or the wait for the lead where something would let it fail."""
    return Waits("lead", f"{obstacle}; once that is mended, `{command}`") if obstacle else command


def _status_of(root: Path) -> "Status | None":
    """Read STATUS.md, whose problems `status` reports."""
    from orchestrator.state.canonical.status.read import PATH, read  # noqa: PLC0415 - for start-up time: few runs finish any
    from orchestrator.store.read import read_state  # noqa: PLC0415 - as above

    try:
        return read(read_state(root, PATH) or b"")
    except ProblemError:
        return None


def _parked_as_a_whole(run: RunState, now: datetime) -> str | None:
    """Describe until when all that is left of a run waits for parked providers, where that is long."""
    from orchestrator.runs.live import parked_text  # noqa: PLC0415 - for start-up time: few are parked

    times = {agent: datetime.fromisoformat(until) for agent, until in run.parked.items()}
    left = {name: worker for name, worker in run.workers.items() if not worker.ended}
    held = {
        name for name, worker in left.items()
        if (worker.retrying or not worker.started) and times.get(worker.agent, now) - now > _LONG_PARK
    }  # fmt: skip
    for name, worker in left.items():  # dependencies come first
        if not (worker.started or held.isdisjoint(run.waits_for.get(name, ()))):
            held.add(name)
    if not left or len(held) < len(left):
        return None
    agent = min((worker.agent for worker in left.values() if worker.agent in times), key=times.__getitem__)
    return parked_text(agent, times[agent], now)


def has_work(run: RunState) -> bool:
    """Return whether a verdict is open, or accepted work is to be landed and recorded."""
    return any(
        worker.verdict == "pending" or (worker.lands and run.recorded.get(name) != shown_of(worker))
        for name, worker in run.workers.items()
    )


def next_of_ended(run: RunState, since: Collection[str] = ()) -> Step:
    """Return what follows a run that is over: to run a ticket once more costs, and is decided by somebody.

    `since` are the tickets that a later run has had, or that are no more.
    """
    workers = run.workers
    failed = [name for name in run.to_examine if workers[name].ticket not in since]
    left = [name for name in undone(workers, run.waits_for) if workers[name].ticket not in since]
    left += [name for name in _fell_by(since, run) if name not in left]
    command = again_with_fallen(run.phase, [*failed, *left], workers, run.waits_for, since)
    if going := [name for name in failed if goes_on(run.run, workers[name])]:
        return going_on(run.phase, [workers[name].ticket for name in going])
    if failed:
        worker = workers[failed[0]]
        what = (
            f"{some_of(failed, 1)}: {worker.outcome}{f', {_brief(worker.reason)}' if worker.reason else ''}"
        )
        do = f"`orchestrate logs {run.run.id} {failed[0]}` shows why"
        if letter := run.inbox.asked_by(failed[0]):
            do = f"it goes on with an answer: `orchestrate msg send --re {letter.id} TEXT`; {do}"
        return Waits(_who(worker), f"{what}; {do}, `{command}` runs it again")
    if left and all(_freed_by(name, workers, run.waits_for) for name in left):
        return command
    if left:
        worker = workers[left[0]]
        what = f"{some_of(left, 1)}: {_brief(worker.reason) or worker.outcome}"
        if worker.outcome == "over_budget" and _TOO_SMALL in worker.reason:
            return Waits("lead", f"{what}; {_WIDEN}, then `{command}`")
        return Waits(_who(worker), f"{what}; `{command}` runs what is left, once that is wanted")
    if run.unavailable and not since and not any(worker.lands for worker in workers.values()):
        first = next(name for name in workers if name in run.unavailable)
        what = (
            f"no ticket of {run.phase} was run: {workers[first].ticket} was skipped, {workers[first].reason}"
        )
        return Waits("user", f"{_brief(what)}; `orchestrate doctor` shows which agents can be used")
    return STATUS


def going_on(phase: str, tickets: Sequence[str]) -> str:
    """Return the command that goes on with tickets that were cut off."""
    only = f" --only {' '.join(map(quoted, tickets))}" if len(tickets) <= MOST_NAMED else ""
    return f"orchestrate run {quoted(phase)} --continue{only}"


def overtaken(run: RunState) -> set[str]:
    """Return the tickets of a run that are not to run again: a later run has had them, or they are gone."""
    if all(worker.lands for worker in run.workers.values()):
        return set()
    later = filter(None, map(read_roster, later_runs(run.run)))
    had = {one.ticket for other in later if other.phase == run.phase for one in other.workers.values()}
    return without_template(run) | had


def without_template(run: RunState) -> set[str]:
    """Return the tickets of a run whose templates are gone: nobody wants their work."""
    there = run.run.root / TEMPLATES
    tickets = {worker.ticket for worker in run.workers.values()}
    return {one for one in tickets if not (there / f"{one.partition('[')[0]}.md").exists()}


def _fell_by(since: Collection[str], run: RunState) -> list[str]:
    """Return the workers that were left out because of one whose ticket a later run has had."""
    return [
        name
        for name, worker in run.workers.items()
        if _fell(worker)
        and worker.ticket not in since
        and any(run.workers[one].ticket in since for one in run.waits_for.get(name, ()))
    ]


def _who(worker: WorkerState) -> Who:
    """Return who can change that a worker was stopped."""
    if worker.outcome == "rate_limited" or worker.reason.startswith("the day's"):
        return "outside"
    # Only the user has the account.
    return "user" if "login" in worker.flags else "lead"


def _brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 1]}…"


def quoted(word: str) -> str:
    """Return a word quoted for a shell."""
    if word.isascii() and word.replace("-", "").replace("_", "").isalnum():
        return word
    import shlex  # noqa: PLC0415 - for start-up time: names of phases are plain

    return shlex.quote(word)


# Verdicts to settle


class Pending(Value):
    """The workers of a run with a pending verdict, by their remedy."""

    asked: tuple[str, ...]
    """They wait for the lead's decision: accepted, their changes inside their scope land."""
    outside: tuple[str, ...]
    """They wait for it too, but none of their changes is inside their scope, so nothing would land."""
    held_up: tuple[str, ...]
    """A gate, a hook, a conflict or another worker keeps these from landing, whatever the lead decides."""
    mend_first: bool
    """Their obstacle would delay the others, too."""


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


def settles(run: RunState) -> Step:
    """Return the one command that settles as many pending workers as possible."""
    workers = run.workers
    found = pending_of(workers)
    command = f"orchestrate integrate {run.run.id}"
    if found.held_up and (found.mend_first or not (found.asked or found.outside)):
        # Delayed work is accepted already: to accept it again would not land it.
        first, many = found.held_up[0], len(found.held_up)
        who = first if many == 1 else f"{many} workers"
        what = f"{who} cannot land: {_brief(workers[first].reason)}"
        if clash := [name for name in found.held_up if workers[name].settled_by == "conflict"][:MOST_NAMED]:
            # The branch will hardly go back: the work is done again on what it has now.
            do = again_with_fallen(run.phase, clash, workers, run.waits_for)
            return Waits(
                "lead",
                f"{what}; `{command} --reject {' '.join(clash)} {_DONE_AGAIN}`, then `{do}` does it again",
            )
        return Waits("lead", f"{what}; fix that, then `{command}` (or `--reject`)")
    if not (found.asked or found.outside):
        return command
    room = MOST_NAMED
    for option, names in (("--accept", found.asked), ("--reject", found.outside)):
        called, _ = called_by(names, workers, room)
        command += f" {option} {' '.join(called)}" if called else ""
        room -= len(called)
    return command


def called_by(names: Sequence[str], workers: _Workers, most: int = MOST_NAMED) -> tuple[list[str], int]:
    """Return the names that mean exactly these workers, and how many workers are omitted.

    A fan-out whose pending workers are all meant is named as a whole: `integrate` reads it so.
    """
    pending = {name: worker.ticket for name, worker in workers.items() if worker.verdict == "pending"}
    from tickets.templates.fan_out import short_names  # noqa: PLC0415 - for start-up time: few wait for a verdict

    called = short_names(names, pending, workers)
    said = list(called)[: max(0, most)]
    return said, sum(called.values()) - sum(called[one] for one in said)


def again(phase: str, names: Sequence[str], workers: _Workers) -> str:
    """Return the command that reruns the tickets of some workers."""
    named = names[:MOST_NAMED]
    # A fan-out's ticket needs quotes in a shell; its worker's name does not.
    words = [name if "[" in workers[name].ticket else workers[name].ticket for name in named]
    option = " --again" if any(workers[name].again for name in named) else ""
    return f"orchestrate run {phase} --only {' '.join(words)}{option}"


def _lands_nothing(worker: WorkerState) -> bool:
    """Return whether a worker changed something, and all of it outside its scope.

    A read-only worker is accepted for its findings.
    """
    evidence = worker.evidence
    kinds = {one.kind for one in evidence.violations}
    return bool(evidence.patch and not evidence.files and _ALWAYS_WHOLE not in kinds)


# Tickets to run again


def undone(workers: _Workers, waits_for: _WaitsFor) -> list[str]:
    """List the workers that another run helps: over budget, cancelled, broke the gate, skipped too early."""
    return [
        name
        for name, worker in workers.items()
        if not worker.lands
        and (
            worker.outcome in ("over_budget", "cancelled")
            or _was_cancelled_early(worker)
            or broke_the_gate(worker)
            or _freed_by(name, workers, waits_for)
        )
    ]


def broke_the_gate(worker: WorkerState) -> bool:
    """Return whether a worker is rejected because the gate fails with its work."""
    return (worker.verdict, worker.settled_by) == ("rejected", "gate")


def _was_cancelled_early(worker: WorkerState) -> bool:
    """Return whether a ticket was cancelled before it began."""
    return worker.outcome == "skipped" and worker.reason.startswith("cancelled by ")


def again_with_fallen(
    phase: str,
    roots: Iterable[str],
    workers: _Workers,
    waits_for: _WaitsFor,
    since: Collection[str] = (),
) -> str:
    """Return the command that reruns some workers, with their dependents and what they lack.

    `since` are the tickets that a later run has had.
    """
    fallen = set(roots)
    for name, worker in workers.items():  # dependencies come first
        if _fell(worker) and not fallen.isdisjoint(waits_for.get(name, ())):
            fallen.add(name)
    needed, left = set(fallen), sorted(fallen)
    while left:
        before = {name for name in waits_for.get(left.pop(), ()) if not workers[name].lands} - needed
        needed |= before
        left += sorted(before)
    names = [name for name in workers if name in needed and workers[name].ticket not in since]
    if len(names) > MOST_NAMED and not any(workers[name].again for name in names):
        return f"orchestrate run {phase}"
    return again(phase, names, workers)


def run_problems(run: RunState) -> list[Problem]:
    """Return what is to be told of a run whoever ran it: a flaky gate, and tickets that another run helps."""
    do = "make the gate reliable"
    flaky = [Problem("gate", flaky_words(run.gate.flaky), do, "warning")] if run.gate.flaky else []
    return [*flaky, *undone_problems(run)]


def flaky_words(looks: str) -> str:
    """Describe a flaky gate by two of its runs."""
    return f"it failed once and passed once on the same tree, so no worker is blamed for it: {looks}"


def undone_problems(run: RunState) -> list[Problem]:
    """Return problems for tickets that another run helps, with commands: over budget, skipped too early."""
    over = overtaken(run)
    workers = {name: worker for name, worker in run.workers.items() if worker.ticket not in over}
    kept = {name: [one for one in some if one in workers] for name, some in run.waits_for.items()}
    phase, waits_for = run.phase, kept
    nothing = [
        Problem(name, f"skipped: {worker.reason}", severity="warning")
        for name, worker in workers.items()
        if worker.had_nothing_to_do or worker.is_done_since
    ]
    found = [*unpaid_problems(phase, workers, waits_for), *_freed_problems(phase, workers, waits_for)]
    return [*nothing, *found]


def _freed_problems(phase: str, workers: _Workers, waits_for: _WaitsFor) -> list[Problem]:
    """Return problems for workers skipped because of one that has been accepted since, with the command."""
    found = []
    for name in workers:
        if freed := _freed_by(name, workers, waits_for):
            what = f"was skipped before {workers[freed].ticket}, which it depends on, was accepted"
            do = f"run it now: {again_with_fallen(phase, [name], workers, waits_for)}"
            found.append(Problem(name, what, do, "warning"))
    return found


def _fell(worker: WorkerState) -> bool:
    by_another = worker.settled_by == "dependency" and not worker.lands
    return worker.outcome == "skipped" or by_another


def _freed_by(name: str, workers: _Workers, waits_for: _WaitsFor) -> str | None:
    """Return the accepted worker whose earlier verdict caused a ticket to be skipped."""
    if workers[name].outcome != "skipped":
        return None
    accepted = (one for one in waits_for.get(name, ()) if workers[one].lands)
    reason = workers[name].reason
    return next((one for one in accepted if reason.startswith(f"depends on {workers[one].ticket}, ")), None)


def _helps(reason: str) -> str:
    """Return the remedy for a limit, by the reason that names it."""
    if _TOO_SMALL in reason:
        return _WIDEN
    return next((do for begin, do in _RAISE.items() if reason.startswith(begin)), _STOPPED)


def unpaid_problems(phase: str, workers: _Workers, waits_for: _WaitsFor) -> list[Problem]:
    """Return the remedies for workers stopped by a budget, by the limit, with the command to rerun them."""
    stopped = [name for name, worker in workers.items() if worker.outcome == "over_budget"]
    found: dict[str, list[str]] = {}
    for name in stopped:
        reason = workers[name].reason
        helps = _helps(reason)
        found.setdefault(helps, []).append(name)
    command = again_with_fallen(phase, stopped, workers, waits_for) if found else ""
    return [
        Problem(
            names[0] if len(names) == 1 else f"{len(names)} workers",
            f"over budget: {workers[names[0]].reason}",
            f"{helps}, then: {command}",
            "warning",
        )
        for helps, names in found.items()
    ]
