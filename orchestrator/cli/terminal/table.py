"""The live table: each worker's task, time and last message, as lines that fit a terminal."""

import heapq
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from orchestrator.budget.totals import told_by
from orchestrator.cli.terminal.painter import Painter, has_colour
from orchestrator.cli.terminal.progress import event_line, message_line
from orchestrator.cli.terminal.width import cells, cut, elapsed
from orchestrator.cli.text import clean
from orchestrator.money import amount, thousands
from orchestrator.runs.events import Noted
from orchestrator.runs.live import SHORT, LiveRun, QueueCounts, Row
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WorkerState
from tickets.wording import count_of, rest_of

HEADS = ("WORKER", "TICKET", "STATE", "TIME", "TOKENS", "USD", "LAST")
WIDEST = (24, 20, 17, 8, 8, 8)
"""The most columns of each field; the last one gets the rest."""
LEAST_LAST = 12
"""The fewest columns with which the last field is shown."""
GOOD_LAST = 32
"""The fewest columns for its text: what a worker waits for, or why it is blocked."""
WELL = ("accepted", "partial", "skipped", "complete")
"""Outcomes that need no attention; workers with any other are shown above these."""
EVENTS = 5
"""Lines of a terminal that stay free for the events above the table."""
GREEN, RED, MAGENTA, BOLD, REVERSE = "\x1b[32m", "\x1b[31m", "\x1b[35m", "\x1b[1m", "\x1b[7m"
"""Readable on light and on dark; each meaning is shown by a word, too."""
PLAIN = "\x1b[0m"
COLOURS = {
    "accepted": GREEN, "partial": GREEN, "pending": MAGENTA, "running": BOLD, "rejected": RED, "failed": RED,
    "timed_out": RED, "rate_limited": RED, "over_budget": RED, "lost": RED, "cancelled": MAGENTA,
    "blocked": MAGENTA, "needs_clarification": MAGENTA, "stopping": MAGENTA, "stopped": MAGENTA,
}  # fmt: skip


ASKED = 3
"""How many questions to the lead are shown."""


class Fields(NamedTuple):
    """One line of the table."""

    worker: str
    ticket: str
    state: str
    time: str = ""
    tokens: str = ""
    cost: str = ""
    last: str = ""


def table_lines(runs: Sequence[LiveRun], now: datetime, size: os.terminal_size, *, colour: bool) -> list[str]:
    """Return the table as lines, none wider and all of them together no higher than the terminal."""
    lines: list[str] = []
    heads = [_head(run, now, size.columns) for run in runs]
    asked = [_asked(run.state) for run in runs]
    talk = [[message_line(one) for one in run.state.talk] for run in runs]
    # One line stays free for the cursor; each run has a head above its workers, and one for what is left out.
    above = max((sum(map(len, parts)) for parts in zip(heads, asked, talk, strict=True)), default=1)
    room = max(2, (size.lines - 2) // max(1, len(runs)) - 1 - above)
    blocks = [(head, *_fields(run, now, room)) for head, run in zip(heads, runs, strict=True)]
    shown = [fields for _, rows, _ in blocks for fields in rows]
    widths = _widths(shown, size.columns)
    for number, (head, rows, left) in enumerate(blocks):
        lines += [cut(line, size.columns) for line in head]
        lines += [_waits(cut(clean(line), size.columns), colour=colour) for line in asked[number]]
        if shown and not number:
            lines.append(_line(Fields(*HEADS), widths, colour=False))
        lines += [_line(row, widths, colour=colour) for row in rows]
        lines += [cut(f"  {line}", size.columns) for line in rest_of(left, 0)]
        lines += [cut(f"  {clean(line)}", size.columns) for line in talk[number]]
    return lines[: max(1, size.lines - 1)]


def _asked(state: RunState) -> list[str]:
    """Return what workers wait for, in the words of the newest ones."""
    asked = [f"{one.about or 'another run'} asks: {one.title}" for one in state.inbox.open]
    more = [f"{len(asked) - ASKED} more: orchestrate msg inbox"] if len(asked) > ASKED else []
    return [*asked[-ASKED:], *more]


def _waits(line: str, *, colour: bool) -> str:
    return f"{REVERSE}{line}{PLAIN}" if colour else line


class LiveTable:
    """The table below the output of a runtime: events scroll by above it."""

    def __init__(self, painter: Painter, environ: Mapping[str, str]) -> None:
        self.painter = painter
        self._colour = has_colour(environ)
        self._run: LiveRun | None = None

    def __call__(self, noted: Noted, state: RunState) -> None:
        """Show an event as it happens."""
        if self._run is None:
            self._run = LiveRun(state)
        line = event_line(noted, state)
        if line:
            self.painter.above(line)

    def draw(self, now: datetime) -> None:
        """Draw the table of the current state."""
        if self._run is not None:
            columns, rows = self.painter.size
            size = os.terminal_size((columns, max(rows - EVENTS, rows // 2)))
            self.painter.draw(table_lines([self._run], now, size, colour=self._colour))


def _head(run: LiveRun, now: datetime, columns: int) -> list[str]:
    """Return a run's own line, or two: its workers counted by state, failures first."""
    state = run.state
    counted: dict[str, int] = {}
    lives = run.is_running
    for name, worker in state.workers.items():
        going = "running" if lives or state.outlives(name) else "stopped"
        word = _word(worker) if worker.ended else going if worker.started else "queued"
        counted[word] = counted.get(word, 0) + 1
    order = ["running", "stopped", "queued", "pending", "", *WELL]
    words = sorted(counted, key=lambda word: order.index(word if word in order else ""))
    began = min((one.started_at for one in state.workers.values() if one.started_at), default="")
    time = f", {elapsed((now - _time(began)).total_seconds())}" if began and lives else ""
    said = ", ".join(f"{counted[word]} {word}" for word in words)
    cost = told_by(state)  # at every drawing: not from the ledger
    money = "" if cost.is_nothing else f", {cost.in_short()}"
    doing = {"gate": "the gate runs", "integration": "integrating"}.get(state.stage or "", state.status())
    head = f"run {state.run.id} of {state.phase}, {doing}{time}{money}"
    return [f"{head}: {said}"] if cells(f"{head}: {said}") <= columns else [head, f"  {said}"]


def _fields(run: LiveRun, now: datetime, room: int) -> tuple[list[Fields], int]:
    """Choose the workers that fit: running, first to start, failed, last ended."""
    rows = [_running(row) for row in run.rows(now)]
    queue = run.queue(now)
    waiting = _waiting(queue)
    ended = [worker for worker in run.state.workers.values() if worker.ended]
    total = len(rows) + queue.total + len(ended)
    if len(rows) + len(waiting) + len(ended) > room:
        waiting = waiting[: max(1, min(len(waiting), room - len(rows) - min(len(ended), 3)))]
    free = max(0, room - len(rows) - len(waiting))
    newest = heapq.nlargest(free, ended, key=lambda one: (_word(one) not in WELL, one.evidence.ended_at))
    shown = [*rows, *waiting, *map(_ended, newest)][:room]
    return shown, total - len(shown)


def _running(row: Row) -> Fields:
    again = f" #{row.attempt}" if row.attempt > 1 else ""
    return Fields(
        row.worker,
        row.ticket,
        SHORT.get(row.state, row.state) + again,
        elapsed(row.seconds),
        last=row.last or row.title,
    )


def _waiting(queue: QueueCounts) -> list[Fields]:
    return [Fields(one.worker, one.ticket, "waiting", last=f"for {one.waits_for}") for one in queue.first]


def _ended(worker: WorkerState) -> Fields:
    usage = worker.evidence.usage
    tokens, cost = usage.input_tokens + usage.output_tokens, usage.cost_usd
    count = len(worker.evidence.files)
    files = count_of(count, "file") if count else ""
    return Fields(
        worker.worker,
        worker.ticket,
        _word(worker),
        elapsed(worker.evidence.seconds) if worker.started else "",
        thousands(tokens) if tokens else "",
        amount(cost) if cost is not None else "unpriced" if tokens else "",
        worker.reason or worker.evidence.summary or files or ", ".join(worker.flags),
    )


def _word(worker: WorkerState) -> str:
    """Return the one word that describes best how a worker ended."""
    return worker.verdict or "complete" if worker.outcome == "complete" else str(worker.outcome)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _widths(rows: Sequence[Fields], columns: int) -> list[int]:
    """Return the columns of each field; a field that is empty everywhere gets none."""
    widths = []
    for at, (head, widest) in enumerate(zip(HEADS, WIDEST, strict=False)):
        longest = max((cells(row[at]) for row in rows), default=0)
        widths.append(min(widest, max(longest, len(head))) if longest else 0)
    left = columns - sum(width + 2 for width in widths if width)
    # Where it is too narrow the ticket goes first: the worker's name is made of it, mostly.
    told = all(row.worker.lower().replace("-worker-", "-") == row.ticket for row in rows)
    if left < (GOOD_LAST if told else LEAST_LAST) and widths[1]:
        left += widths[1] + 2
        widths[1] = 0
    fitting, used = [], 0
    for width in (*widths, left if left >= LEAST_LAST else 0):
        fits = width if used + width <= columns else columns if not used else 0
        fitting.append(fits)
        used += fits + 2 if fits else 0
    return fitting


def _line(fields: Fields, widths: Sequence[int], *, colour: bool) -> str:
    parts = []
    room = 0
    for at, (text, width) in enumerate(zip(fields, widths, strict=True)):
        if not width:
            continue
        field = cut(text, width)
        fill = " " * (width - cells(field))
        field = fill + field if at in (3, 4, 5) else field + fill
        shade = COLOURS.get(text) if at == 2 and colour else None
        parts.append(f"{shade}{field}{PLAIN}" if shade else field)
        room += width
    return "  ".join(parts).rstrip()
