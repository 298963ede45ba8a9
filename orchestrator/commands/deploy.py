"""`deploy PHASE`: render, prove, start; `integrate` judges and lands later."""

from functools import partial
from typing import NamedTuple

import anyio

from orchestrator.commands._detach import detach
from orchestrator.commands._project import project_of, request_of
from orchestrator.commands._stages import finish
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.prepare.start import start_run
from orchestrator.run import deploy_phase
from orchestrator.runs.state import RunState
from tickets.plan import OnOverlap


class Arguments(NamedTuple):
    """The arguments of `deploy`."""

    phase: str
    only: tuple[str, ...] = ()
    """Just these tickets."""
    again: bool = False
    """Run also tickets that are done."""
    continues: bool = False
    """Only what is unfinished, from what earlier runs have left of it."""
    new: bool = False
    """Start also if a run of the phase is unfinished."""
    strict_agents: bool = False
    """Refuse if an agent is missing or off."""
    on_overlap: OnOverlap = "refuse"
    wait: float = 0.0
    """Seconds to wait for scopes that other runs hold."""
    detach: bool = False
    """Return at once; the run continues in the background."""


def call(caller: Caller, arguments: Arguments) -> Answer[RunState]:
    """Deploy a phase."""
    phase = arguments.phase
    request = request_of(caller, phase, arguments)._replace(new=arguments.new, wait=arguments.wait)
    project = project_of(caller, request)
    if arguments.detach:
        return detach(anyio.run(start_run, project, request), caller.environ, integrates=False)
    return finish(caller, project, partial(deploy_phase, project, request), ("finished", "integrated"))
