"""What a person sees while a run goes on and when it has ended: one line an event, then a summary."""

import sys
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.answer import clean, problem_lines
from orchestrator.runs import RunState
from tickets.problems import Problem

_WIDTH = 15


def tell_lines(record: Mapping[str, Any], state: RunState) -> None:
    """Print an event as it happens; those that say nothing to a person are passed over."""
    line = event_line(record, state)
    if line:
        print(line, flush=True)


def tell_nothing(record: Mapping[str, Any], state: RunState) -> None:
    """Print nothing: the answer comes as one document."""


def event_line(record: Mapping[str, Any], state: RunState) -> str | None:
    """Give an event as one line: time, what, who, and what matters of it."""
    worker = record.get("worker", "")
    text: str | None = None
    match record["event"]:
        case "started":
            again = f" (attempt {record['attempt']})" if record["attempt"] > 1 else ""
            text = _line("start", worker, state.titles[worker] + again)
        case "ended":
            text = _line(record["facts"]["outcome"], worker, _ended(record["facts"]))
        case "skipped":
            text = _line("skipped", worker, record["reason"])
        case "retry":
            text = _line("retry", worker, record["reason"])
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
    return f"{record['at'][11:19]}  {clean(text)}" if text else None


def summary_lines(state: RunState, problems: tuple[Problem, ...], next_action: str) -> list[str]:
    """Say what landed, what did not and why, and the next command."""
    document = state.document()
    lines = ["", f"run {state.run.id} ({state.phase}): {document['status']}"]
    for worker in document["workers"]:
        verdict = worker["verdict"] or ("" if worker["outcome"] else "not ended")
        parts = [verdict, worker["outcome"] or "", _files(worker["files"]), ", ".join(worker["flags"])]
        said = ", ".join(part for part in parts if part and part != verdict) if verdict else worker["outcome"]
        lines.append(clean(f"  {verdict or '-':<10} {worker['worker']:<17} {said}"))
        if worker["reason"]:
            lines.append(clean(f"  {'':<10} {'':<17} {worker['reason']}"))
    landing, kept = document["commit"]["landing"], document["commit"]["state"]
    lines.append(f"landing commit: {landing or 'none'}")
    lines.append(f"state commit:   {kept or 'none'}")
    usage = [worker["usage"] for worker in document["workers"]]
    tokens = sum(used["input_tokens"] + used["output_tokens"] for used in usage)
    if tokens:
        priced = [used["cost_usd"] for used in usage if used["cost_usd"] is not None]
        cost = f", {sum(priced):.2f} USD by those that say it" if priced else ""
        lines.append(f"tokens: {tokens:,}{cost}")
    lines += [f"outputs: {state.run.relative(state.run.path)}/"]
    return [*lines, *problem_lines(problems, next_action)]


def warn(problems: tuple[Problem, ...]) -> None:
    """Print problems on standard error, before anything starts."""
    for line in problem_lines(problems):
        print(line, file=sys.stderr, flush=True)


def _line(what: str, who: str, rest: str) -> str:
    return f"{what:<{_WIDTH}} {who:<17} {rest}".rstrip()


def _ended(facts: Mapping[str, Any]) -> str:
    verdict = facts["verdict"] or ""
    parts = [f"{facts.get('seconds', 0.0):.1f} s", _files(facts.get("files", [])), ", ".join(facts["flags"])]
    said = ", ".join(part for part in parts if part)
    return f"{verdict}: {said}" + (f": {facts['reason']}" if facts["reason"] else "")


def _files(files: list[str]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}" if files else ""
