"""What a person sees while a run goes on and when it has ended: one line an event, then a summary."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.budget.totals import told_by
from orchestrator.cli.terminal.terminal import columns, say
from orchestrator.cli.terminal.width import cells, cut, shortened, wrapped
from orchestrator.cli.text import clean
from orchestrator.commands.answer import Answer
from orchestrator.runs.live import clock
from orchestrator.runs.pending import MOST_NAMED, again, called_by, pending_of
from orchestrator.runs.state import RunState
from tickets.problems import Problem

_WIDTH = 12
SHOWN = 3
"""How many paths a line names before it counts the rest."""


def tell_lines(record: Mapping[str, Any], state: RunState) -> None:
    """Print an event as it happens; those that say nothing to a person are passed over."""
    line = event_line(record, state)
    if line:
        say(line, sys.stdout)


def event_line(record: Mapping[str, Any], state: RunState) -> str | None:
    """Give an event as one line: time, what, who, and what matters of it."""
    worker = record.get("worker", "")
    text: str | None = None
    at = datetime.fromisoformat(record["at"])
    match record["event"]:
        case "started":
            again = f" (attempt {record['attempt']})" if record["attempt"] > 1 else ""
            text = _line("start", worker, state.titles[worker] + again)
        case "ended":
            text = _line(record["facts"]["outcome"], worker, _ended(record["facts"]))
        case "skipped":
            text = _line("skipped", worker, record["reason"])
        case "retry" | "afresh":
            text = _line("retry", worker, record["reason"])
        case "asked":
            text = _line("asked", worker, record["reason"])
        case "held" if record["at"] in state.workers[worker].get("held_news", ()):
            text = _line("waits", worker, record["reason"])
        case "warned":
            text = _line("warning", "", record["reason"])
        case "moved":
            text = _line("moved", worker, f"to {record['agent']}: {record['reason']}")
        case "parked":
            until = clock(datetime.fromisoformat(record["until"]), at)
            text = _line("parked", record["agent"], f"until {until}: {record['reason']}")
        case "checked" if not record["passed"]:
            text = _line("check failed", worker, record["command"])
        case "settled":
            text = _line(record["verdict"] or "no verdict", worker, record["reason"])
        case "gate":
            text = _line("gate", "", record["result"])
        case "landed":
            where = record["commit"][:10] if record["commit"] else "the work tree, not committed"
            count = len(record["workers"])
            who = record["workers"][0] if count == 1 else f"{count} workers"
            text = _line("landed", who, f"in {where}")
        case "closed":
            text = _line(record["status"], "", "")
    return cut(f"{clock(at, at)} {text}", columns()) if text else None


def _line(what: str, who: str, rest: str) -> str:
    return f"{what:<{_WIDTH}} {who:<17} {rest}".rstrip()


def run_lines(answer: Answer[RunState]) -> list[str]:
    """Return the answer about a run as text."""
    return summary_lines(answer.view, answer.problems, answer.next_action)


def summary_lines(state: RunState, problems: Sequence[Problem], next_action: str) -> list[str]:
    """Say what landed, what did not and why, what waits for a word, and the next command."""
    document = state.document()
    lines = ["", f"run {state.run.id} of {cut(state.phase, 30)}: {document['status']}"]
    for worker in document["workers"]:
        lines += _worker_lines(worker, state)
    lines.append("")
    landing, kept = document["commit"]["landing"], document["commit"]["state"]
    lines.append(f"landed:   {landing[:10] if landing else 'nothing'}")
    lines.append(f"recorded: {kept[:10] if kept else 'no commit'}")
    cost = told_by(state)
    if not cost.is_nothing:
        lines.append(f"spent:    {cost.in_words()}")
    lines.append(f"outputs:  {state.run.relative(state.run.path)}/")
    # What was skipped stands above already, with its reason.
    for problem in (problem for problem in problems if not problem.what.startswith("skipped: ")):
        lines += wrapped(f"{problem.severity}: {problem}", "  ", first="")
    lines += _settling(state)
    return [*lines, f"next: {clean(next_action)}"]


def _worker_lines(worker: Mapping[str, Any], state: RunState) -> list[str]:
    """Give a worker's line, and below it why: the reason, its files, the paths it should not have touched."""
    word = worker["verdict"] or worker["outcome"] or "not ended"
    head = f"  {word:<10}{worker['worker']:<18}"
    lines = [f"{head}{cut(state.titles[worker['worker']], columns() - cells(head))}".rstrip()]
    indent, room = " " * 12, columns() - 12
    outcome = worker["outcome"] if worker["outcome"] not in ("complete", "skipped", None) else ""
    reason = worker["reason"] if not worker["violations"] else ""
    said = ": ".join(part for part in (outcome, reason) if part)
    lines += wrapped(said, indent) if said else []
    if worker["files"]:
        label = f"{_files(worker['files'])} {'landed' if worker['worker'] in state.landings else 'in scope'}"
        lines += _paths(label, worker["files"], indent, room)
    kinds: dict[str, list[str]] = {}
    for violation in worker["violations"]:
        kinds.setdefault(violation["kind"], []).append(violation["path"])
    for kind, paths in kinds.items():
        lines += _paths(kind, paths, indent, room)
    if worker["flags"]:
        lines += wrapped(f"flags: {', '.join(worker['flags'])}", indent)
    return lines


def _paths(label: str, paths: Sequence[str], indent: str, room: int) -> list[str]:
    """Name some paths behind a label: on its line where they fit, else one a line."""
    shown = [shortened(path, room - 2) for path in paths[:SHOWN] if path]
    more = [f"and {len(paths) - SHOWN} more"] if len(paths) > SHOWN else []
    line = f"{label}: {', '.join([*shown, *more])}" if shown else label
    if cells(line) <= room:
        return [indent + line]
    return [f"{indent}{label}:", *(f"{indent}  {each}" for each in [*shown, *more])]


def _settling(state: RunState) -> list[str]:
    """Give the commands that settle what is pending, once nothing else can."""
    if not state.pending or state.status() not in ("finished", "cancelled"):
        return []
    found, command = pending_of(state.workers), f"  orchestrate integrate {state.run.id}"
    lines = []
    if found.asked:
        names = _named(found.asked, state)
        lines.append("settle what is pending: land the part inside its scope, or nothing of it")
        lines += [f"{command} --accept {names}", f'{command} --reject {names} --reason "..."']
    if found.outside:
        lines.append("nothing of these lies inside its scope: reject them, mend the tickets, run them again")
        lines.append(f'{command} --reject {_named(found.outside, state)} --reason "..."')
        lines.append(f"  {again(clean(state.phase), found.outside, state.workers)}")
    if found.held_up:
        names = _named(found.held_up, state)
        held = ["what is held up: land it once that is mended, or nothing of it"]
        held += [command, f'{command} --reject {names} --reason "..."']
        lines = [*held, *lines] if found.mend_first else [*lines, *held]
    if any(called_by(names, state.workers)[1] for names in found[:3]):
        lines.append(f"more than {MOST_NAMED} wait: each such command settles the next ones")
    return lines


def _named(names: Sequence[str], state: RunState) -> str:
    return " ".join(called_by(names, state.workers)[0])


def _ended(facts: Mapping[str, Any]) -> str:
    verdict = facts["verdict"] or ""
    parts = [facts["reason"], _files(facts.get("files", [])), f"{facts.get('seconds', 0.0):.1f} s"]
    return f"{verdict}: " + ", ".join(part for part in (*parts, *facts["flags"]) if part)


def _files(files: Sequence[str]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}" if files else ""
