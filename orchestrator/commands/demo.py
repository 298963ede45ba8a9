"""`demo [DIR]`: a sample repository and one phase of eight tickets, run like any other phase."""

import os
import shlex
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from orchestrator.commands import deliverable, msg
from orchestrator.commands._project import project_of
from orchestrator.commands._stages import finish
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.init import MESSAGE, files_to_write
from orchestrator.demo.sample import LEAD, PHASE, make_sample
from orchestrator.prepare.prepare import Request, finished_deliverables
from orchestrator.run import run_phase
from orchestrator.runs.next_action import STATUS
from orchestrator.runs.state import RunState
from orchestrator.settings.toml_text import FILE
from orchestrator.state.facts import Facts
from orchestrator.store.store import Store

FOLDER = "orchestrate-demo"
ANSWER = "No: fix the faults, and leave the rest to a person."
LOOK = 0.2
"""Seconds between two looks of the demo's lead for questions."""
Beside = Callable[[], Coroutine[Any, Any, None]]


class Arguments(NamedTuple):
    """The arguments of `demo`."""

    dir: Path = Path(FOLDER)
    """A folder that is empty or does not exist yet."""


def call(caller: Caller, arguments: Arguments) -> Answer[RunState]:
    """Make the sample and run its phase. Raises Refusal where DIR has content."""
    return run_sample(caller, make(caller, arguments))


def make(caller: Caller, arguments: Arguments) -> Path:
    """Make the repository with its two commits: the package, then what `init` writes. Raises Refusal."""
    folder = Path(os.path.normpath(caller.folder / arguments.dir))
    facts = Facts(folder.name, _name_of_lead(caller), caller.now(), "Repair", "The shop without faults")
    sample = make_sample(folder, facts, caller.environ)
    state = {one.path: one.text for one in files_to_write(facts, sample.there, sample.templates)}
    Store(sample.repository).write({**state, FILE: sample.settings}, message=MESSAGE, commit=True)
    return folder


def run_sample(caller: Caller, folder: Path) -> Answer[RunState]:
    """Run the phase of a new sample."""
    inside = caller._replace(folder=folder)
    inside = inside._replace(beside=partial(_lead, inside, caller.beside))
    project = project_of(inside)
    request = Request(phase=PHASE, lead=_name_of_lead(caller))
    ended = finish(inside, project, partial(run_phase, project, request))
    document = {**ended.document, "project": str(folder), "deliverables": [], "tests": ""}
    made = finished_deliverables(folder, PHASE) if not ended.exit_code else []
    if made:
        # As a lead does who follows the next action.
        done = deliverable.call(inside, deliverable.Arguments("done", finished=True))
        tests = done.document["progress"]["Tests"]
        document |= {"deliverables": made, "tests": tests, "problems": [], "next_action": STATUS}
        ended = ended._replace(problems=())
    if document["next_action"]:
        # The caller is outside the project of this command.
        document["next_action"] += f" --project {shlex.quote(str(folder))}"
    return ended._replace(document=document)


async def _lead(caller: Caller, beside: Beside | None) -> None:
    """Be the lead while the phase runs: answer the workers' questions."""
    async with anyio.create_task_group() as group:
        if beside is not None:
            group.start_soon(beside)
        while True:
            await anyio.sleep(LOOK)
            await anyio.to_thread.run_sync(_answer_questions, caller)


def _answer_questions(caller: Caller) -> None:
    found = msg.call(caller, msg.Arguments("inbox"))
    if found.then is not None:
        found.then()
    for one in found.document["messages"]:
        if one["open"]:
            msg.call(caller, msg.Arguments("send", ANSWER, re=one["id"]))


def _name_of_lead(caller: Caller) -> str:
    return caller.environ.get("ORCHESTRATE_LEAD") or LEAD
