"""`wait RUN`: until a run ends, or until something new happens. Imports little: called often.

In its brief form an answer has what changed, so that a lead can wait for a whole phase in few words.
"""

import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from orchestrator.commands._completion import completion_of
from orchestrator.commands._names import live_named
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.errors import Refusal
from orchestrator.runs.inbox import InboxReader
from orchestrator.runs.live import STAGES, LiveRun
from orchestrator.runs.next_action import STATUS, next_of_run, run_problems, wait_for
from orchestrator.runs.state import RunState
from orchestrator.step import step_keys
from tickets.problems import Problem
from tickets.value import Value
from workers.files.read import opened
from workers.files.run_dir import RunDir

LOOK = 0.05
"""Seconds between two polls of the journal and of the runtime's lock."""
GATHER = 1.0
"""Seconds that a brief answer waits for more, once there is news: workers often end at the same time."""
NEWS = frozenset(("ended", "skipped", "settled", "parked", "landed", "gate", "closed", "warned"))
"""Events for which a brief answer comes before the end: each start of a worker would be an answer."""
_LINE = 100
"""Characters of a worker's line."""


class Arguments(Value):
    """The arguments of `wait`."""

    run: str
    timeout: float | None = None
    """Seconds to wait at most."""
    since: str | None = None
    """The cursor of an earlier answer: return as soon as something newer has happened."""
    brief: bool | None = None
    """Answer with what changed; None: where there is a cursor."""


class WaitView(Value):
    """Values for the text beside the document."""

    state: RunState
    events: list[dict[str, Any]]


def call(caller: Caller, arguments: Arguments) -> Answer[WaitView]:
    """Wait, and return the state of the run and the way to continue."""
    return wait(caller, arguments, lambda: False)


def wait(caller: Caller, arguments: Arguments, is_stopped: Callable[[], bool]) -> Answer[WaitView]:
    """Wait as `call`, at most until something has stopped it: what has changed is told all the same."""
    live = live_named(repository_of(caller), arguments.run)
    is_brief = arguments.since is not None if arguments.brief is None else arguments.brief
    events = [] if arguments.since is None else live.since(_offset(live.state.run, arguments.since))
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    inbox = InboxReader(live.state.run.root, [live.state])
    inbox.read(caller.now().timestamp())
    # A worker may wait for the answer.
    while live.is_running and not live.state.inbox.new and not is_stopped():
        now = time.monotonic()
        if until is not None and now >= until:
            break
        if arguments.since and (events if not is_brief else any(one["event"] in NEWS for one in events)):
            if not is_brief:
                break
            until = min(until, now + GATHER) if until else now + GATHER
        time.sleep(LOOK if until is None else max(0.0, min(LOOK, until - now)))
        events += live.look()
        inbox.read(caller.now().timestamp())
    events += live.look()  # records appended just before the lock was released
    return _answer(live, events, caller.now(), is_brief=is_brief)


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
        next_action=wait_for(run),
    )


def _answer(
    live: LiveRun, events: list[dict[str, Any]], now: datetime, *, is_brief: bool
) -> Answer[WaitView]:
    state = live.state
    status, code = state.status(), 0
    problems: tuple[Problem, ...] = ()
    if status != "running":
        code = 1 if status not in ("integrated", "finished") or state.has_failures else 0
        problems = tuple(run_problems(state))
    step = next_of_run(state, now)
    if step == STATUS:
        step = completion_of(state) or step
    if is_brief:
        changed = dict.fromkeys(one["worker"] for one in events if one.get("worker") in state.workers)
        counts = {standing: count for standing, count in state.counts.items() if count}
        document = {
            "schema": 1, "run": state.run.id, "status": status, "counts": counts,
            "changed": [_changed(live, name) for name in changed],
        }  # fmt: skip
        if state.stage in STAGES:
            document["stage"] = state.stage
        if parked := state.parked_at(now):
            document["parked"] = parked
        if state.landing:
            document["landed"] = state.landing
        if any(state.inbox.counts().values()):
            document["messages"] = state.inbox.counts()
    else:
        document = {**state.document(step), "stage": state.stage, "events": events}
    document |= {
        "problems": [problem.as_json() for problem in problems],
        "cursor": str(live.cursor),
    }
    return Answer(code, document | step_keys(step), problems, WaitView(state, events))


def _changed(live: LiveRun, name: str) -> dict[str, str]:
    """Return a worker that something happened to: what it is now, and its one line."""
    worker = live.state.workers[name]
    is_ = worker.verdict or worker.outcome or ("running" if worker.started else "waiting")
    line = (worker.reason or worker.evidence.summary) if worker.ended else worker.held
    return {"worker": name, "state": is_, "line": line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"}
