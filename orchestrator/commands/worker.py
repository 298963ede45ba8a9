"""`worker …`: a worker's own messages and plans, from its shell. Imports little: agents call it often."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from tickets.problems import Problem
from tickets.value import Value
from workers.messages.calls import CORRECT, as_read, told_by, usage
from workers.messages.calls import call as do_call
from workers.messages.delivery import MOST, News
from workers.messages.mailbox import Mailbox
from workers.messages.own_log import NotSentError
from workers.messages.record import log_name, participant
from workers.messages.roster import read_roster
from workers.messages.standing import ACK_LIMIT

PLACE = "orchestrate worker"
STDIN = "-"
_LARGEST = 1 << 20
"""Bytes that are read of a report, or of standard input."""
_CALLS = {
    "send": "send_message",
    "inbox": "inbox",
    "block": "blocker",
    "task": "task_progress",
    "note": "note",
    "phase-complete": "phase_complete",
    "report": "submit_report",
}
_STEPS = {"start": "plan_started", "complete": "plan_complete", "fail": "plan_failed"}


class Arguments(Value):
    """The arguments of `worker`; what an action does not have is None."""

    action: str
    text: str = ""
    """The message, the blocker's title, the task, the note; the file of a report."""
    to: str | None = None
    type: str | None = None
    re: str | None = None
    plan: str | None = None
    step: str | None = None
    """`start`, `complete`, `fail`."""
    wait: float | None = None
    open: bool = False
    body: str | None = None
    task: str | None = None
    attempted: str | None = None
    needs: str | None = None
    mode: str | None = None
    state: str | None = None
    note: str | None = None
    decision: str | None = None
    context: str | None = None
    summary: str | None = None
    reason: str | None = None


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Do a call of a worker; messages that `inbox` returns stay new until they were handed over."""
    return done(mailbox_of(caller, arguments), arguments)


def done(box: Mailbox, arguments: Arguments) -> Answer[None]:
    """Do a call on a mailbox. Raises Refusal for what no call takes."""
    name, given = _meant(arguments)
    if why := usage(name, given):
        raise Refusal(Problem(f"{PLACE} {arguments.action}", why, f"see `{PLACE} {arguments.action} --help`"))
    found = do_call(box, name, given)
    problems = [] if found["ok"] else [Problem(f"{PLACE} {arguments.action}", found["reason"], found["do"])]
    return answer(problems, **{key: one for key, one in found.items() if key != "ok"})


def mailbox_of(caller: Caller, arguments: Arguments) -> Mailbox:
    """Return the mailbox of the worker that this process belongs to. Raises Refusal outside of one."""
    said = caller.environ
    project, run, worker, log = (
        said.get(f"ORCHESTRATE_{name}", "") for name in ("PROJECT", "RUN", "WORKER", "MESSAGES")
    )
    me = participant(run, worker)
    if not worker or log != f"{project}/.taskers/messages/{log_name(me)}":
        problem = Problem(PLACE, "not inside a worker", "leads use `orchestrate msg`")
        raise Refusal(problem, next_action="orchestrate msg inbox")
    roster = read_roster(os.path.dirname(log), run)  # noqa: PTH120 - as the room of messages does it
    return Mailbox(
        log,
        roster.phase if roster else None,
        events="milestones" if said.get("ORCHESTRATE_EVENTS") == "milestones" else "transitions",
        on_blocker="pause" if (arguments.mode or said.get("ORCHESTRATE_ON_BLOCKER")) == "pause" else "skip",
        pause_limit=_seconds(said, "ORCHESTRATE_PAUSE_LIMIT") or 1800.0,
        deadline=_seconds(said, "ORCHESTRATE_DEADLINE"),
        is_phase_worker=roster is not None and roster.phase_worker == worker,
        ack_limit=_seconds(said, "ORCHESTRATE_ACK_LIMIT") or ACK_LIMIT,
    )


@contextmanager
def handing_over(box: Mailbox, found: Answer[None]) -> Iterator[tuple[Answer[None], str]]:
    """Yield a result to be printed, and acknowledge what it shows where the block ends well.

    That of `inbox` shows what is new now, also as text. That of a paused call shows the answer to it.
    """
    is_inbox = "messages" in found.document
    told = () if is_inbox else told_by(box, found.document)
    try:
        with box.delivering(MOST if is_inbox else 0, told) as news:
            yield (_with_news(box, found, news) if is_inbox else found), news.text
    except NotSentError as error:
        raise Refusal(Problem(PLACE, str(error), CORRECT), exit_code=1) from error


def _with_news(box: Mailbox, found: Answer[None], news: News) -> Answer[None]:
    shown = [as_read(box, one) for one in news.shown]
    return found._replace(document={**found.document, "messages": shown, "new": news.left})


def _meant(arguments: Arguments) -> tuple[str, dict[str, Any]]:
    """Return the call that is meant, and its input."""
    said, action = arguments, arguments.action
    text = _text(said.text) if action in ("send", "note") else said.text
    name = _STEPS[said.step or ""] if action == "plan" else _CALLS[action]
    inputs: dict[str, dict[str, Any]] = {
        "send": {"to": said.to, "body": text, "type": said.type, "re": said.re, "plan": said.plan},
        "inbox": {"wait": said.wait, "open": said.open},
        "block": {
            "title": text, "body": _text(said.body) or "", "plan": said.plan, "task": said.task,
            "attempted": said.attempted, "needs": said.needs,
        },
        "plan": {"plan": said.plan, "summary": said.summary, "reason": said.reason, "note": said.note},
        "task": {"plan": said.plan, "task": text, "state": said.state, "note": said.note},
        "note": {
            "text": text, "kind": "decision" if said.decision else "context", "title": said.decision,
            "context": said.context,
        },
        "phase-complete": {"summary": said.summary},
        "report": {"report": _report(text or STDIN)} if action == "report" else {},
    }  # fmt: skip
    given = inputs[action]
    return name, {key: one for key, one in given.items() if one is not None}


def _text(said: str | None) -> str | None:
    """Return a text, from standard input where `-` stands for it."""
    return _read(STDIN) if said == STDIN else said


def _report(path: str) -> Any:
    import json  # noqa: PLC0415 - the only place

    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError):
        do = "write one JSON object with the keys of the report"
        raise Refusal(Problem(path, "is not JSON", do)) from None


def _read(path: str) -> str:
    """Read a file, or standard input. Raises Refusal."""
    from workers.files.read import read_whole  # noqa: PLC0415 - only for a file

    try:
        data = sys.stdin.buffer.read(_LARGEST) if path == STDIN else read_whole(path, _LARGEST)
    except FileNotFoundError:
        raise Refusal(Problem(path, "there is no such file", "name the file of the report")) from None
    return data.decode("utf-8", "replace").removesuffix("\n")


def _seconds(said: Mapping[str, str], name: str) -> float | None:
    try:
        return float(said.get(name, ""))
    except ValueError:
        return None
