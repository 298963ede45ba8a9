"""`orchestrate checkpoint` on the command line."""

import argparse
from typing import Any

from orchestrator.cli.arguments import add_actions
from orchestrator.cli.options import add_lead
from orchestrator.cli.text import recorded_lines, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.checkpoint import Arguments
from orchestrator.state.checkpoints.form import STAGES, STANDINGS
from tickets.wording import count_of, some_of

SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    action = add_actions(parser)
    write = action("write", "note how far a piece of work has come")
    write.add_argument("feature", metavar="FEATURE", help="what is worked on")
    write.add_argument("--action", dest="said", required=True, metavar="TEXT", help="what was done last")
    write.add_argument("--phase", dest="stage", choices=STAGES, help="the stage of the work")
    write.add_argument("--status", choices=STANDINGS, help="how it stands (default: in_progress)")
    write.add_argument("--note", action="append", metavar="TEXT", help="a further note; may be repeated")
    show = action("show", "show one, with its notes")
    show.add_argument("feature", metavar="FEATURE", help="what is worked on")
    listed = action("list", "show what is not complete, the newest first")
    listed.add_argument("--all", action="store_true", help="complete ones, too")
    write.add_argument("--agent", metavar="NAME", help="who works on it (default: lead)")
    show.add_argument("--agent", metavar="NAME", help="whose, where several work on it")
    for one in (write, listed):
        one.add_argument("--team", metavar="PHASE", help="the phase of the project, as templates name it")
    add_lead(write)


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if arguments.action == "list":
        listed = [f"{_line(one)}\n    {one['last_action']}" for one in document["checkpoints"]]
        rest = document["counts"]["complete"]
        if rest and not arguments.all:
            listed.append(f"and {count_of(rest, 'complete one')} (--all)")
        text = [line for one in listed for line in one.split("\n")]
        return with_ending(text or ["there is none"], answer)
    one = document["checkpoint"]
    if arguments.action == "write":
        return recorded_lines([f"{one['path']}: {one['status']}: {one['last_action']}"], answer)
    notes = [
        f"  [{note['at']}] {note['text']}" if note["at"] else f"  {note['text']}" for note in one["notes"]
    ]
    return with_ending([f"{_line(one)} ({one['path']})", *notes, *_left_lines(one)], answer)


def _left_lines(one: dict[str, Any]) -> list[str]:
    """Return what a run here has of the work."""
    kept = one["kept"]
    if one["status"] == "complete":
        return [f"  done by {one['worker']} of run {one['run']}"] if kept else []
    if kept is None:
        return ["  no run here knows it: its notes are what is left"]
    files = f", {count_of(len(kept['files']), 'file')}" if kept["files"] else ""
    where = f" in {kept['worktree'] or kept['patch']}" if kept["worktree"] or kept["patch"] else ""
    lines = [f"  goes on from its {one['from']}: {one['worker']} of run {one['run']}{files}{where}"]
    if one["changed_since"]:
        lines.append(f"  changed since: {some_of(one['changed_since'], SHOWN)}")
    return lines


def _line(one: dict[str, str]) -> str:
    return f"{one['status']}: {one['feature']} by {one['agent']}, {one['phase']}, {one['updated']}"
