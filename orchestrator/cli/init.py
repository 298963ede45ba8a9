"""`orchestrate init` on the command line."""

import argparse

from orchestrator.cli.options import add_lead
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.init import Arguments, Written
from orchestrator.state import built_families
from tickets.templates.render import FOLDER, is_template


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `init`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="turn every family of state files on")
    which.add_argument("--with", nargs="+", metavar="FAMILY", dest="families", default=(),
                       help=f"turn these on too: {', '.join(built_families())}")  # fmt: skip
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    add_lead(parser)


def lines(answer: Answer[tuple[Written, ...]], _: Arguments) -> list[str]:
    """Return the answer as text."""
    written, commit = answer.view, answer.document["commit"]
    said = [f"{'created' if one.created else 'completed':<10} {one.path}" for one in written]
    said = said or ["everything is there already; nothing was changed"]
    if commit:
        said.append(f"commit     {commit[:10]}")
    elif written:
        said.append("not committed")
    if any(is_template(one.path) and one.path.startswith(FOLDER) for one in written):
        said.append(
            "phase-1 is ready: `orchestrate plan phase-1` shows it, `orchestrate run phase-1` runs it"
        )
    return with_ending(said, answer)
