"""What is wrong with an input, as a value that names the place and the way out."""

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "info"]


class Problem(NamedTuple):
    """One thing wrong: `place: what; do`.

    `place` is a path relative to the repository's root, with `:LINE` where a line is known.
    `witness` is a path that two scopes share, where that is the problem.
    """

    place: str
    what: str
    do: str = ""
    severity: Severity = "error"
    witness: str | None = None

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return f"{self.place}: {self.what}" + (f"; {self.do}" if self.do else "")

    def as_json(self) -> dict[str, str]:
        """Return the object of the outside contract (design, section 8)."""
        found = {"place": self.place, "what": self.what, "do": self.do, "severity": self.severity}
        return found if self.witness is None else {**found, "witness": self.witness}


class ProblemError(Exception):
    """The base of errors about an input: carries every problem found, never just the first."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class TicketError(ProblemError):
    """Input that cannot become tickets."""


class MarkdownError(TicketError):
    """A document that cannot be read, or an edit that is refused; nothing has been changed."""
