"""`report`: the status report in seven sections, kept with the newest run."""

from orchestrator.commands._checks import NAMES, TIMEOUT, run_checks
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.report.situation import Situation
from orchestrator.report.status_report import StatusReport, report_on
from orchestrator.report.text import keep_report
from tickets.problems import Problem
from tickets.value import Value, as_json
from workers.errors import WorkerError


class Arguments(Value):
    """The arguments of `report`."""

    reader: str = "the user"
    verify: bool = False
    """Run all checks first."""
    timeout: float = TIMEOUT


def call(caller: Caller, arguments: Arguments) -> Answer[StatusReport]:
    """Report on the project."""
    found = Situation(repository_of(caller), caller.now())
    repository, at = found.repository, found.at
    problems: list[Problem] = []
    if arguments.verify:
        try:
            problems += run_checks(
                repository,
                found.settings,
                NAMES,
                at=at,
                timeout=arguments.timeout,
                environ=caller.environ,
                say=caller.say,
            )
        except WorkerError as error:
            problems.append(Problem("[checks]", str(error), "`orchestrate doctor` shows details"))
    report = report_on(found, arguments.reader, found.lead or lead_of(caller, repository))
    problems += found.problems
    written = keep_report(repository, report, at)
    return answer(
        problems, found.step.step, report=as_json(report), written=written
    ).showing(report)  # fmt: skip
