"""`orchestrate worker` on the command line. Plain calls are read without argparse, for start-up time."""

import json
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from orchestrator.cli.terminal.terminal import say
from orchestrator.commands import worker
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.worker import Arguments
from orchestrator.errors import Refusal
from tickets.problems import Problem
from tickets.value import Value
from workers.messages.tool_schemas import TASK_STATES

if TYPE_CHECKING:
    import argparse


class _Word(Value):
    """An argument of an action: an option where the name begins with `--`, else a word at its place."""

    name: str
    help: str
    choices: tuple[str, ...] | None = None
    is_flag: bool = False
    is_number: bool = False
    is_rest: bool = False
    """Whether it takes all words that are left."""
    is_needed: bool = False

    @property
    def field(self) -> str:
        return self.name.removeprefix("--")


class _Action(Value):
    help: str
    words: tuple[_Word, ...]


_PLAN = _Word("--plan", "the plan that it is about")
_NOTE = _Word("--note", "what others should know")
_OF_PLAN = _Word("plan", "the plan's id, such as 02-01")
_SUMMARY = _Word("--summary", "what was done")
ACTIONS = {
    "send": _Action(
        "send a message to the lead, the coordinator or another worker",
        (
            _Word("text", "the message, or `-` for standard input", is_rest=True),
            _Word("--to", "lead, coordinator, all, a worker, RUN.NAME, or a phase", is_needed=True),
            _Word("--type", "default: answer with --re, else chat", ("question", "answer", "chat")),
            _Word("--re", "the id of the message that this one answers"),
            _PLAN,
        ),
    ),
    "inbox": _Action(
        "show new messages, which are acknowledged by that",
        (
            _Word("--wait", "seconds to wait for one, 600 at most", is_number=True),
            _Word("--open", "show those without an answer, too", is_flag=True),
        ),
    ),
    "block": _Action(
        "report that a task cannot go on until somebody answers",
        (
            _Word("text", "the blocker in one line", is_rest=True),
            _Word("--body", "what is in the way, or `-` for standard input"),
            _PLAN,
            _Word("--task", "the task that cannot go on"),
            _Word("--attempted", "what was tried"),
            _Word("--needs", "what is needed from whoever answers"),
            _Word(
                "--mode", "go on at once, or wait for the answer (default: the settings')", ("skip", "pause")
            ),
        ),
    ),
    "plan": _Action(
        "say that a plan has begun, is complete, or has failed; for phase workers",
        (
            _Word("step", "start, complete or fail", ("start", "complete", "fail")),
            _OF_PLAN,
            _SUMMARY,
            _Word("--reason", "why it failed"),
            _NOTE,
        ),
    ),
    "task": _Action(
        "say how a task of a plan is doing; for phase workers",
        (
            _OF_PLAN,
            _Word("text", "the task, in the words of the plan", is_rest=True),
            _Word("--state", ", ".join(TASK_STATES), TASK_STATES, is_needed=True),
            _NOTE,
        ),
    ),
    "note": _Action(
        "write down a context or a decision of the phase; for phase workers",
        (
            _Word("text", "the context, or what was decided; `-` for standard input", is_rest=True),
            _Word("--decision", "the decision's title"),
            _Word("--context", "why it was taken"),
        ),
    ),
    "phase-complete": _Action(
        "say that all plans are complete; for phase workers",
        (_Word("--summary", "what the phase has achieved", is_needed=True),),
    ),
    "report": _Action(
        "submit the report, as one JSON object", (_Word("text", "a file, or `-` for standard input"),)
    ),
}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the actions."""
    from orchestrator.cli.arguments import add_actions  # noqa: PLC0415 - imports argparse

    add = add_actions(parser)
    for name, action in ACTIONS.items():
        one = add(name, action.help)
        for word in action.words:
            one.add_argument(word.name, **_options(word))


def _options(word: _Word) -> dict[str, Any]:
    if word.is_flag:
        return {"action": "store_true", "help": word.help}
    named = {"metavar": word.field.upper(), "help": word.help, "choices": word.choices}
    kind = {"type": float} if word.is_number else {}
    if word.name.startswith("--"):
        return {**named, **kind, "required": word.is_needed}
    return {**named, **({"nargs": "+"} if word.is_rest else {})}


def read_words(words: Sequence[str]) -> SimpleNamespace | None:
    """Read a call that is plain and right; None for any other, which argparse explains."""
    if len(words) < 2 or words[0] != "worker" or words[1] not in ACTIONS:
        return None
    known = {word.name: word for word in ACTIONS[words[1]].words}
    found: dict[str, Any] = {"command": "worker", "action": words[1], "json": False, "project": None}
    places, rest = [], list(reversed(words[2:]))
    while rest:
        said = rest.pop()
        name, equals, value = said.partition("=")
        option = known.get(name) if name.startswith("--") else None
        if said == "--json":
            found["json"] = True
        elif option is not None and option.is_flag:
            if equals:
                return None
            found[option.field] = True
        elif option is not None and (equals or (rest and _is_value(rest[-1]))):
            found[option.field] = value if equals else rest.pop()
        elif _is_value(said):
            places.append(said)
        else:
            return None
    return SimpleNamespace(**found) if _is_placed(found, places, list(known.values())) else None


def _is_value(said: str) -> bool:
    return said == worker.STDIN or not said.startswith("-")


def _is_placed(found: dict[str, Any], places: list[str], known: list[_Word]) -> bool:
    """Put the words without an option to their fields; return whether all is there and allowed."""
    for word in (word for word in known if not word.name.startswith("--")):
        if not places:
            return False
        found[word.field] = " ".join(places) if word.is_rest else places[0]
        places = [] if word.is_rest else places[1:]
    for word in known:
        if word.is_number and word.field in found:
            try:
                found[word.field] = float(found[word.field])
            except ValueError:
                return False
        if word.is_needed and word.field not in found:
            return False
        if word.choices and found.get(word.field, word.choices[0]) not in word.choices:
            return False
    return not places


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[None]:
    """Do the call; print here what shows messages: they are acknowledged once they are printed."""
    if arguments.action not in ("inbox", "block"):
        return worker.call(caller, arguments)
    box = worker.mailbox_of(caller, arguments)
    done = worker.done(box, arguments)
    if done.document.get("answer") is None and arguments.action == "block":
        return done
    with worker.handing_over(box, done) as (found, news):
        text = json.dumps(found.document) if as_json else "\n".join(_shown(found, arguments, news))
        if not say(text, sys.stdout):
            problem = Problem(worker.PLACE, "the messages could not be printed", "they stay new; call again")
            raise Refusal(problem, exit_code=1)
    return Answer(found.exit_code, {}, (), None)


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the answer as text."""
    said = answer.document
    if not said:
        return []
    if not said["ok"]:
        return [f"{one.place}: {one.what}" for one in answer.problems] + [said["do"]]
    reason = [said["reason"]] if said["reason"] else []
    told = [f"answer: {said['answer']}"] if said["answer"] is not None else []
    new = [f"{said['new']} new: `orchestrate worker inbox` shows them"] if said["new"] else []
    return [f"{said['id']} to {said['to']}: {said['receipt']}", *reason, *told, said["do"], *new]


def _shown(found: Answer[None], arguments: Arguments, news: str) -> list[str]:
    if arguments.action == "block":
        return lines(found, arguments)
    opened = [f"open: {one['id']} {one['type']} from {one['from']}" for one in found.document["open"]]
    return [news or "no new messages", *opened]
