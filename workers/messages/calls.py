"""The calls of a worker, with one result each: by the tools of its server, and by `orchestrate worker`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workers.messages.delivery import news_of, without_secrets
from workers.messages.mailbox import Mailbox
from workers.messages.own_log import NotSentError
from workers.messages.record import COORDINATOR, milliseconds, split
from workers.messages.standing import Message
from workers.messages.tool_schemas import TOOLS, Tool, complaints

QUICK, USUAL, VERIFYING = 0.5, 2.0, 30.0
"""The most seconds that a call waits for a receipt: of a person or an agent, of the coordinator, and of it
where it verifies a plan first."""
BEFORE_END = 120.0
"""Seconds before the ticket's timeout at which a paused worker goes on, to write its report."""

UNHEARD = "not yet acknowledged; it is in your log and will be handled, go on"
UNANSWERED = "no answer yet: go on with other tasks, or end with BLOCKED; you will be resumed with the answer"
CORRECT = "nothing was written; mend what the reason names and call again, or go on without"

Result = dict[str, Any]
Given = Mapping[str, Any]


class Desk:
    """What a worker's server serves: its calls and its news."""

    def __init__(self, box: Mailbox) -> None:
        self._box = box

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools, as `tools/list` has them."""
        return [tool.listed() for tool in offered(self._box)]

    def call(self, name: str, given: Given) -> Result:
        """Do a call. Raises KeyError for an unknown name."""
        return call(self._box, name, given)

    def deliver(self, found: Result, hand_over: Callable[[str], None]) -> None:
        """Hand over the text of what is new beside a result, empty where nothing is, and acknowledge both."""
        with self._box.delivering(told=told_by(self._box, found)) as news:
            if "messages" in found:
                # A hook of a call beside this one may have shown some meanwhile.
                known = {one.record.id for one in news.known}
                found["messages"] = [one for one in found["messages"] if one["id"] in known]
            hand_over(news.text)

    def resend(self) -> bool:
        """Send again what is due; return whether more may become due."""
        self._box.catch_up()
        return self._box.is_unheard()


class _Sent(NamedTuple):
    """A message that was sent, and what its sender is told to do once it has a receipt."""

    message: Message
    do: str
    answer: str | None = None
    reason: str = ""
    """What is to be said beside a receipt that is none of refusal."""


def told_by(box: Mailbox, found: Result) -> list[str]:
    """Return the ids of the messages that a result shows; one is the answer that a paused call waited for."""
    asked = box.book.get(found["id"]) if found.get("answer") is not None else None
    answers = [asked.answers[0].id] if asked else []
    return [*answers, *(one["id"] for one in found.get("messages", ()))]


def offered(box: Mailbox) -> list[Tool]:
    """Return the tools that a worker has."""
    return [tool for tool in TOOLS if not _why_not(box, tool)]


def call(box: Mailbox, name: str, given: Given) -> Result:
    """Do a call; return its result, also where nothing could be sent. Raises KeyError for an unknown name."""
    tool, function = _TABLE[name]
    if why := _why_not(box, tool) or usage(name, given):
        return _not_sent(box, why)
    try:
        found = function(box, given)
    except NotSentError as error:
        return _not_sent(box, str(error))
    return _result(box, found) if isinstance(found, _Sent) else found


def usage(name: str, given: Given) -> str:
    """Return what is wrong with the input of a call; empty where nothing is."""
    return "; ".join(complaints(_TABLE[name][0].schema(), given))


def _why_not(box: Mailbox, tool: Tool) -> str:
    if tool.is_of_phase and not box.is_phase_worker:
        return f"{tool.name} is for the phase worker, and you are none"
    if tool.is_of_transitions and box.events != "transitions":
        return f"{tool.name} is not used here: only milestones are reported"
    return ""


def _send_message(box: Mailbox, given: Given) -> _Sent:
    to = box.receiver(given["to"])
    asked = box.named(given["re"]) if given.get("re") else None
    kind = given.get("type") or ("answer" if asked else "chat")
    if kind == "answer" and asked is None:
        raise NotSentError("an answer needs `re`, the id of what it answers")
    if kind == "answer" and asked is not None and asked.sender != to:
        raise NotSentError(f"{asked.id} is from {asked.sender}; send the answer there")
    plan = given.get("plan") or (asked.plan if asked and kind == "answer" else None)
    message = box.send(kind, to, given["body"], plan=plan, re=asked)
    if not message.is_to_all:
        _settle(box, message, USUAL if split(to)[1] == COORDINATOR else QUICK)
    return _Sent(message, "go on; the answer will reach you" if kind == "question" else "go on")


def _blocker(box: Mailbox, given: Given) -> _Sent:
    facts = {
        "title": " ".join(given["title"].split()),
        "task": given.get("task"),
        "attempted": given.get("attempted", ""),
        "needs": given.get("needs", ""),
        "mode": box.on_blocker,
    }
    message = box.send("blocker", body=given["body"], facts=facts, plan=given.get("plan"))
    if box.on_blocker == "pause":
        return _paused(box, message)
    _settle(box, message, USUAL)
    pointer = _said(message, "pointer")
    name = pointer.rpartition("#")[2].upper() if pointer and "#" in pointer else ""
    recorded = f"recorded as {name}" if name else "recorded"
    return _Sent(
        message, f"{recorded}; go on with the next task that does not need it, the answer will reach you"
    )


def _paused(box: Mailbox, message: Message) -> _Sent:
    """Wait for the answer to a blocker; a request to leave the plan ends the wait, too."""
    limit = box.pause_limit
    if box.deadline is not None:
        limit = min(limit, box.deadline - BEFORE_END - box.clock())
    box.catch_up()
    before = {one.record.id for one in box.new()}

    def is_over() -> bool:
        called_off = (one for one in box.new() if one.record.type == "cancel" and one.record.id not in before)
        return not message.is_open or any(called_off)

    box.wait_until(is_over, max(limit, USUAL))
    if message.answers:
        return _Sent(message, "go on with the answer", without_secrets(message.answers[0].body))
    if any(ack.how == "handled" for ack in message.acks) and not message.is_open:
        return _Sent(message, "closed without an answer: go on as you think best")
    return _Sent(message, UNANSWERED)


def _submit_report(box: Mailbox, given: Given) -> _Sent:
    report = given["report"]
    message = box.send("report", facts={"report": report})
    part = {"BLOCKED": "blocked", "NEEDS_CLARIFICATION": "clarification"}.get(report["status"])
    lacks = f"it says {report['status']} without `{part}`" if part and not report.get(part) else ""
    return _Sent(message, "it counts where your final answer holds no report", reason=lacks)


def _plan_started(box: Mailbox, given: Given) -> _Sent:
    return _told(box, "plan_started", given.get("note", ""), "go on with it", plan=given["plan"])


def _plan_complete(box: Mailbox, given: Given) -> _Sent:
    do = "go on with the next plan, or call phase_complete after the last"
    return _told(box, "plan_complete", given["summary"], do, plan=given["plan"], seconds=VERIFYING)


def _plan_failed(box: Mailbox, given: Given) -> _Sent:
    facts, do = {"state": "failed"}, "go on with what does not need it; plan_started tries it again"
    return _told(box, "error", given["reason"], do, facts=facts, plan=given["plan"])


def _task_progress(box: Mailbox, given: Given) -> _Sent:
    facts = {"task": given["task"], "state": given["state"]}
    return _told(box, "task_progress", given.get("note", ""), "go on", facts=facts, plan=given["plan"])


def _note(box: Mailbox, given: Given) -> _Sent:
    if given["kind"] == "context":
        return _told(box, "state_change", "", "go on", facts={"context": given["text"]})
    title, context = (given.get(key, "").strip() for key in ("title", "context"))
    if not title or not context:
        raise NotSentError("a decision needs `title` and `context`")
    decision = {"title": " ".join(title.split()), "context": context, "decision": given["text"]}
    return _told(box, "state_change", "", "go on", facts={"decision": decision})


def _phase_complete(box: Mailbox, given: Given) -> _Sent:
    return _told(box, "phase_complete", given["summary"], "end with your report")


def _told(
    box: Mailbox,
    kind: str,
    body: str,
    do: str,
    *,
    facts: Mapping[str, Any] | None = None,
    plan: str | None = None,
    seconds: float = USUAL,
) -> _Sent:
    """Report something to the coordinator, and wait for its receipt."""
    message = box.send(kind, body=body, facts=facts, plan=plan)
    _settle(box, message, seconds)
    return _Sent(message, do)


def _settle(box: Mailbox, message: Message, seconds: float) -> None:
    """Wait for a word of the receiver: that the lead has seen it, too, is none of the coordinator's."""
    over = ("answered", "refused", "undeliverable", "handled")
    to = message.record.to
    box.wait_until(lambda: message.was_received_by(to) or box.stands(message) in over, seconds)


def _inbox(box: Mailbox, given: Given) -> Result:
    box.wait_until(lambda: bool(box.new()), given.get("wait", 0))
    shown = news_of(box.new(), box.participant).shown
    me = box.participant
    owed = [one for one in box.book if one.is_open and me in (one.record.to, one.record.sender)]
    return {
        "ok": True,
        "messages": [as_read(box, one) for one in shown],
        "open": [as_read(box, one) for one in owed] if given.get("open") else [],
        "do": "go on",
        "new": len(box.new()) - len(shown),
        "unacknowledged": box.unacknowledged(),
    }


def as_read(box: Mailbox, message: Message) -> Result:
    """Return a message as a reader of its own gets it; the state of its sender is not known here."""
    keys = message.record.as_json()
    return {
        **without_secrets({name: keys[name] for name in keys if name not in ("v", "try")}),
        "stands": box.stands(message),
        "open": message.is_open,
        "seconds": round(box.clock() - milliseconds(message.record.at) / 1000, 1),
        "worker_state": None,
    }


def _result(box: Mailbox, sent: _Sent) -> Result:
    message = sent.message
    stands = box.stands(message)
    refusals = [
        ack.reason for ack in message.acks if ack.how == stands and ack.how in ("refused", "undeliverable")
    ]
    do, answer_ids = sent.do, [one.id for one in message.answers[:1] if sent.answer is not None]
    if refusals:
        do = "nothing has changed; mend what the reason names, or go on without"
    elif stands in ("new", "unacknowledged") and message.record.type != "report" and sent.do != UNANSWERED:
        do = UNHEARD
    return {
        "ok": not refusals,
        "id": message.record.id,
        "to": message.record.to,
        "receipt": stands,
        "reason": refusals[0] if refusals else sent.reason,
        "answer": sent.answer,
        "pointer": _said(message, "pointer"),
        "commit": _said(message, "commit"),
        "do": do,
        "new": sum(one.record.id not in answer_ids for one in box.new()),
        "unacknowledged": box.unacknowledged(),
    }


def _not_sent(box: Mailbox, why: str) -> Result:
    return {
        "ok": False,
        **dict.fromkeys(("id", "to", "receipt")),
        "reason": why,
        **dict.fromkeys(("answer", "pointer", "commit")),
        "do": CORRECT,
        "new": len(box.new()),
        "unacknowledged": box.unacknowledged(),
    }


def _said(message: Message, fact: str) -> str | None:
    """Return what the newest receipt says that names a fact."""
    found = [ack.facts[fact] for ack in message.acks if isinstance(ack.facts.get(fact), str)]
    return found[-1] if found else None


_TABLE: dict[str, tuple[Tool, Callable[[Mailbox, Given], _Sent | Result]]] = dict(
    zip(
        (tool.name for tool in TOOLS),
        zip(
            TOOLS,
            (
                _send_message, _inbox, _blocker, _submit_report, _plan_started, _plan_complete, _plan_failed,
                _task_progress, _note, _phase_complete,
            ),
            strict=True,
        ),
        strict=True,
    )
)  # fmt: skip
