"""`orchestrate demo [DIR]`: a sample repository and one phase of eight tickets, run as any other phase is."""

import argparse
import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.cli.answer import Answer, clean
from orchestrator.cli.calling import now
from orchestrator.cli.project import finish, project_of
from orchestrator.commands.init import MESSAGE, files_to_write
from orchestrator.demo.sample import LEAD, PHASE, make_sample
from orchestrator.prepare.prepare import Request
from orchestrator.run import run_phase
from orchestrator.settings.settings import FILE
from orchestrator.state.facts import Facts
from orchestrator.store.store import Store

FOLDER = "orchestrate-demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `demo` takes."""
    parser.add_argument("dir", nargs="?", type=Path, default=Path(FOLDER), metavar="DIR",
                        help=f"a folder that is empty or not there yet (default: ./{FOLDER})")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Make the sample, run its phase, say where to look. Raises Refusal where DIR holds something."""
    folder = Path(os.path.normpath(Path.cwd() / (arguments.project or "") / arguments.dir))
    lead = os.environ.get("ORCHESTRATE_LEAD") or LEAD
    facts = Facts(folder.name, lead, now(), "Repair", "The shop without faults")
    sample = make_sample(folder, facts, os.environ)
    state = {one.path: one.text for one in files_to_write(facts, sample.there, sample.templates)}
    Store(sample.repository).write({**state, FILE: sample.settings}, message=MESSAGE, commit=True)
    project = project_of(argparse.Namespace(project=folder, json=arguments.json))
    if not arguments.json:
        print(f"made {folder}: a package with faults, its tests, eight tickets\n", flush=True)
    ended = finish(project, partial(run_phase, project, Request(phase=PHASE, lead=lead)))
    document = {**ended.document, "project": str(folder)}
    if document["next_action"]:
        # Whoever called us stands outside of the project that this is about.
        document["next_action"] += f" --project {shlex.quote(str(folder))}"
    *told, following = ended.lines or ("",)
    look = _where_to_look(folder, document)
    return Answer(ended.exit_code, document, (*told, *map(clean, look), following))


def _where_to_look(folder: Path, document: dict[str, Any]) -> tuple[str, ...]:
    here = Path.cwd()
    named = folder.relative_to(here) if folder.is_relative_to(here) else folder
    inside = ("", f"cd {shlex.quote(str(named))}")
    if document["status"] != "integrated":
        return inside
    return (
        *inside,
        "  git log --stat     the landing commit, and the commit of the state files after it",
        "  docs/faults.md     what was found, mended and left: the eighth worker wrote it",
        "  STATUS.md          where the project stands; the eight workers are among its completions",
        f"  .taskers/runs/{document['run']}/",
        "                     what each worker was told, what it printed and what it changed",
    )
