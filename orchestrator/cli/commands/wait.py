"""`orchestrate wait RUN`: until a run ends, or until something new happens. Imports little: asked often."""

import argparse
import os
import time
from typing import Any

from orchestrator.cli.answer import Answer, clean
from orchestrator.cli.calling import repository_of
from orchestrator.cli.names import live_named
from orchestrator.cli.terminal.progress import record_line, summary_lines
from orchestrator.errors import Refusal
from orchestrator.runs.live import LiveRun
from orchestrator.runs.next_action import undone_problems
from tickets.problems import Problem
from workers.files.read import opened
from workers.files.run_dir import RunDir

LOOK = 0.05
"""Seconds between two looks at the journal and at the runtime's lock."""
TIMED_OUT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `wait` takes."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds to wait at most; then exit 1")
    parser.add_argument(
        "--since", metavar="CURSOR", help="return as soon as there is something newer than this cursor"
    )


def answer(arguments: argparse.Namespace) -> Answer:
    """Wait, and say how the run stands and how to go on."""
    live = live_named(repository_of(arguments), arguments.run)
    events = [] if arguments.since is None else live.since(_offset(live.state.run, arguments.since))
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    timed_out = False
    while live.is_running and not (arguments.since and events):
        if until is not None and time.monotonic() >= until:
            timed_out = True
            break
        time.sleep(LOOK if until is None else max(0.0, min(LOOK, until - time.monotonic())))
        events += live.look()
    events += live.look()  # what was appended just before the lock was let go
    return _told(live, events, timed_out=timed_out and not (arguments.since and events))


def _offset(run: RunDir, cursor: str) -> int:
    """Read a cursor: a place in the journal, at the beginning of a line."""
    journal = run.path / "events.jsonl"
    offset = int(cursor) if cursor.isascii() and cursor.isdecimal() and len(cursor) < 19 else -1
    if offset == 0:
        return 0
    try:
        with os.fdopen(opened(journal), "rb") as file:
            file.seek(max(offset, 1) - 1)
            if offset > 0 and file.read(1) == b"\n":
                return offset
    except FileNotFoundError:
        pass
    what = f"`{clean(cursor)}` is no cursor of run {run.id}"
    raise Refusal(
        Problem("--since", what, "take `cursor` from an earlier answer, or 0 for the beginning"),
        next_action=f"orchestrate wait {run.id}",
    )


def _told(live: LiveRun, events: list[dict[str, Any]], *, timed_out: bool) -> Answer:
    state = live.state
    document = state.document()
    document["cursor"] = str(live.cursor)
    document["events"] = events
    status = document["status"]
    code = 0
    if status == "running":
        document["next_action"] = f"orchestrate wait {state.run.id} --since {live.cursor}"
        code = TIMED_OUT if timed_out else 0
    elif status not in ("integrated", "finished") or state.has_failures:
        code = 1
    problems = undone_problems(state.phase, state.workers, state.waits_for) if status != "running" else []
    document["problems"] = [problem.as_json() for problem in problems]
    lines = [line for record in events if (line := record_line(record, state))]
    if status == "running":
        ended = sum(worker.ended for worker in state.workers.values())
        lines.append(f"run {state.run.id} is running: {ended} of {len(state.workers)} tickets ended")
        lines.append(f"next: {document['next_action']}")
    else:
        lines += summary_lines(state, problems, document["next_action"])
    return Answer(code, document, tuple(lines))
