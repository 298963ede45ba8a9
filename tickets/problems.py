"""One problem of an input, as a value: where it is, what is wrong, and what to do."""

from typing import Literal

from tickets.value import Value

Severity = Literal["error", "warning", "info"]


class Problem(Value):
    """A problem of an input: `place: what; do`.

    `place` is a path relative to the repository's root, with `:LINE` where a line is known.
    `witness` is a path that two scopes share, where that is the problem.
    """

    place: str
    what: str
    do: str = ""
    severity: Severity = "error"
    witness: str | None = None

    def __str__(self) -> str:
        """Return the line that is shown to a person."""
        return f"{self.place}: {self.what}" + (f"; {self.do}" if self.do else "")

    def as_json(self) -> dict[str, str]:
        """Return the JSON object of the documented output."""
        found = {"place": self.place, "what": self.what, "do": self.do, "severity": self.severity}
        return found if self.witness is None else {**found, "witness": self.witness}


class ProblemError(Exception):
    """Base class of errors about an input: carries every problem found, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class TicketError(ProblemError):
    """Raised for input that cannot become tickets."""


class MarkdownError(TicketError):
    """Raised for a document that cannot be read or an edit that is refused; nothing has been changed."""
