"""What a state file cannot take."""

from tickets.problems import Problem


class StateError(Exception):
    """A state file that lacks what a change needs; carries every problem, and nothing was changed."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
