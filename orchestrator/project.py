"""A repository as one command sees it: its settings, its environment, the clock, and the observers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from orchestrator.runs.events import Noted
from orchestrator.runs.state import RunState
from orchestrator.settings.settings import Settings
from tickets.problems import Problem
from tickets.value import Value
from workers.git.run import Repository

Tell = Callable[[Noted, RunState], None]
"""Shows an event of a run after it was noted."""
Clock = Callable[[], datetime]
Warn = Callable[[Sequence[Problem]], None]
"""Shows what a run is warned of before its first worker starts."""


class Project(Value):
    """The values that every stage of any run needs."""

    repository: Repository
    settings: Settings
    environ: Mapping[str, str]
    tell: Tell
    clock: Clock
    warn: Warn
