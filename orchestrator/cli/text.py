"""Lines of an answer that commands share: problems, the next step, what was recorded."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.commands.answer import Answer
from orchestrator.step import Step, Waits, step_lines
from tickets.problems import Problem


def clean(text: str) -> str:
    """Replace characters that act on a terminal: escapes, controls, changes of the writing direction."""
    return "".join(c if c.isprintable() else " " for c in text)


def problem_lines(problems: Sequence[Problem], step: Step = "") -> list[str]:
    """Return problems as lines, each marked by its grade, and the next step."""
    found = [f"{problem.place}: {problem.what}" for problem in problems]
    lines = [f"{problem.severity}: {clean(str(problem))}" for problem in problems]
    if isinstance(step, Waits) and step.who == "lead" and step.what.startswith(tuple(found)):
        return lines  # the correction of the call, which a problem has named
    return [*lines, *map(clean, step_lines(step))]


def with_ending(lines: Iterable[str], answer: Answer[Any]) -> list[str]:
    """Return the lines of an answer, then its problems and the next step."""
    return [*map(clean, lines), *problem_lines(answer.problems, answer.step)]


def recorded_lines(lines: Sequence[str], answer: Answer[Any]) -> list[str]:
    """Return the lines of a command that changes state: its changes, if any, and the commit."""
    document = answer.document
    said = [*lines] if document["changed"] else ["it is there already; nothing was changed"]
    if document["commit"]:
        said.append(f"commit {document['commit'][:10]}")
    if document.get("report"):
        said.append(f"status report: {document['report']}")
    return with_ending(said, answer)


def blocker_lines(phases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the blockers of phases that wait for an answer."""
    return [
        f"{phase['name']} {one['blocker']} {one['title']}: {one['pointer']}"
        for phase in phases
        for one in phase["blockers"]
        if one["state"] == "open"
    ]


def proposal_lines(answer: Answer[Any]) -> list[str]:
    """Return the proposals of workers, by number, each new or taken over already."""
    lines = [
        f"{one['number']:>3}  {'taken' if one['taken'] else 'new':<6} {one['text']} ({one['worker']})"
        for one in answer.document["proposals"]
    ]
    return with_ending(lines or ["nothing was proposed"], answer)
