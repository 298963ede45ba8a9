"""`integrate RUN`: judges the outputs, lands what is accepted, records it."""

from functools import partial
from typing import NamedTuple

from orchestrator.commands._names import judged, live_named, run_named
from orchestrator.commands._project import project_of
from orchestrator.commands._stages import finish
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.integrate.integrate import LeadDecision
from orchestrator.run import judge_run
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.state import RunState


class Arguments(NamedTuple):
    """The arguments of `integrate`."""

    run: str
    accept: tuple[str, ...] = ()
    """Workers whose changes land, as far as they are in scope."""
    reject: tuple[str, ...] = ()
    """Workers whose changes do not land."""
    reason: str = ""


def call(caller: Caller, arguments: Arguments) -> Answer[RunState]:
    """Integrate a run."""
    project = project_of(caller)
    read_manifest(run_named(project.repository, arguments.run))  # refuses one that it could not continue
    state = live_named(project.repository, arguments.run).state
    accept, reject = judged(state, arguments.accept), judged(state, arguments.reject)
    decision = LeadDecision(accept, reject, arguments.reason)
    return finish(caller, project, partial(judge_run, project, state.run, decision))
