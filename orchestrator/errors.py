"""Errors that end a command: a state file that cannot take a change, a command that will not go on."""

from tickets.problems import Problem, ProblemError

USAGE = 2
APPROVAL = 4
HELD = 5


class StateError(ProblemError):
    """A state file lacks what a change needs; nothing was changed."""


class Refusal(ProblemError):
    """Raised before anything was started or written by the command that it ends."""

    def __init__(self, *problems: Problem, exit_code: int = USAGE, next_action: str = "") -> None:
        super().__init__(*problems)
        self.exit_code = exit_code
        self.next_action = next_action
