"""`ps`: the running workers, the queue behind them, the slots. Imports little: called often."""

from datetime import UTC, datetime
from typing import Any

from orchestrator.budget.totals import Spent, spent_in
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, NoArguments, repository_of
from orchestrator.runs.inbox import read_inboxes
from orchestrator.runs.live import NEXT, LiveRun, QueueCounts, Row, live_runs, parked_text
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.state import RunState
from orchestrator.schedule.rate_limits import provider_states
from orchestrator.step import step_keys
from tickets.problems import Problem
from tickets.value import Value
from workers.files.run_dir import RunDir, runs_of
from workers.git.run import Repository
from workers.pool.slots import Taken, holders
from workers.shim.processes import marked

Arguments = NoArguments


class Seen(Value):
    """A run in the form that the text shows."""

    state: RunState
    rows: list[Row]
    queue: QueueCounts
    cost: Spent


def call(caller: Caller, _: NoArguments) -> Answer[list[Seen]]:
    """Return the running workers."""
    repository, now = repository_of(caller), caller.now()
    problems: list[Problem] = []
    runs = live_runs(repository.root, problems=problems)
    read_inboxes(repository.root, [run.state for run in runs], now.timestamp())
    parked = _parked(repository, now)
    rows = [row for run in runs for row in run.rows(now, parked)]
    slots = holders(repository.own / "slots")
    ready = {(slot.holder.get("run", ""), slot.holder.get("worker", "")) for slot in slots}
    queues = [run.queue(now, parked, ready) for run in runs]
    problems += [*_lost(rows), *_dirty(slots), *_outlived(repository, slots)]
    costs = spent_in(repository.own / "spending", [run.state for run in runs])
    shown = [_shown(run, queue, cost, now) for run, queue, cost in zip(runs, queues, costs, strict=True)]
    next_action = next_of_run(runs[-1].state, now) if runs else "orchestrate status"
    seen = [
        Seen(run.state, [row for row in rows if row.run == run.state.run.id], queue, cost)
        for run, queue, cost in zip(runs, queues, costs, strict=True)
    ]
    return answer(
        problems,
        next_action,
        workers=[row._asdict() for row in rows],
        queued={
            "total": sum(queue.total for queue in queues),
            "slot": sum(queue.slot for queue in queues),
            "dependency": sum(queue.dependency for queue in queues),
            "provider": sum(queue.provider for queue in queues),
            "held": sum(queue.held for queue in queues),
            "next": [one._asdict() for queue in queues for one in queue.first][:NEXT],
        },
        slots={
            # An agent CLI holds one of its agent's slots beside that of the pool.
            "taken": sum(slot.slot.startswith("pool-") for slot in slots if not slot.dirty),
            "dirty": [slot.slot for slot in slots if slot.dirty],
        },
        runs=shown,
    ).showing(seen)


def _parked(repository: Repository, now: datetime) -> dict[str, str]:
    """Return the agents that are parked, and until when."""
    found = provider_states(repository.own / "providers", now.timestamp())
    return {
        one.agent: parked_text(one.agent, datetime.fromtimestamp(one.until, UTC), now)
        for one in found
        if one.until is not None
    }


def _shown(run: LiveRun, queue: QueueCounts, cost: Spent, now: datetime) -> dict[str, Any]:
    workers = run.state.workers.values()
    retrying = sum(one.retrying and not one.ended for one in workers)
    running = run.state.counts["running"]
    return {
        "run": run.state.run.id,
        "phase": run.state.phase,
        "status": run.state.status(),
        "stage": run.state.stage,
        "running": running - retrying if run.is_running else running,
        "retrying": retrying,
        "queued": queue.total,
        "ended": sum(one.ended for one in workers),
        "spent": cost._asdict(),
        **step_keys(next_of_run(run.state, now)),
    }


def _lost(rows: list[Row]) -> list[Problem]:
    what, do = "its shim is gone and left no record", "`orchestrate resume {}` starts it again"
    return [
        Problem(f"{row.run} {row.worker}", what, do.format(row.run), "warning")
        for row in rows
        if row.state == "lost"
    ]


def _outlived(repository: Repository, slots: list[Taken]) -> list[Problem]:
    """Name the workers that still run although the folder of their run is gone."""
    there = {run.id for run in runs_of(repository.root)}
    gone = ((one.holder.get("run", ""), one.holder.get("worker", "")) for one in slots if not one.dirty)
    what = "still runs, although the folder of its run is gone"
    return [
        Problem(f"{run} {worker}", what, _ending(repository, run, worker), "warning")
        for run, worker in dict.fromkeys(gone)
        if run and run not in there
    ]


def _ending(repository: Repository, run: str, worker: str) -> str:
    found = sorted(marked(f"{RunDir(repository.root, run).path}/{worker}"))
    return f"wait for its end, or `kill {' '.join(map(str, found))}`" if found else "wait for its end"


def _dirty(slots: list[Taken]) -> list[Problem]:
    what, do = (
        "its shim was killed; processes of its worker may live",
        "the next worker in the slot ends them",
    )
    return [
        Problem(slot.slot, f"{slot.holder.get('worker', 'somebody')}: {what}", do, "warning")
        for slot in slots
        if slot.dirty
    ]
