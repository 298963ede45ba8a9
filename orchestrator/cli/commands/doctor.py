"""`orchestrate doctor`: is there all that a run needs; looks and writes nothing."""

import argparse
import os
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.terminal.width import wrapped
from orchestrator.report.doctor import AgentFound, Examination, examine
from workers.git.run import find_repository


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `doctor` takes: nothing of its own."""


def answer(arguments: argparse.Namespace) -> Answer:
    """Examine, and say what would stop a run."""
    start = (arguments.project or Path.cwd()).absolute()
    repository = find_repository(start)
    found = examine(repository, start, dict(os.environ))
    is_bad = any(problem.severity == "error" for problem in found.problems)
    next_action = _next_action(found, is_bad=is_bad) if repository else "git init"
    project = str(repository.root) if repository else None
    document = envelope(found.problems, next_action, ok=not is_bad, project=project, **_document(found))
    lines = [clean(line) for line in _lines(found)]
    return Answer(1 if is_bad else 0, document, (*lines, *problem_lines(found.problems, next_action)))


def _next_action(found: Examination, *, is_bad: bool) -> str:
    if any("orchestrate init" in problem.do for problem in found.problems):
        return "orchestrate init"
    if is_bad:
        return "orchestrate doctor"
    waiting = [run for run in found.runs if run.status != "running"]
    if found.pending:
        return "orchestrate resume"
    return waiting[-1].next_action if waiting else "orchestrate status"


def _document(found: Examination) -> dict[str, Any]:
    return {
        "orchestrate": __version__,
        "python": found.python,
        "git": found.git or None,
        "agents": [one._asdict() for one in found.agents],
        "fence": found.fence._asdict(),
        "locks": {
            "store": "held" if found.store_locked else "free",
            "slots": [
                {"slot": one.slot, "run": one.holder.get("run"), "worker": one.holder.get("worker"),
                 "dirty": one.dirty}
                for one in found.slots
            ],
            "pending": list(found.pending),
        },
        "runs": [one._asdict() for one in found.runs],
        "disk": {"free_bytes": found.free},
    }  # fmt: skip


def _lines(found: Examination) -> list[str]:
    fence = found.fence
    taken = [
        f"{one.slot} ({one.holder.get('worker', '?')}{', dirty' if one.dirty else ''})" for one in found.slots
    ]
    return [
        f"orchestrate  {__version__}, Python {found.python}",
        f"git          {found.git or 'not installed'}",
        *(line for one in found.agents for line in _agent_lines(one)),
        f"fence        {fence.level}: {fence.reason}{', and this is root' if fence.root else ''}",
        f"store        {'held by another orchestrate' if found.store_locked else 'free'}",
        f"slots        {', '.join(taken) or 'all free'}",
        *(f"run          {one.run} ({one.phase}): {one.status}" for one in found.runs),
        f"disk         {found.free / 10**9:.1f} GB free",
    ]


def _agent_lines(one: AgentFound) -> list[str]:
    told = wrapped(one.config, " " * 13) if one.config and one.enabled else []
    return [f"{one.agent:<12} {_agent(one)}", *told]


def _agent(one: AgentFound) -> str:
    said = one.reason or "usable"
    where = f", {one.executable}" if one.executable else ""
    return f"{said}{f' ({one.version})' if one.version else ''}{where}"
