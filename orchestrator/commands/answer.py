"""The answer of a command: an exit code, one JSON document, and further values for its text."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from tickets.problems import Problem
from tickets.value import Value

View = TypeVar("View")
Other = TypeVar("Other")


class Answer(Value, Generic[View]):
    """One answer for programs and for people."""

    exit_code: int
    document: dict[str, Any]
    problems: tuple[Problem, ...]
    view: View
    """Typed values for the text, where the document alone is not enough."""
    refusal: bool = False
    """Whether the command was refused before it did anything."""

    @property
    def next_action(self) -> str:
        """Return the command to call next."""
        return str(self.document["next_action"])

    def showing(self, view: Other) -> "Answer[Other]":
        """Return the answer with the values that its text shows beside the document."""
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


def all_done(problems: Iterable[Problem], phase: str, next_action: str) -> Answer[None]:
    """Return the answer about a phase of which nothing is left to run."""
    said = answer(problems, next_action)
    document = {
        **_of_run(phase, "integrated"),
        "problems": said.document["problems"],
        "next_action": next_action,
    }
    return said._replace(document=document, refusal=True)


def refused(problems: Iterable[Problem], next_action: str, exit_code: int, *, of_run: bool) -> Answer[None]:
    """Return the answer of a refused command, in the form of its normal answer."""
    said = answer(problems, next_action)
    document = {**said.document, "ok": False}
    if of_run:
        document = {
            **_of_run(None, "refused"), "problems": document["problems"], "next_action": next_action,
        }  # fmt: skip
    return said._replace(exit_code=exit_code, document=document, refusal=True)


def _of_run(phase: str | None, status: str) -> dict[str, Any]:
    """Return the first keys of an answer about a run, where there is none."""
    return {
        "schema": 1, "run": None, "phase": phase, "status": status, "workers": [],
        "commit": {"landing": None, "state": None},
    }  # fmt: skip
