"""The progress of a run as text: one line an event, then a summary."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.budget.totals import told_by
from orchestrator.cli.terminal.terminal import UNBOUND, columns, say
from orchestrator.cli.terminal.width import cells, cut, shortened, wrapped
from orchestrator.cli.text import clean, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.runs.events import (
    AcceptanceChecked,
    AttemptRepeated,
    ChangesLanded,
    GateEnded,
    GateStep,
    MessageNoted,
    MessageUnacknowledged,
    Noted,
    ProviderParked,
    RunStopped,
    RuntimeWarned,
    VerdictSettled,
    WorkerEnded,
    WorkerHeld,
    WorkerReassigned,
    WorkerSkipped,
    WorkerStarted,
    decoded,
)
from orchestrator.runs.live import STAGES, clock
from orchestrator.runs.next_action import MOST_NAMED, again, called_by, pending_of
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WorkerState
from orchestrator.step import Step, step_lines
from tickets.problems import Problem
from tickets.wording import count_of, rest_of, some_of
from workers.messages.record import short, split

_WIDTH = 12
SHOWN = 3
"""How many paths a line names before it counts the rest."""


def tell_lines(noted: Noted, state: RunState) -> None:
    """Print an event as it happens; events without a meaning for people are skipped."""
    line = event_line(noted, state)
    if line:
        say(line, sys.stdout)


def still_line(state: RunState, at: datetime) -> str:
    """Return a line that tells in a long silence that the run goes on, and with whom."""
    names = [name for name, worker in state.workers.items() if worker.started and not worker.ended]
    who = some_of(names) if names else STAGES.get(state.stage or "", "")
    return f"{clock(at, at)} {_line('still on', who, f'tickets: {counted(state)}')}"


def record_line(record: Mapping[str, Any], state: RunState) -> str | None:
    """Return the line of a journal record; None where it has no meaning for people, or is malformed."""
    noted = decoded(record)
    return event_line(noted, state) if noted is not None and noted.at else None


def event_line(noted: Noted, state: RunState) -> str | None:
    """Return an event as one line: time, what, who, and the main detail; in a log nothing of it is cut."""
    at = datetime.fromisoformat(noted.at)
    text = _event_text(noted, state, at)
    room = columns() if sys.stdout.isatty() else UNBOUND
    return cut(f"{clock(at, at)} {text}", room) if text else None


def _event_text(noted: Noted, state: RunState, at: datetime) -> str | None:
    event = noted.event
    match event:
        case WorkerStarted():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return _line("start", event.worker, state.titles.get(event.worker, "") + again)
        case WorkerEnded():
            return _line(event.outcome, event.worker, _ended(event))
        case WorkerSkipped():
            return _line("skipped", event.worker, event.reason)
        case AttemptRepeated() if event.event != "lost":
            return _line("asked" if event.event == "asked" else "retry", event.worker, event.reason)
        case WorkerHeld() if event.worker in state.workers:
            is_news = noted.at in state.workers[event.worker].held_news
            return _line("waits", event.worker, event.reason) if is_news else None
        case RuntimeWarned():
            return _line("warning", "", event.reason)
        case WorkerReassigned():
            return _line("moved", event.worker, f"to {event.agent}: {event.reason}")
        case ProviderParked():
            until = clock(datetime.fromisoformat(event.until), at)
            return _line("parked", event.agent, f"until {until}: {event.reason}")
        case AcceptanceChecked():
            return None if event.passed else _line("check failed", event.worker, event.command)
        case VerdictSettled():
            return _line(event.verdict or "no verdict", event.worker, event.reason)
        case GateStep():
            return _line("gate", f"{event.number} of about {event.about}", event.work)
        case GateEnded():
            return _line("gate", "", event.result)
        case ChangesLanded():
            where = event.commit[:10] if event.commit else "the work tree, not committed"
            count = len(event.workers)
            return _line("landed", event.workers[0] if count == 1 else f"{count} workers", f"in {where}")
        case RunStopped():
            return _line(event.status, "", "")
        case MessageNoted():
            return message_line(event)
        case MessageUnacknowledged():
            return _line("no receipt", event.worker, f"of its message to {short(event.to, state.run.id)}")
    return None


def message_line(event: MessageNoted) -> str:
    """Return a message as one line: who wrote to whom, its type, its first line."""
    run = split(event.sender)[0]
    who = f"{short(event.sender, run)} → {short(event.to, run)}"
    return _line(event.type, who, event.body)


def _line(what: str, who: str, rest: str) -> str:
    return f"{what:<{_WIDTH}} {who:<17} {rest}".rstrip()


def run_lines(answer: Answer[RunState]) -> list[str]:
    """Return the answer about a run as text."""
    return summary_lines(answer.view, answer.problems, answer.step)


def detached_lines(answer: Answer[RunState]) -> list[str]:
    """Return the answer about a run that continues in the background."""
    state = answer.view
    said = f"run {state.run.id} of {state.phase} continues in the background; tickets: {counted(state)}"
    return with_ending([said], answer)


def summary_lines(state: RunState, problems: Sequence[Problem], step: Step) -> list[str]:
    """Return what landed, what did not and why, what waits for a decision, and the next step."""
    lines = ["", f"run {state.run.id} of {cut(state.phase, 30)}: {state.status()}"]
    for worker in state.workers.values():
        lines += _worker_lines(worker, state)
    lines.append("")
    lines.append(f"landed:   {state.landing[:10] if state.landing else 'nothing'}")
    lines.append(f"recorded: {state.state_commit[:10] if state.state_commit else 'no commit'}")
    cost = told_by(state)
    if not cost.is_nothing:
        lines.append(f"spent:    {cost.in_words()}")
    lines.append(f"outputs:  {state.run.relative(state.run.path)}/")
    # Skipped tickets are listed above already, with their reasons.
    for problem in (problem for problem in problems if not problem.what.startswith("skipped: ")):
        lines += wrapped(f"{problem.severity}: {problem}", "  ", first="")
    lines += _settling(state)
    return [*lines, f"tickets:  {counted(state)}", *map(clean, step_lines(step))]


def counted(state: RunState) -> str:
    """Count what became of the tickets of a run: `8: 6 accepted, 1 failed, 1 skipped`."""
    counts = [f"{number} {word}" for word, number in state.counts.items() if number]
    return f"{len(state.workers):,}: {', '.join(counts)}"


def _worker_lines(worker: WorkerState, state: RunState) -> list[str]:
    """Return a worker's line, and below it the reason, its files, the paths outside its scope."""
    word = worker.verdict or worker.outcome or "not ended"
    head = f"  {word:<10}{worker.worker:<18}"
    lines = [f"{head}{cut(state.titles[worker.worker], columns() - cells(head))}".rstrip()]
    indent, room = " " * 12, columns() - 12
    files, violations = worker.evidence.files, worker.evidence.violations
    outcome = worker.outcome if worker.outcome not in ("complete", "skipped", None) else ""
    reason = worker.reason if not violations else ""
    said = ": ".join(part for part in (outcome, reason) if part)
    lines += wrapped(said, indent) if said else []
    if worker.evidence.summary:
        lines.append(indent + cut(f'"{worker.evidence.summary}"', room))
    if files:
        label = f"{_files(files)} {'landed' if worker.worker in state.landings else 'in scope'}"
        lines += _paths(label, files, indent, room)
    if left := worker.evidence.left_out:
        lines += _paths("left out, git ignores it", left, indent, room)
    kinds: dict[str, list[str]] = {}
    for violation in violations:
        kinds.setdefault(violation.kind, []).append(violation.path)
    for kind, paths in kinds.items():
        lines += _paths(kind, paths, indent, room)
    if worker.flags:
        lines += wrapped(f"flags: {', '.join(worker.flags)}", indent)
    return lines


def _paths(label: str, paths: Sequence[str], indent: str, room: int) -> list[str]:
    """Name some paths behind a label: on its line where they fit, else one a line."""
    shown = [shortened(path, room - 2) for path in paths[:SHOWN] if path]
    more = rest_of(len(paths), SHOWN)
    line = f"{label}: {', '.join([*shown, *more])}" if shown else label
    if cells(line) <= room:
        return [indent + line]
    return [f"{indent}{label}:", *(f"{indent}  {each}" for each in [*shown, *more])]


def _settling(state: RunState) -> list[str]:
    """Return the commands that settle pending verdicts, once no other command can."""
    if not state.pending or state.status() not in ("finished", "cancelled"):
        return []
    found, command = pending_of(state.workers), f"  orchestrate integrate {state.run.id}"
    lines = []
    if found.asked:
        names = _named(found.asked, state)
        lines.append("settle what is pending: land the part inside its scope, or nothing of it")
        lines += [f"{command} --accept {names}", f'{command} --reject {names} --reason "..."']
    if found.outside:
        lines.append("nothing of these lies inside its scope: reject them, fix the tickets, run them again")
        lines.append(f'{command} --reject {_named(found.outside, state)} --reason "..."')
        lines.append(f"  {again(clean(state.phase), found.outside, state.workers)}")
    if found.held_up:
        names = _named(found.held_up, state)
        held = ["what is held up: land it once that is fixed, or nothing of it"]
        held += [command, f'{command} --reject {names} --reason "..."']
        lines = [*held, *lines] if found.mend_first else [*lines, *held]
    if any(called_by(names, state.workers)[1] for names in found[:3]):
        lines.append(f"more than {MOST_NAMED} wait: each such command settles the next ones")
    return lines


def _named(names: Sequence[str], state: RunState) -> str:
    return " ".join(called_by(names, state.workers)[0])


def _ended(event: WorkerEnded) -> str:
    summary = f'"{event.evidence.summary}"' if event.evidence.summary else ""
    parts = [event.reason or summary, _files(event.evidence.files), f"{event.evidence.seconds:.1f} s"]
    said = ", ".join(part for part in (*parts, *event.flags) if part)
    return f"{event.verdict}: {said}" if event.verdict else said


def _files(files: Sequence[str]) -> str:
    return count_of(len(files), "file") if files else ""
