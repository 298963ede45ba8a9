"""`orchestrate ps` on the command line."""

from typing import TYPE_CHECKING

from orchestrator.cli.terminal.terminal import columns
from orchestrator.cli.terminal.width import cut, elapsed
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import NoArguments
from orchestrator.commands.ps import Seen
from orchestrator.runs.live import SHORT, STAGES, QueueCounts, Row

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `ps`: it has none."""


def lines(answer: Answer[list[Seen]], _: NoArguments) -> list[str]:
    """Return the answer as text."""
    nothing = [] if answer.problems else ["nothing is running"]
    return with_ending(_lines(answer.view) or nothing, answer)


def _lines(seen: list[Seen]) -> list[str]:
    lines = []
    for state, own, queue, cost in seen:
        counted = _counted(own) + (f", {_queue_words(queue)}" if queue.total else "")
        counted = STAGES.get(state.stage or "", counted)
        counted += "" if cost.is_nothing else f"; {cost.in_words()}"
        lines.append(f"run {state.run.id} ({state.phase}) {state.status()}: {counted}")
        for row in own:
            attempt = f" (attempt {row.attempt})" if row.attempt > 1 else ""
            head = f"  {row.worker:<18}{SHORT.get(row.state, row.state):<10} {elapsed(row.seconds):>7}  "
            lines.append(cut(f"{head}{row.ticket}: {row.title}{attempt}", columns()))
            said = f"asks: {row.asks}" if row.asks else row.last
            if said:
                lines.append(cut(f"{'':<20}{said}", columns()))
        lines += [cut(f"  {one.worker:<18}waits for {one.waits_for}", columns()) for one in queue.first]
    return lines


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


def _queue_words(queue: QueueCounts) -> str:
    """Return how many wait, and for what."""
    kinds = {
        "for a slot": queue.slot,
        "for other tickets": queue.dependency,
        "for a provider": queue.provider,
        "held up": queue.held,
    }
    said = ", ".join(f"{count} {words}" for words, count in kinds.items() if count)
    return f"{queue.total} queued ({said})" if said else "0 queued"
