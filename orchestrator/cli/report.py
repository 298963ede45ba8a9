"""`orchestrate report` on the command line."""

from typing import TYPE_CHECKING

from orchestrator.cli.options import add_checks
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.report import Arguments
from orchestrator.report.status_report import StatusReport
from orchestrator.report.text import text_of

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `report`."""
    parser.add_argument("--for", metavar="NAME", dest="reader", help="who reads it")
    parser.add_argument("--lead", help="who leads (default: git's user.name)")
    add_checks(parser, "run all checks first")


def lines(answer: Answer[StatusReport], _: Arguments) -> list[str]:
    """Return the answer as text."""
    written = answer.document["written"]
    kept = ["", f"written to {written}"] if written else []
    return with_ending([*text_of(answer.view).splitlines(), *kept], answer)
