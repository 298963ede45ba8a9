"""The answer of a command: an exit code, one JSON document, and what a text shows beside it."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from tickets.problems import Problem
from tickets.value import Value

View = TypeVar("View")
Other = TypeVar("Other")


class Answer(Value, Generic[View]):
    """The same answer for a program and for a person."""

    exit_code: int
    document: dict[str, Any]
    problems: tuple[Problem, ...]
    view: View
    """Typed values that a text is made of, where the document alone does not do."""
    refusal: bool = False
    """Nothing was done."""

    @property
    def next_action(self) -> str:
        """Return the command that comes next."""
        return str(self.document["next_action"])

    def showing(self, view: Other) -> "Answer[Other]":
        """Return the answer with what a text shows beside the document."""
        return Answer(self.exit_code, self.document, self.problems, view, self.refusal)


def answer(problems: Iterable[Problem] = (), next_action: str = "", **keys: Any) -> Answer[None]:
    """Return an answer with a command's own keys; exit code and `ok` come from the problems."""
    found = tuple(problems)
    is_bad = any(problem.severity == "error" for problem in found)
    document = {
        "schema": 1,
        "ok": not is_bad,
        **keys,
        "problems": [problem.as_json() for problem in found],
        "next_action": next_action,
    }
    return Answer(1 if is_bad else 0, document, found, None)


def refused(problems: Iterable[Problem], next_action: str, exit_code: int, *, of_run: bool) -> Answer[None]:
    """Return the answer that nothing was done, in the form that the command would have answered in."""
    said = answer(problems, next_action)
    document = {**said.document, "ok": False}
    if of_run:
        document = {
            "schema": 1, "run": None, "phase": None, "status": "refused", "workers": [],
            "commit": {"landing": None, "state": None},
            "problems": document["problems"], "next_action": next_action,
        }  # fmt: skip
    return said._replace(exit_code=exit_code, document=document, refusal=True)
