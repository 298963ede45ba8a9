"""`orchestrate demo [DIR]`: a sample repository and one phase of eight tickets, run as any other phase is."""

import argparse
import os
import shlex
from functools import partial
from pathlib import Path

from orchestrator.cli.answer import Answer
from orchestrator.cli.project import finish, lead_of, now, project_of
from orchestrator.demo.sample import LEAD, PHASE, make_sample
from orchestrator.prepare import Request
from orchestrator.run import run_phase
from orchestrator.state.facts import Facts

FOLDER = "orchestrate-demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `demo` takes."""
    parser.add_argument("dir", nargs="?", type=Path, default=Path(FOLDER), metavar="DIR",
                        help=f"a folder that is empty or not there yet (default: ./{FOLDER})")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Make the sample, run its phase, say where to look. Raises Refusal where DIR holds something."""
    folder = Path.cwd() / (arguments.project or "") / arguments.dir
    folder = Path(os.path.normpath(folder))
    facts = Facts(folder.name, LEAD, now(), "Repair", "The shop without faults")
    repository = make_sample(folder, facts, os.environ)
    project = project_of(argparse.Namespace(project=folder, json=arguments.json))
    if not arguments.json:
        print(f"made {folder}: a package with faults, its tests, eight tickets\n", flush=True)
    request = Request(phase=PHASE, lead=lead_of(arguments, repository))
    ended = finish(partial(run_phase, project, request))
    document = {**ended.document, "project": str(folder)}
    document["next_action"] = f"orchestrate status --project {shlex.quote(str(folder))}"
    # The last of a run's lines says what is next, as seen from inside its repository.
    lines = [line for line in ended.lines if not line.startswith("next: ")]
    return Answer(ended.exit_code, document, (*lines, *_where_to_look(folder, document)))


def _where_to_look(folder: Path, document: dict[str, object]) -> tuple[str, ...]:
    return (
        "",
        f"cd {shlex.quote(os.path.relpath(folder))}, and look at:",
        "  git log --stat            the landing commit, and the commit of the state files after it",
        "  docs/faults.md            what was found, mended and left, written by the eighth worker",
        "  STATUS.md                 where the project stands; the workers are among its completions",
        f"  .taskers/runs/{document['run']}/   what each worker was told, printed and changed",
        "then: orchestrate status, or orchestrate plan phase-1",
    )
