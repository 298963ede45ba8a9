"""A command that will not go on: every problem, the exit code, and what to do next."""

from tickets.problems import Problem

USAGE = 2
APPROVAL = 4
HELD = 5


class Refusal(Exception):
    """Raised before anything was started or written by the command that it ends."""

    def __init__(self, *problems: Problem, exit_code: int = USAGE, next_action: str = "") -> None:
        self.problems = problems
        self.exit_code = exit_code
        self.next_action = next_action
        super().__init__("\n".join(str(problem) for problem in problems))
