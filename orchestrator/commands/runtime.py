"""`_runtime RUN`: the runtime process that a detached command starts. Internal."""

import os
import signal
from functools import partial
from typing import NamedTuple

from orchestrator.commands._names import run_named
from orchestrator.commands._project import project_of
from orchestrator.commands._stages import finish
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.run import go_on
from orchestrator.runs.state import RunState


class Arguments(NamedTuple):
    """The arguments of `_runtime`."""

    run: str
    integrate: bool = False
    """Judge, land and record, too."""
    lock: int | None = None
    """The inherited descriptor that holds the run's lock."""


def call(caller: Caller, arguments: Arguments) -> Answer[RunState]:
    """Continue a run until its workers have ended, also when the terminal is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    project = project_of(caller)
    run = run_named(project.repository, arguments.run)
    if arguments.lock is not None:
        os.set_inheritable(arguments.lock, False)  # it ends with this process, whatever that has started
    work = partial(go_on, project, run, lock=arguments.lock, integrates=arguments.integrate)
    return finish(caller, project, work, expected=("finished", "integrated"))
