"""`handoff`: writes and commits what a new lead needs, or only checks it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.commands._checks import NAMES, TIMEOUT, run_checks
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.report.handoff import Point, path_of, points_of, status_at_handoff, tests_line, text_of
from orchestrator.report.situation import Situation
from orchestrator.report.status_report import report_on
from orchestrator.report.text import keep_report
from orchestrator.settings.settings import read_settings
from orchestrator.state import NEEDED
from orchestrator.state.canonical.status.read import PATH, refuse_doubts
from orchestrator.state.document import present
from orchestrator.store.read import read_state
from orchestrator.store.store import Store, Texts
from tickets.problems import Problem


class Arguments(NamedTuple):
    """The arguments of `handoff`."""

    check: bool = False
    """Only check what a new lead would miss."""
    no_commit: bool = False
    verify: bool = False
    """Run all checks first."""
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Check the eight points; write the handoff, and commit it with all uncommitted state."""
    repository, at = repository_of(caller), caller.now()
    settings = read_settings(repository.root)
    if not arguments.check:
        # A state file that could not be read must not be handed over as an empty one.
        refuse_doubts(present(PATH, read_state(repository.root, PATH)))
    problems: list[Problem] = []
    if arguments.verify:
        problems += run_checks(
            repository, settings, NAMES, at=at, timeout=arguments.timeout, environ=caller.environ
        )
    found = Situation(repository, at)
    if not arguments.check and found.interrupted:
        problems += Store(repository).finish()
        found = Situation(repository, at)
    points, step = points_of(found), found.step
    grade: Any = "error" if arguments.check else "warning"
    problems += found.problems
    problems += [Problem(PATH, f"{one.point}: {one.missing}", one.do, grade) for one in points if one.missing]
    written, kept, changed, commit = None, None, [], None
    if not arguments.check:
        report = report_on(found, "the next lead", found.lead or lead_of(caller, repository))
        path, tests = path_of(repository.root, at), tests_line(found.figures)
        kept = keep_report(repository, report, at)
        text = text_of(found, report, points, kept=kept)

        def handed_over(texts: Texts) -> Mapping[str, bytes]:
            status = status_at_handoff(present(PATH, texts[PATH]), at, tests)
            return {PATH: status, path: text.encode()}

        done = Store(repository).change(
            handed_over,
            paths=(path,),
            also=[name for name in NEEDED if name in found.uncommitted],
            message=f"Hand over: {step.p0 or step.command}\n\nNext: {step.command}\n",
            commit=settings.git.commit != "never" and not arguments.no_commit,
        )
        written, changed, commit = path, list(done.changed), done.commit
        problems += done.problems
    return answer(
        problems, step.command, points=[_shown(one) for one in points],
        next=step._asdict(), written=written, report=kept, changed=changed, commit=commit,
    )  # fmt: skip


def _shown(one: Point) -> dict[str, Any]:
    return {"point": one.point, "ok": not one.missing, "missing": one.missing}
