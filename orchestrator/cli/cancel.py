"""`orchestrate cancel` on the command line."""

import argparse

from orchestrator.cli.terminal.terminal import columns
from orchestrator.cli.terminal.width import cut
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.cancel import Arguments
from tickets.wording import rest_of

SHOWN = 20
"""How many workers are shown before the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `cancel`."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    # With a default, argparse names the run alone where both are missing.
    just = "just these; without any, the whole run"
    parser.add_argument("workers", nargs="*", default=(), metavar="WORKER", help=just)


def lines(answer: Answer[str], _: Arguments) -> list[str]:
    """Return the answer as text."""
    document, what = answer.document, answer.view
    name, status = f"run {document['run']} of {document['phase']}", document["status"]
    said = [f"{what}; {name} continues" if status == "running" else f"{name} is {status}: {what}"]
    for one in document["workers"][:SHOWN]:
        reason = f": {one['reason']}" if one["reason"] else ""
        said.append(cut(f"  {one['worker']:<18}{one['state']}{reason}", columns()))
    said += [f"  {line}" for line in rest_of(len(document["workers"]), SHOWN)]
    return with_ending(said, answer)
