"""The answer of a command: an exit code, one JSON document, and further values for its text."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from orchestrator.step import Step, Waits, step_keys
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
    then: Callable[[], None] | None = None
    """What is to be done once the answer was printed: what nobody has read stays as it was."""

    @property
    def step(self) -> Step:
        """Return the next step."""
        said = self.document
        if said["next_action"] is None:
            return Waits(said["waiting_for"], said["what"], said.get("when_approved", ""))
        return str(said["next_action"])

    def with_step(self, step: Step) -> "Answer[View]":
        """Return the answer with another next step."""
        rest = {key: value for key, value in self.document.items() if key not in _STEP}
        return self._replace(document={**rest, **step_keys(step)})

    def showing(self, view: Other) -> "Answer[Other]":
        """Return the answer with the values that its text shows beside the document."""
        return Answer(self.exit_code, self.document, self.problems, view, self.refusal, self.then)


_STEP = ("next_action", "waiting_for", "what", "when_approved")


def answer(problems: Iterable[Problem] = (), next_action: Step = "", **keys: Any) -> Answer[None]:
    """Return an answer with a command's own keys; exit code and `ok` come from the problems."""
    found = tuple(problems)
    is_bad = any(problem.severity == "error" for problem in found)
    document = {
        "schema": 1,
        "ok": not is_bad,
        **keys,
        "problems": [problem.as_json() for problem in found],
        **step_keys(next_action),
    }
    return Answer(1 if is_bad else 0, document, found, None)


def all_done(problems: Iterable[Problem], phase: str, next_action: Step) -> Answer[None]:
    """Return the answer about a phase of which nothing is left to run."""
    said = answer(problems, next_action)
    document = {
        **_of_run(phase, "integrated"),
        "problems": said.document["problems"],
        **step_keys(next_action),
    }
    return said._replace(document=document, refusal=True)


def refused(problems: Iterable[Problem], next_action: Step, exit_code: int, *, of_run: bool) -> Answer[None]:
    """Return the answer of a refused command, in the form of its normal answer."""
    said = answer(problems, next_action)
    document = {**said.document, "ok": False}
    if of_run:
        document = {
            **_of_run(None, "refused"), "problems": document["problems"], **step_keys(next_action),
        }  # fmt: skip
    return said._replace(exit_code=exit_code, document=document, refusal=True)


def _of_run(phase: str | None, status: str) -> dict[str, Any]:
    """Return the first keys of an answer about a run, where there is none."""
    from orchestrator.runs.worker_state import STANDINGS  # noqa: PLC0415 - for start-up time

    return {
        "schema": 1, "run": None, "phase": phase, "status": status,
        "counts": dict.fromkeys(STANDINGS, 0), "workers": [],
        "commit": {"landing": None, "state": None},
        "messages": {"new": 0, "open": 0, "unacknowledged": 0},
    }  # fmt: skip
