"""`orchestrate fake-agent` on the command line."""

import argparse
import json
from pathlib import Path

from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.fake_agent import Arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `fake-agent`."""
    parser.add_argument(
        "dir", type=Path, metavar="DIR", help="the folder of the scripts; created if it does not exist"
    )


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the lines that a person adds to `orchestrate.toml`."""
    said = ["# in orchestrate.toml, which may have these sections already:"]
    for one in answer.document["agents"]:
        executable = json.dumps(one["executable"])
        said += ["", f"[agents.{one['agent']}]", "enabled = true", f"executable = {executable}"]
    return with_ending([*said, ""], answer)
