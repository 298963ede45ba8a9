"""`run PHASE`: deploys, waits, integrates; without a phase, continues the newest unfinished run."""

from functools import partial
from typing import NamedTuple

import anyio

from orchestrator.commands._detach import detach, taken_over
from orchestrator.commands._project import project_of, request_of
from orchestrator.commands._stages import finish, newest_unfinished
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.prepare.start import start_run
from orchestrator.report.checkpoints import has_template, read_checkpoints
from orchestrator.report.situation import Situation
from orchestrator.run import go_on, run_phase
from orchestrator.runs.next_action import quoted
from orchestrator.runs.state import RunState
from tickets.plan import OnOverlap
from tickets.problems import Problem


class Arguments(NamedTuple):
    """The arguments of `run`."""

    phase: str | None = None
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
    """Return at once; the run continues in the background, and lands."""


def call(caller: Caller, arguments: Arguments) -> Answer[RunState]:
    """Run a phase."""
    phase = arguments.phase
    if phase is None:
        project = project_of(caller)
        found = Situation(project.repository, caller.now())
        run = newest_unfinished(found)
        if run is None:
            return call(caller, arguments._replace(phase=_phase_cut_off(found), continues=True))
        if arguments.detach:
            return detach(taken_over(run), caller.environ, integrates=True)
        return finish(caller, project, partial(go_on, project, run))
    request = request_of(caller, phase, arguments)._replace(new=arguments.new, wait=arguments.wait)
    project = project_of(caller, request)
    if arguments.detach:
        return detach(anyio.run(start_run, project, request), caller.environ, integrates=True)
    return finish(caller, project, partial(run_phase, project, request))


def _phase_cut_off(situation: Situation) -> str:
    """Return the newest phase that can go on by itself. Raises Refusal, with what others need first."""
    root = situation.repository.root
    found = [
        one for one in read_checkpoints(situation.repository).open if one.team and has_template(root, one)
    ]
    for one in found:
        if one.status == "in_progress":
            return one.team
    do = "answer or mend it, then `orchestrate run {} --continue`"
    blocked = [
        Problem(one.path, f"{one.agent} is {one.status}: {one.last_action}", do.format(quoted(one.team)))
        for one in found
    ]
    nothing = Problem("run", "nothing is unfinished, and no phase was named", "name a phase")
    raise Refusal(*(blocked or [nothing]), next_action=situation.step.step)
