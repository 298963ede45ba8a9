"""`doctor`: checks that everything a run needs is there; writes nothing."""

from typing import Any

from orchestrator import __version__
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, NoArguments, repository_of
from orchestrator.commands.invoke import waits_by
from orchestrator.errors import Refusal
from orchestrator.report.doctor import Examination, examine
from orchestrator.report.situation import Situation
from orchestrator.step import Step, step_keys

Arguments = NoArguments


def call(caller: Caller, _: NoArguments) -> Answer[Examination]:
    """Examine the machine and the project, and return the obstacles to a run."""
    try:
        project, nowhere = Situation(repository_of(caller), caller.now()), None
    except Refusal as refusal:
        project, nowhere = None, refusal
    found = examine(project, caller.folder, dict(caller.environ), nowhere.problems if nowhere else ())
    is_bad = any(problem.severity == "error" for problem in found.problems)
    next_action = nowhere.next_action if nowhere else _next_action(found, is_bad=is_bad)
    root = str(project.repository.root) if project else None
    return answer(found.problems, next_action, project=root, **_keys(found)).showing(found)


def _next_action(found: Examination, *, is_bad: bool) -> Step:
    # Where git refuses, `init` would be refused as well.
    if not found.is_refused and any("orchestrate init" in problem.do for problem in found.problems):
        return "orchestrate init"
    if is_bad:
        return waits_by(found.problems, "user")
    waiting = [run for run in found.runs if run.status != "running"]
    if found.pending:
        return "orchestrate resume"
    return waiting[-1].next_action if waiting else "orchestrate status"


def _keys(found: Examination) -> dict[str, Any]:
    return {
        "orchestrate": __version__,
        "python": found.python,
        "git": found.git or None,
        "agents": [one._asdict() for one in found.agents],
        "fence": found.fence._asdict(),
        "locks": {
            "store": "held" if found.store_locked else "free",
            "slots": [
                {"slot": one.slot, "run": one.holder.get("run"), "worker": one.holder.get("worker"),
                 "dirty": one.dirty}
                for one in found.slots
            ],
            "pending": list(found.pending),
        },
        "runs": [
            {"run": one.run, "phase": one.phase, "status": one.status, **step_keys(one.next_action)}
            for one in found.runs
        ],
        "disk": {"free_bytes": found.free},
    }  # fmt: skip
