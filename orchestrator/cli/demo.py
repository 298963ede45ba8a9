"""`orchestrate demo` on the command line."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from orchestrator.cli.terminal.progress import run_lines
from orchestrator.cli.terminal.screen import on_screen
from orchestrator.cli.text import clean
from orchestrator.commands import demo
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.demo import FOLDER, Arguments
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.state import RunState
from orchestrator.step import step_lines
from tickets.wording import count_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `demo`."""
    # Without this default argparse would turn its mark for "not given" into a path.
    parser.add_argument("dir", nargs="?", type=Path, default=None, metavar="DIR",
                        help=f"a folder that is empty or not there yet (default: ./{FOLDER})")  # fmt: skip


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[RunState]:
    """Make the sample, report that, and run its phase."""
    folder = demo.make(caller, arguments)
    if not as_json:
        print(f"made {folder}: a package with faults, its tests, eight tickets\n", flush=True)
    return on_screen(demo.run_sample, caller, folder, as_json=as_json)


def lines(answer: Answer[RunState], _: Arguments) -> list[str]:
    """Return the answer as text: the run's, and the files to read."""
    document = answer.document
    look = _where_to_look(Path(document["project"]), document)
    # The next command is for the sample's own folder, as the lines above it are.
    return [*run_lines(answer)[:-1], *map(clean, look), *step_lines(next_of_run(answer.view))]


def _where_to_look(folder: Path, document: dict[str, Any]) -> tuple[str, ...]:
    here = Path.cwd()
    named = folder.relative_to(here) if folder.is_relative_to(here) else folder
    inside = ("", f"cd {shlex.quote(str(named))}")
    if document["status"] != "integrated":
        return inside
    made = document["deliverables"]
    complete = (
        f"complete: {count_of(len(made), 'deliverable')} ({', '.join(made)}); tests {document['tests']}"
    )
    return (
        *([complete] if made else []),
        *inside,
        "  git log --stat     a commit for each worker that changed something, then those of the state files",
        "  docs/faults.md     what was found, fixed and left: the eighth worker wrote it",
        "  STATUS.md          the state of the project; the eight workers are among its completions",
        f"  .taskers/runs/{document['run']}/",
        "                     each worker's ticket, output and changes",
    )
