"""`orchestrate validate` on the command line."""

from typing import TYPE_CHECKING

from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.validate import ORDER, Arguments
from tickets.wording import count_of

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `validate`."""
    parser.add_argument("paths", nargs="*", metavar="PATH",
                        help="just these state files, templates or settings (default: all)")  # fmt: skip


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the answer as text."""
    found = answer.problems
    counts = ", ".join(count_of(sum(one.severity == grade for one in found), grade) for grade in ORDER)
    return with_ending([f"{count_of(len(answer.document['files']), 'file')}: {counts}"], answer)
