"""The next step: a command, or what a person or the outside has to do first."""

from typing import Any, Literal

from tickets.value import Value

Who = Literal["user", "lead", "outside"]
_FOR = {"user": "the user", "lead": "you", "outside": "something outside"}


class Waits(Value):
    """The next step where no command goes on: the same call would fail, or somebody has to decide."""

    who: Who
    what: str
    """In one sentence."""
    when_approved: str = ""
    """The command that records the user's approval, with `NAME` for the user's name."""


Step = str | Waits
"""A command, with all its words; or what is waited for."""


def step_keys(step: Step) -> dict[str, Any]:
    """Return a step as keys of a document: `next_action`, and where that is null, why."""
    if isinstance(step, str):
        return {"next_action": step}
    keys = {"next_action": None, "waiting_for": step.who, "what": step.what}
    return {**keys, "when_approved": step.when_approved} if step.when_approved else keys


def step_text(step: Step) -> str:
    """Return a step in one phrase."""
    return step if isinstance(step, str) else step.what


def step_lines(step: Step) -> list[str]:
    """Return a step as lines of text."""
    if isinstance(step, str):
        return [f"next: {step}"] if step else []
    lines = [f"waits for {_FOR[step.who]}: {step.what}"]
    return [*lines, f"when approved: {step.when_approved}"] if step.when_approved else lines
