"""The beginning of an attempt: from nothing, in the thread of the one before it, or as a follow-up."""

from collections.abc import Sequence

from orchestrator.execute._claims import NO_CHANGES, missing_of
from orchestrator.runs.continued import Continued
from orchestrator.runs.events import Begin
from tickets.ticket import Ticket
from tickets.wording import rest_of
from workers.agents.agent import Answer
from workers.engine.job import Ended
from workers.engine.process import stopped_with_runtime

SHOWN = 20
"""How many paths a later attempt's prompt names; the worker can find the rest itself."""

FIRST = Begin()


def first_of(earlier: Continued | None) -> Begin:
    """Return the beginning of the first attempt: in an earlier run's thread, or with what it has left."""
    if earlier is None:
        return FIRST
    thread = earlier.thread
    return Begin("thread" if thread else "again", thread, earlier.reason, earlier.files[:SHOWN])


def going_on(ticket: Ticket, answer: Answer, reason: str, changed: Sequence[str] = ()) -> Begin:
    """Return the beginning after an attempt that did not reach its end: in its thread, where it has one."""
    thread = None if ticket.agent == "command" else answer.thread
    begin = Begin(
        "again", None, reason, tuple(changed[:SHOWN]), max(0, len(changed) - SHOWN), answer.text[-2000:]
    )
    if thread and "thread_lost" not in answer.flags:
        return begin._replace(kind="thread", thread=thread)
    return begin


def answered_by(ticket: Ticket, answer: Answer, reason: str, changed: Sequence[str], said: str) -> Begin:
    """Return the beginning after the lead has answered what a worker had ended with."""
    begin = going_on(ticket, answer, reason, changed)
    return begin._replace(kind="answered", answer=said)


def asked_for(ticket: Ticket, answer: Answer, *, changed: bool | None) -> Begin | None:
    """Return the follow-up for missing report parts; None where nothing is missing or it cannot be asked.

    `changed` is None where no change is asked for.
    """
    if ticket.agent == "command" or answer.ended != "success" or not answer.thread or answer.question:
        return None
    missing = missing_of(answer.text, changed=changed)
    return Begin("asked", answer.thread, ", ".join(missing)) if missing else None


def answered(before: Ended, after: Ended, *, changed: bool | None) -> Ended:
    """Return the answer that counts after a follow-up about a report: the new one where it lacks less.

    The result of the follow-up does not affect the work, which had ended well before.
    """
    ended, answer = after
    if ended.end == "cancelled" and not stopped_with_runtime(ended):
        return after
    if answer.ended == "success" and answer.text.strip():
        lacks, lacked = (len(missing_of(one.answer.text, changed=changed)) for one in (after, before))
        if lacks < lacked:
            return after
    return Ended(before.exit, before.answer._replace(usage=answer.usage))


def text_of(begin: Begin) -> str:
    """Return the text for a later attempt; empty for the first one."""
    answer = f"\nThe lead has answered it:\n\n{_quoted(begin.answer)}\n" if begin.answer else ""
    left = "\n".join(f"- `{path}`" for path in begin.changed)
    left += "".join(f"\n- {line}" for line in rest_of(begin.more, 0))
    match begin.kind:
        case "first":
            return ""
        case "thread":
            return (
                f"You were interrupted: {begin.reason}. Continue your ticket from where you were.\n"
                "The effect of your last tool call is not known: check the files before you build on them.\n"
                "End with the whole report, as the ticket asks for it.\n"
            )
        case "answered" if begin.thread:
            return (
                f"You had ended with: {begin.reason}.\n{answer}\n"
                "Continue your ticket with that, in the same files.\n"
                "End with the whole report, as the ticket asks for it.\n"
            )
        case "asked":
            return (
                f"Your report lacks: {begin.reason}.\n"
                "Change no more files. Answer again with the whole report, all of its sections,\n"
                "the last of them `## Status` with one word of COMPLETE, BLOCKED, NEEDS_CLARIFICATION.\n"
                f"If no file had to be changed, its Summary has a line `{NO_CHANGES}` with the reason.\n"
            )
        case "again" | "answered":
            return (
                "## Earlier Attempt\n\n"
                f"Another attempt has begun this ticket and did not finish it: {begin.reason}.\n"
                + (f"Its changes are in these files:\n\n{left}\n\n" if left else "It changed no file.\n")
                + "Read them first; keep what is right.\n"
                + (f"\nIts last message was:\n\n{_quoted(begin.said)}\n" if begin.said.strip() else "")
                + answer
            )


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())
