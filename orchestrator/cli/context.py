"""`orchestrate context` on the command line."""

import argparse
from typing import Any

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.context import Arguments
from tickets.types import AGENTS
from tickets.wording import rest_of

SHOWN = 20
CLIS = tuple(name for name in AGENTS if name != "command")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    init = action("init", "write the active context, or what it lacks")
    init.add_argument("--full", action="store_true", help="all 23 sections with all keys")
    how = init.add_mutually_exclusive_group()
    how.add_argument("--complete", action="store_true", help="add the sections to a file of another shape")
    how.add_argument("--replace", action="store_true", help="move a file of another shape away")
    init.add_argument("--id", metavar="ID", help="the id of the task, as PARSER-001")
    sync = action("sync", "bring it up to date, and change keys")
    for name, purpose in (("set", "set a key"), ("add", "add an item"), ("drop", "drop an item of yours")):
        sync.add_argument(
            f"--{name}", action="append", metavar="KEY=TEXT", help=f"{purpose}; may be repeated"
        )
    sync.add_argument("--dry-run", action="store_true", help="show what would change")
    sync.add_argument("--no-commit", action="store_true", help="leave it to the next commit")
    show = action("show", "show it, by sections")
    show.add_argument("--section", metavar="NAME", help="one section, by its title or number")
    show.add_argument("--max-tokens", type=int, metavar="N", help="leave optional sections out until it fits")
    action("check", "check it: exit 1 if a point fails")
    switch = action("switch", "turn to another task: its sections return, those of this one are put aside")
    switch.add_argument("task", metavar="TASK_ID", help="a secondary task, or `new`")
    switch.add_argument("--reason", required=True, metavar="TEXT", help="why")
    switch.add_argument("--goal", metavar="TEXT", help="of a new task")
    switch.add_argument("--id", metavar="ID", help="of a new task, as PARSER-001")
    switch.add_argument("--force", action="store_true", help="also if another lead works on it")
    archive = action("archive", "put the task away for good, with an entry in the memory")
    archive.add_argument("--summary", metavar="TEXT", help="what was done (default: your items of `done`)")
    archive.add_argument(
        "--verified", metavar="TEXT", help="how it was verified (default: the last green build)"
    )
    archive.add_argument(
        "--next", dest="following", metavar="TASK_ID", help="the secondary task that follows"
    )
    for one in (switch, archive):
        one.add_argument("--no-commit", action="store_true", help="leave it to the next commit")
        add_lead(one)
    export = action("export", "show, or add, what makes a new session of a CLI begin with it")
    export.add_argument("--for", dest="agent", required=True, choices=CLIS, help="the CLI")
    export.add_argument("--write", action="store_true", help="add it to the file that the CLI reads")
    for one in (init, sync, export):
        add_lead(one)


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    match arguments.action:
        case "check":
            return with_ending(list(map(_point_line, document["points"])), answer)
        case "show":
            return with_ending(_shown(document), answer)
        case "export":
            where = (
                f"{document['file']} has it"
                if document["written"]
                else f"for {document['file']} (--write adds it):"
            )
            return with_ending([where, "", *document["text"].splitlines()], answer)
    context = document["context"]
    size = f"{context['tokens']} of {context['budget']} tokens"
    head = f"{context['path']}: {context['task_id']}: {context['goal']} ({size})"
    edits = [_edit_line(one) for one in document["edits"][:SHOWN]]
    edits += (f"  {more}" for more in rest_of(len(document["edits"]), SHOWN))
    if arguments.dry_run:
        return with_ending([head, *(edits or ["nothing would change"])], answer)
    return recorded_lines([head, *edits], answer)


def _point_line(one: dict[str, Any]) -> str:
    word = "ok" if one["ok"] else "info" if one["grade"] == "info" else "lack"
    return f"{word:<4} {one['number']:>2}  {one['point']}"


def _edit_line(one: dict[str, str]) -> str:
    where = f"{one['section']}.{one['key']}" if one["key"] else one["section"]
    return f"  {one['what']:<8} {where}" + (f": {one['text']}" if one["key"] or one["text"] != where else "")


def _shown(document: dict[str, Any]) -> list[str]:
    text = [f"{document['path']}: {document['tokens']} tokens"]
    for title, keys in document["sections"].items():
        text += ["", title]
        for name, said in keys.items():
            if isinstance(said, str):
                text.append(f"  {name}: {said}")
                continue
            text += [f"  {name}:{'' if said else ' none'}"] if name != "items" else []
            text += [f"    {one['text']}" + (f" ({one['source']})" if one["source"] else "") for one in said]
    for task in document["secondary"]:
        text += [
            "",
            f"secondary {task['task_id']} ({task['status']}): {task['goal']}",
            f"  next: {task['next']}",
        ]
    return text
