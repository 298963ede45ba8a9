"""`orchestrate handoff` on the command line."""

from typing import TYPE_CHECKING

from orchestrator.cli.options import add_checks
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.handoff import Arguments

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `handoff`."""
    parser.add_argument("--check", action="store_true", help="only show what a new lead would miss")
    parser.add_argument("--lead", help="who hands over (default: git's user.name)")
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    add_checks(parser, "run all checks first")


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    said = [f"[{'x' if one['ok'] else ' '}] {one['point']}" for one in document["points"]]
    if document["written"]:
        said += ["", f"written       {document['written']}"]
        said += [f"report        {document['report']}"] if document["report"] else []
        said.append(f"commit        {document['commit'][:10]}" if document["commit"] else "not committed")
    return with_ending(said, answer)
