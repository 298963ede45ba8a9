"""`resume [RUN]`: the state after a stop and the next step; with RUN, continues it."""

from contextlib import suppress
from functools import partial
from typing import Any

from orchestrator.commands._checks import TIMEOUT, run_checks
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import Refusal
from orchestrator.report.recover import recover
from orchestrator.report.situation import Situation
from orchestrator.report.summary import fitted, run_standing, standing, tokens_of
from orchestrator.runs.state import RunState, read_run
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from workers.errors import WorkerError


class Arguments(Value):
    """The arguments of `resume`."""

    run: str | None = None
    """Continue this run: its workers, its queue."""
    detach: bool = False
    """Return at once; the run continues in the background."""
    max_tokens: int | None = None
    """Omit the least important parts until the JSON fits."""
    verify: bool = False
    """Run the smoke tests too."""
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[RunState] | Answer[dict[str, Any]]:
    """Report the state of the project, or continue a run."""
    if arguments.run is None:
        return _standing(caller, arguments)
    from orchestrator.commands._names import run_named  # noqa: PLC0415 - the report needs less
    from orchestrator.commands._project import project_of  # noqa: PLC0415 - as above
    from orchestrator.commands._stages import finish  # noqa: PLC0415 - as above
    from orchestrator.report.cut_off import note_cut_off  # noqa: PLC0415 - as above
    from orchestrator.run import go_on  # noqa: PLC0415 - as above

    project = project_of(caller)
    run = run_named(project.repository, arguments.run)
    with suppress(ProblemError, OSError):  # the run itself reports what is in its way
        states = list(filter(None, [read_run(run)]))
        note_cut_off(project.repository, states, project.settings.families)
    if arguments.detach:
        from orchestrator.commands._detach import detach, taken_over  # noqa: PLC0415 - as above

        return detach(taken_over(run), caller.environ, integrates=True)
    return finish(caller, project, partial(go_on, project, run))


def _standing(caller: Caller, arguments: Arguments) -> Answer[dict[str, Any]]:
    """Return where the project stands, what was repaired, what is stale, and what is next."""
    found = Situation(repository_of(caller), caller.now())
    problems: list[Problem] = []
    commits = _commits(found, problems)
    done = recover(found, partial(lead_of, caller, found.repository), commit=commits)
    found = done.situation
    if arguments.verify:
        problems += _verified(caller, arguments, found)
    problems = list(dict.fromkeys((*done.problems, *found.problems, *problems)))
    whole = answer(
        problems, found.step.step, repaired=list(done.repaired),
        runs=[run_standing(run) for run in found.unfinished], **standing(found), left_out=[],
    )  # fmt: skip
    document = whole.document
    if arguments.max_tokens is not None:
        document = _within(document, arguments.max_tokens)
    return whole._replace(document=document).showing(whole.document)


def _commits(found: Situation, problems: list[Problem]) -> bool:
    try:
        return found.settings.git.commit != "never"
    except Refusal as refusal:
        # A new lead needs to know the state of the project, above all where the settings are broken.
        problems += refusal.problems
        return True


def _verified(caller: Caller, arguments: Arguments, found: Situation) -> list[Problem]:
    try:
        return run_checks(
            found.repository,
            found.settings,
            ("smoke",),
            at=caller.now(),
            timeout=arguments.timeout,
            environ=caller.environ, say=caller.say,
        )  # fmt: skip
    except WorkerError as error:
        return [Problem("[checks] smoke", str(error), "`orchestrate doctor` shows details")]


def _within(document: dict[str, Any], tokens: int) -> dict[str, Any]:
    shorter = fitted(document, tokens)
    if tokens_of(shorter) > tokens:
        what = f"{tokens} tokens are fewer than the shortest answer has ({tokens_of(shorter)})"
        more = Problem("--max-tokens", what, "give more", "warning").as_json()
        shorter["problems"] = [*shorter["problems"], more]
    return shorter
