"""`orchestrate ps`: the workers that run, the queue behind them, the slots. Imports little: asked often."""

import argparse
import gc
from datetime import UTC, datetime
from typing import Any

from orchestrator.budget.totals import Spent, spent_in
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import repository_of
from orchestrator.cli.terminal.terminal import columns
from orchestrator.cli.terminal.width import cut, elapsed
from orchestrator.runs.live import NEXT, SHORT, LiveRun, Queue, Row, live_runs, parked_words
from orchestrator.schedule.rate_limits import standing
from tickets.problems import Problem
from workers.git.run import Repository
from workers.pool.slots import Taken, holders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `ps` takes: nothing of its own."""


def answer(arguments: argparse.Namespace) -> Answer:
    """Show what is running."""
    gc.disable()  # we are gone before anything is worth collecting, and thousands may wait
    repository = repository_of(arguments)
    now = datetime.now(UTC)
    problems: list[Problem] = []
    runs = live_runs(repository.root, problems=problems)
    parked = _parked(repository, now)
    rows = [row for run in runs for row in run.rows(now, parked)]
    slots = holders(repository.own / "slots")
    ready = {(slot.holder.get("run", ""), slot.holder.get("worker", "")) for slot in slots}
    queues = [run.queue(now, parked, ready) for run in runs]
    problems += [*_lost(rows), *_dirty(slots)]
    costs = spent_in(repository.own / "spending", [run.state for run in runs])
    shown = [_shown(run, queue, cost) for run, queue, cost in zip(runs, queues, costs, strict=True)]
    next_action = next((one["next_action"] for one in reversed(shown)), "orchestrate status")
    errors = any(problem.severity == "error" for problem in problems)
    document = envelope(
        problems,
        next_action,
        ok=not errors,
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
    )
    lines = _lines(runs, rows, queues, costs)
    return Answer(1 if errors else 0, document, (*lines, *problem_lines(problems, next_action)))


def queue_words(queue: Queue) -> str:
    """Say how many wait, and for what."""
    kinds = {
        "for a slot": queue.slot,
        "for other tickets": queue.dependency,
        "for a provider": queue.provider,
        "held up": queue.held,
    }
    said = ", ".join(f"{count} {words}" for words, count in kinds.items() if count)
    return f"{queue.total} queued ({said})" if said else "0 queued"


def _parked(repository: Repository, now: datetime) -> dict[str, str]:
    """Give the agents that no run starts anything with, and until when."""
    found = standing(repository.own / "providers", now.timestamp())
    return {
        one.agent: parked_words(one.agent, datetime.fromtimestamp(one.until, UTC), now)
        for one in found
        if one.until is not None
    }


def _shown(run: LiveRun, queue: Queue, cost: Spent) -> dict[str, Any]:
    workers = run.state.workers.values()
    retrying = sum(one.retrying and not one.ended for one in workers)
    return {
        "run": run.state.run.id,
        "phase": run.state.phase,
        "status": run.state.status(),
        "running": sum(one.started and not one.ended for one in workers) - retrying,
        "retrying": retrying,
        "queued": queue.total,
        "ended": sum(one.ended for one in workers),
        "spent": cost._asdict(),
        "next_action": run.state.next_action(),
    }


def _lost(rows: list[Row]) -> list[Problem]:
    what, do = "its shim is gone and left no record", "`orchestrate resume {}` starts it again"
    return [
        Problem(f"{row.run} {row.worker}", what, do.format(row.run), "warning")
        for row in rows
        if row.state == "lost"
    ]


def _dirty(slots: list[Taken]) -> list[Problem]:
    what, do = (
        "its shim was killed; processes of its worker may live",
        "whoever takes the slot next ends them",
    )
    return [
        Problem(slot.slot, f"{slot.holder.get('worker', 'somebody')}: {what}", do, "warning")
        for slot in slots
        if slot.dirty
    ]


def _lines(runs: list[LiveRun], rows: list[Row], queues: list[Queue], costs: list[Spent]) -> list[str]:
    lines = []
    for run, queue, cost in zip(runs, queues, costs, strict=True):
        own = [row for row in rows if row.run == run.state.run.id]
        counted = _counted(own) + (f", {queue_words(queue)}" if queue.total else "")
        counted += "" if cost.is_nothing else f"; {cost.in_words()}"
        lines.append(clean(f"run {run.state.run.id} ({run.state.phase}) {run.state.status()}: {counted}"))
        for row in own:
            attempt = f" (attempt {row.attempt})" if row.attempt > 1 else ""
            head = f"  {row.worker:<18}{SHORT.get(row.state, row.state):<10} {elapsed(row.seconds):>7}  "
            lines.append(cut(f"{head}{row.ticket}: {row.title}{attempt}", columns()))
            if row.last:
                lines.append(cut(f"{'':<20}{row.last}", columns()))
        lines += [cut(f"  {one.worker:<18}waits for {one.waits_for}", columns()) for one in queue.first]
    return lines or ["nothing is running"]


def _counted(rows: list[Row]) -> str:
    """Count those that were started, by what they do; so that it adds up with the lines below."""
    others = {
        "to be tried again": "waiting: another attempt",
        "stopped": "stopped",
        "ended, not judged": "ended, not judged",
        "lost": "lost",
    }
    counts = {words: sum(row.state == state for row in rows) for words, state in others.items()}
    running = len(rows) - sum(counts.values())
    return ", ".join(
        [f"{running} running", *(f"{count} {words}" for words, count in counts.items() if count)]
    )
