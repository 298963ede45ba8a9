"""`orchestrate msg` on the command line."""

import argparse
import sys
from typing import Any

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.msg import SENT, Arguments
from workers.messages.delivery import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    send = action("send", "send a message to a worker, or answer one")
    send.add_argument(
        "text", metavar="TEXT", help="what to say; `-` reads it from standard input", type=_text
    )
    send.add_argument("--to", metavar="NAME", help="a worker, `all`, a phase, or RUN.NAME")
    send.add_argument("--re", metavar="ID", help="the message that is answered; the end of its id is enough")
    send.add_argument("--type", choices=SENT, help="what it is (default: chat)")
    send.add_argument("--plan", metavar="P", help="the plan that it is about")
    inbox = action("inbox", "show what waits for the lead")
    inbox.add_argument("--peek", action="store_true", help="let it stay new")
    ack = action("ack", "close messages without an answer")
    ack.add_argument("ids", nargs="+", metavar="ID", help="their ids, or unique ends of them")
    ack.add_argument("--note", metavar="TEXT", help="why")
    log = action("log", "list messages for an audit")
    log.add_argument("run", nargs="?", metavar="RUN", help="of one run")
    log.add_argument("--with", dest="named", action="append", metavar="NAME",
                     help="from or to a participant; twice: between two")  # fmt: skip
    log.add_argument("--type", metavar="T", help="of one type")
    log.add_argument("--standing", metavar="S", help="new, shown, handled, answered, unacknowledged …")
    log.add_argument("--since", metavar="TIME", help="from a time on, as 2026-02-16T14:40:00Z")
    log.add_argument("--limit", type=int, metavar="N", help="the newest N (default: 1000); 0: all")
    for one in (send, inbox):
        one.add_argument("--run", metavar="RUN", help="of one run alone")
    for one in (send, inbox, ack):
        add_lead(one)


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    match arguments.action:
        case "send":
            sent = document["message"]
            more = "; its worker goes on with it" if document["resumes"] else ""
            return with_ending([f"{sent['id']} to {sent['to']}: {document['stands']}{more}"], answer)
        case "ack":
            return with_ending([f"{one['id']}: {one['stands']}" for one in document["acked"]], answer)
        case _:
            found = [line for one in document["messages"] for line in _message(one)]
            return with_ending(found or ["no messages"], answer)


def _message(one: dict[str, Any]) -> list[str]:
    head = f"{one['at'][:19]}Z  {one['from']} → {one['to']}  {one['type']}  {one['stands']}"
    title = [f"    {visible(one['facts']['title'])}"] if one["facts"].get("title") else []
    body = [f"    {line}" for line in visible(one["body"]).split("\n")]
    reply = [f"    answer: {one['answer_with']}"] if one.get("open") else []
    return [head, f"    id {one['id']}", *title, *body, *reply]


def _text(given: str) -> str:
    return sys.stdin.read() if given == "-" else given
