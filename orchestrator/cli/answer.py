"""What a command answers: an exit code, one JSON document, and the lines that a person reads."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from orchestrator.cli.text import clean, problem_lines
from tickets.problems import Problem

__all__ = ("clean", "problem_lines")


class Answer(NamedTuple):
    """The same answer for a machine and for a person."""

    exit_code: int
    document: dict[str, Any]
    lines: tuple[str, ...] = ()
    refusal: bool = False
    """Nothing was done: the lines are for standard error."""
    streamed: bool = False
    """All of it was printed on the way."""


def envelope(
    problems: Iterable[Problem] = (), next_action: str = "", *, ok: bool = True, **keys: Any
) -> dict[str, Any]:
    """Give the document that every command but those about one run prints."""
    return {
        "schema": 1,
        "ok": ok,
        **keys,
        "problems": [problem.as_json() for problem in problems],
        "next_action": next_action,
    }


def refused(problems: Iterable[Problem], next_action: str, exit_code: int, *, of_run: bool) -> Answer:
    """Answer that nothing was done, in the form that the command would have answered in."""
    found = list(problems)
    if of_run:
        document: dict[str, Any] = {
            "schema": 1, "run": None, "phase": None, "status": "refused", "workers": [],
            "commit": {"landing": None, "state": None},
            "problems": [problem.as_json() for problem in found], "next_action": next_action,
        }  # fmt: skip
    else:
        document = envelope(found, next_action, ok=False)
    return Answer(exit_code, document, tuple(problem_lines(found, next_action)), refusal=True)
