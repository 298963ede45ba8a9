"""The next step as it is to be called: with the options of this call, and within the time of a tool call."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.commands.answer import Answer, View
from orchestrator.commands.invoke import waits_by
from orchestrator.errors import APPROVAL
from orchestrator.runs.next_action import quoted
from orchestrator.step import Waits
from tickets.value import Value

LIMIT = 90
"""Seconds after which a call of a program returns: its tool calls end after 100 seconds, or two minutes."""
_OF_PHASE = ("plan", "run", "deploy")
_DETACH = ("run", "deploy", "resume")
_TESTED = (("deliverable", "done"), ("phase", "complete"), ("milestone", "complete"))
"""Steps that run the project's tests first."""
_LED = (
    "run",
    "deploy",
    "todo",
    "decide",
    "deliverable",
    "criterion",
    "milestone",
    "phase",
    "approve",
    "init",
)
_SIGNALLED = 128
"""Exit codes from here on: what was stopped goes on."""
_COMMAND = re.compile(r"`(orchestrate [\w ./=@:,+'\"\[\]-]+)`")
_NEUTRAL = ("--json", "--detach")


class Call(Value):
    """A call on the command line: its words, what they mean, and whether a program reads the answer."""

    words: Sequence[str]
    options: Mapping[str, Any]
    is_program: bool


def called(words: Sequence[str], options: Mapping[str, Any]) -> Call:
    """Return a call; without a terminal, as in a tool call, its reader is a program."""
    return Call(words, options, bool(options["json"]) or not sys.stdout.isatty())


def with_callable_step(answer: Answer[View], call: Call) -> Answer[View]:
    """Return the answer with a next step that can be called as it is, in the folder of this call.

    A call that failed is never its own next step: before another one, somebody has to change something.
    """
    if not answer.document:
        return answer
    step = answer.step
    if isinstance(step, str) and step:
        step = _spelled(step, call)
        is_same = _bare(_words(step)[1:]) == _bare(call.words)
        # One that goes on with what was cut off is proposed only where it has come further.
        if 0 < answer.exit_code < _SIGNALLED and is_same and "--continue" not in call.words:
            step = waits_by(answer.problems, "lead")
    if isinstance(step, Waits) and step.when_approved and answer.exit_code == APPROVAL:
        waiting = " ".join(quoted(word) for word in _bare(call.words))
        step = step._replace(when_approved=_spelled(f"{step.when_approved} --then {quoted(waiting)}", call))
    if isinstance(step, Waits):
        what = _COMMAND.sub(lambda named: f"`{_spelled(named[1], call)}`", step.what)
        step = step._replace(what=what)
    answer = answer.with_step(step)
    for one in answer.document.get("runs", ()):
        if isinstance(one.get("next_action"), str):
            one["next_action"] = _spelled(one["next_action"], call)
    if isinstance(next_ := answer.document.get("next"), dict) and isinstance(next_.get("command"), str):
        next_["command"] = step if isinstance(step, str) else None
    return answer


def _spelled(command: str, call: Call) -> str:
    """Return a command with the options of a call that hold for it too."""
    verb, *rest = command.split(" ")[1:]
    said = call.options
    phase = quoted(said.get("phase") or "")
    if verb in _OF_PHASE and said["command"] in _OF_PHASE and rest[:1] == [phase]:
        if said.get("only") and "--only" not in rest:
            command += f" --only {' '.join(map(quoted, said['only']))}"
        command += f" --on-overlap {said['on_overlap']}" if said.get("on_overlap") else ""
        command += " --continue" if said.get("continues") and "--continue" not in rest else ""
        command += " --strict-agents" if said.get("strict_agents") else ""
        command += " --again" if said.get("again") and "--only" not in rest else ""
    if said.get("lead") and verb in _LED:
        command += f" --lead {quoted(said['lead'])}"
    may_last = (verb in _DETACH and rest) or ((verb, *rest[:1]) in _TESTED and "--no-verify" not in rest)
    if call.is_program and may_last and "--detach" not in rest:
        command += " --detach"
    if verb == "wait" and call.is_program and "--timeout" not in rest:
        command = command.replace(" --since", f" --timeout {LIMIT} --since")
        command += "" if " --timeout" in command else f" --timeout {LIMIT}"
    elif verb == "wait" and not call.is_program and said["command"] != "wait":
        # A person waits for the end, and not for the next event.
        command = command.partition(" --since")[0]
    if said.get("project") and "--project" not in rest:
        command += f" --project {quoted(str(said['project']))}"
    return command


def _words(command: str) -> list[str]:
    import shlex  # noqa: PLC0415 - for start-up time: only after a failure

    return shlex.split(command)


def _bare(words: Sequence[str]) -> list[str]:
    """Return the words of a call without those that change neither its subject nor its work."""
    kept, skips = [], False
    for word in words:
        if not (skips or word in _NEUTRAL or word == "--project" or word.startswith("--project=")):
            kept.append(word)
        skips = word == "--project"
    return kept
