"""`wait RUN`: until a run ends, or until something new happens. Imports little: called often."""

import os
import time
from typing import Any

from orchestrator.commands._names import live_named
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.errors import Refusal
from orchestrator.runs.live import LiveRun
from orchestrator.runs.next_action import next_of_run, undone_problems
from orchestrator.runs.state import RunState
from tickets.problems import Problem
from tickets.value import Value
from workers.files.read import opened
from workers.files.run_dir import RunDir

LOOK = 0.05
"""Seconds between two polls of the journal and of the runtime's lock."""
TIMED_OUT = 1


class Arguments(Value):
    """The arguments of `wait`."""

    run: str
    timeout: float | None = None
    """Seconds to wait at most."""
    since: str | None = None
    """The cursor of an earlier answer: return as soon as something newer has happened."""


class WaitView(Value):
    """Values for the text beside the document."""

    state: RunState
    events: list[dict[str, Any]]


def call(caller: Caller, arguments: Arguments) -> Answer[WaitView]:
    """Wait, and return the state of the run and the way to continue."""
    live = live_named(repository_of(caller), arguments.run)
    events = [] if arguments.since is None else live.since(_offset(live.state.run, arguments.since))
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    timed_out = False
    while live.is_running and not (arguments.since and events):
        if until is not None and time.monotonic() >= until:
            timed_out = True
            break
        time.sleep(LOOK if until is None else max(0.0, min(LOOK, until - time.monotonic())))
        events += live.look()
    events += live.look()  # records appended just before the lock was released
    return _answer(live, events, timed_out=timed_out and not (arguments.since and events))


def _offset(run: RunDir, cursor: str) -> int:
    """Return the offset of a cursor: the beginning of a line in the journal."""
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
    what = f"`{cursor}` is not a cursor of run {run.id}"
    raise Refusal(
        Problem("--since", what, "take `cursor` from an earlier answer, or 0 for the beginning"),
        next_action=f"orchestrate wait {run.id}",
    )


def _answer(live: LiveRun, events: list[dict[str, Any]], *, timed_out: bool) -> Answer[WaitView]:
    state = live.state
    status, next_action, code = state.status(), next_of_run(state), 0
    problems: tuple[Problem, ...] = ()
    if status == "running":
        next_action = f"orchestrate wait {state.run.id} --since {live.cursor}"
        code = TIMED_OUT if timed_out else 0
    else:
        code = 1 if status not in ("integrated", "finished") or state.has_failures else 0
        problems = tuple(undone_problems(state.phase, state.workers, state.waits_for))
    document = {
        **state.document(next_action),
        "problems": [problem.as_json() for problem in problems],
        "cursor": str(live.cursor),
        "events": events,
    }
    return Answer(code, document, problems, WaitView(state, events))
