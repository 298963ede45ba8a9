"""Errors that end a command: a state file that cannot take a change, a command that is refused."""

from orchestrator.step import Step
from tickets.problems import Problem, ProblemError

USAGE = 2
APPROVAL = 4
HELD = 5


class StateError(ProblemError):
    """Raised where a state file lacks what a change needs; nothing was changed."""


class Refusal(ProblemError):
    """Raised to refuse a command, before it has started or written anything."""

    def __init__(self, *problems: Problem, exit_code: int = USAGE, next_action: Step = "") -> None:
        super().__init__(*problems)
        self.exit_code = exit_code
        self.next_action = next_action


class AllDone(Refusal):
    """Raised where all that a command was to run is done already: nothing is started, and nothing failed."""

    def __init__(self, problem: Problem, *, phase: str) -> None:
        super().__init__(problem, exit_code=0, next_action="orchestrate status")
        self.phase = phase
