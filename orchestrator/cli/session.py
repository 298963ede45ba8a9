"""`orchestrate session` on the command line."""

import argparse

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.session import Arguments, told
from tickets.wording import some_of

SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    start = action("start", "begin a session; the first change of a lead without one begins it, too")
    start.add_argument("--task", metavar="ID", help="its task (default: that of the active context)")
    note = action("note", "add an entry of your own")
    note.add_argument("text", nargs="*", metavar="TEXT", help="what was done or found out")
    note.add_argument("--title", metavar="TITLE", help="the entry's title (default: Note)")
    note.add_argument("--for-next", metavar="TEXT", help="what the next session is to know")
    end = action("end", "close the session")
    listed = action("list", "show the sessions, the newest first")
    for one in (note, end):
        one.add_argument("--summary", metavar="TEXT", help="what the session came to, in 1 to 3 sentences")
        one.add_argument("--session", metavar="ID", help="another session than the lead's open one")
    for one in (start, note, end, listed):
        add_lead(one)


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if arguments.action == "list":
        return with_ending([told(one) for one in document["sessions"]] or ["there is none"], answer)
    more = [f"{word}: {some_of(document[word], SHOWN)}" for word in ("closed", "archived") if document[word]]
    return recorded_lines([told(document["session"]), *more], answer)
