"""`handoff`: writes and commits what a new lead needs, or only checks it."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.commands._checks import NAMES, TIMEOUT, run_checks
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import StateError
from orchestrator.report.handoff import Point, path_of, points_of, status_at_handoff, tests_line, text_of
from orchestrator.report.recover import completed
from orchestrator.report.situation import Situation
from orchestrator.state import Tree, owned_among
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.document import present
from orchestrator.state.events import HandedOver
from tickets.problems import Problem, Severity
from tickets.value import Value


class Arguments(Value):
    """The arguments of `handoff`."""

    check: bool = False
    """Only check what a new lead would miss."""
    no_commit: bool = False
    verify: bool = False
    """Run all checks first."""
    timeout: float = TIMEOUT


class _Written(Value):
    """What was written; nothing of it by a check."""

    path: str | None = None
    report: str | None = None
    changed: tuple[str, ...] = ()
    commit: str | None = None
    problems: tuple[Problem, ...] = ()


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Check the eight points; write the handoff, and commit it with all uncommitted state."""
    found = Situation(repository_of(caller), caller.now())
    settings = found.settings
    of_context: list[Problem] = []
    if "ai_memory" in found.families:
        from orchestrator.commands.context import at_handoff  # noqa: PLC0415 - for start-up time: off in most projects

        of_context = at_handoff(caller, writes=not arguments.check)
        found = Situation(found.repository, found.at)
    if not arguments.check and found.status_problems:
        # A state file that could not be read must not be handed over as an empty one.
        raise StateError(*found.status_problems)
    problems: list[Problem] = [*of_context]
    if arguments.verify:
        problems += run_checks(
            found.repository,
            settings,
            NAMES,
            at=found.at,
            timeout=arguments.timeout,
            environ=caller.environ,
            say=caller.say,
        )
    if not arguments.check:
        found, _, hindered = completed(found)
        problems += hindered
    points = points_of(found)
    grade: Severity = "error" if arguments.check else "warning"
    problems += found.problems
    problems += [Problem(PATH, f"{one.point}: {one.missing}", one.do, grade) for one in points if one.missing]
    commits = settings.git.commit != "never" and not arguments.no_commit
    written = _Written() if arguments.check else _write(caller, found, points, commit=commits)
    return answer(
        (*problems, *written.problems), found.step.step, points=[_shown(one) for one in points],
        next=found.step.as_json(), written=written.path, report=written.report,
        changed=list(written.changed), commit=written.commit,
    )  # fmt: skip


def _write(caller: Caller, found: Situation, points: Sequence[Point], *, commit: bool) -> _Written:
    # For start-up time, as `--check` needs none of it.
    from orchestrator.report.status_report import report_on  # noqa: PLC0415
    from orchestrator.report.text import keep_report  # noqa: PLC0415
    from orchestrator.store.places import without_places  # noqa: PLC0415
    from orchestrator.store.store import SESSIONS, Store  # noqa: PLC0415

    repository, at, step = found.repository, found.at, found.step
    report = report_on(found, "the next lead", found.lead or lead_of(caller, repository))
    path, tests = path_of(repository.root, at), tests_line(found.figures)
    kept = keep_report(repository, report, at)
    text = without_places(text_of(found, report, points, kept=kept), repository.root)

    told: list[Problem] = []
    if SESSIONS in found.families:
        # Before the document: the commit that it makes takes along what was written without one.
        handed = HandedOver(path, at, lead_of(caller, repository))
        noted = Store(repository).record(
            [handed], families=found.families, message="", commit=False, is_run=True
        )
        told += noted.problems

    def handed_over(texts: Tree) -> Mapping[str, bytes]:
        status = status_at_handoff(present(PATH, texts[PATH]), at, tests)
        return {PATH: status, path: text.encode()}

    done = Store(repository).change(
        handed_over,
        paths=(path,),
        also=owned_among(found.uncommitted, found.families),
        message=f"Hand over: {step.p0 or step.said}\n\nNext: {step.said}\n",
        commit=commit,
    )
    return _Written(path, kept, done.changed, done.commit, (*told, *done.problems))


def _shown(one: Point) -> dict[str, Any]:
    return {"point": one.point, "ok": not one.missing, "missing": one.missing}
