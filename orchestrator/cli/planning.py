"""What the commands about the plan share: the plan as it reads, the project's tests, the commit's message."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.cli.answer import Answer
from orchestrator.cli.recording import SETTINGS, Desk, add_lead, chosen, desk_of
from orchestrator.errors import APPROVAL, Refusal
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.status import status
from orchestrator.state.canonical.status.read import PATH, Phase, Status, slug
from orchestrator.state.document import needed
from orchestrator.state.events import LeadEvent
from orchestrator.state.facts import percent
from orchestrator.store.read import read_file
from tickets.markdown import Document
from tickets.problems import Problem


class Plan(NamedTuple):
    """STATUS.md as it stands, and who is about to change it."""

    desk: Desk
    document: Document
    status: Status

    def phase(self, word: str | None) -> Phase:
        """Give the phase that is meant: by number, slug or part of its title; the current one for None.

        Raises Refusal.
        """
        needed(self.document, "Phase Plan")
        phases = self.status.phases
        if word is None:
            if self.status.current is None:
                what = f"the current phase `{self.status.phase}` is not in the Phase Plan"
                raise Refusal(Problem(PATH, what, "name a phase, or add it to the plan"))
            return self.status.current
        wanted = f"phase-{word}" if word.isdecimal() else word.strip().casefold().replace(" ", "-")
        for phase in phases:
            if wanted in (slug(phase.title), slug(phase.title).removeprefix("phase-")):
                return phase
        return phases[chosen(PATH, word, [phase.title for phase in phases], "phase")]

    def open_phase(self, word: str | None) -> Phase:
        """Give a phase that can still be added to. Raises Refusal."""
        found = self.phase(word)
        if found.complete:
            problem = Problem(f"{PATH}:{found.line}", f"{found.title} is complete", "add it to a later phase")
            raise Refusal(problem, next_action="orchestrate phase list")
        return found

    def after(self, event: LeadEvent) -> Status:
        """Give the status as the event will leave it. Raises StateError."""
        text = self.document.data
        return status.read(status.changes({PATH: text}, event).get(PATH, text))


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Read the plan. Raises Refusal, StateError."""
    desk = desk_of(arguments)
    document = desk.document(PATH)
    return Plan(desk, document, status.read(document.data))


def whole_plan_of(arguments: argparse.Namespace) -> Plan:
    """Read the plan where it is to be shown or changed: one that is hidden is not taken for an empty one.

    Raises Refusal, StateError.
    """
    plan = plan_of(arguments)
    needed(plan.document, "Phase Plan")
    return plan


def add_options(parser: argparse.ArgumentParser, *, by_default: bool = False) -> None:
    """Declare what a step that is worth a test run takes; some run the tests unless they are told not to."""
    what = "run the tests of `[checks]` first; if they fail, nothing is recorded"
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--verify", action="store_true", default=None,
                     help=what + (" (done where any are set)" if by_default else ""))  # fmt: skip
    if by_default:
        how.add_argument("--no-verify", dest="verify", action="store_false", help="do not run the tests")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S",
                        help="most seconds for each of them")  # fmt: skip
    parser.set_defaults(by_default=by_default)
    add_lead(parser)


def tested(desk: Desk, arguments: argparse.Namespace) -> str:
    """Run the project's tests if that is due; give what they came to. Raises Refusal where they fail."""
    asked: bool | None = arguments.verify
    if asked is False or (asked is None and not arguments.by_default):
        return ""
    if not arguments.timeout > 0:
        raise Refusal(Problem("--timeout", f"{arguments.timeout:g} is no time to wait", "write more than 0"))
    if asked is None and read_file(desk.repository.root, SETTINGS) is None:
        return ""
    import os  # noqa: PLC0415 - only where tests run

    from orchestrator.checks.figures import tests_among, total_of  # noqa: PLC0415 - as above
    from orchestrator.checks.run import verify  # noqa: PLC0415 - as above
    from orchestrator.settings.settings import read_settings  # noqa: PLC0415 - as above
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - as above
    from workers.errors import WorkerError  # noqa: PLC0415 - as above

    commands = tests_among(read_settings(desk.repository.root).checks._asdict())
    if not commands and asked:
        raise Refusal(Problem(SETTINGS, "no test command is set", "set `test` below `[checks]`"))
    if not commands:
        return ""
    repo = UserRepo(desk.repository)
    try:
        figures = verify(
            desk.repository.root, commands, commit=repo.head().sha or "",
            changed=bool(repo.uncommitted()), at=desk.at, environ=dict(os.environ), timeout=arguments.timeout,
        )  # fmt: skip
    except WorkerError as error:
        problem = Problem("[checks]", str(error), "`orchestrate doctor` says more")
        raise Refusal(problem, exit_code=1) from error
    also = "" if asked else ", or `--no-verify`"
    failed = [
        Problem(f"[checks] {one.name}", f"`{one.command}` failed ({one.ended}), so nothing was recorded",
                f"see {one.output}{also}")
        for one in figures if not one.passed
    ]  # fmt: skip
    if failed:
        raise Refusal(*failed, exit_code=1)
    return total_of(figures)


def with_report(desk: Desk, answer: Answer) -> Answer:
    """Keep a status report with the newest run, as is due where this has changed anything."""
    written = None
    if answer.document["changed"]:
        from orchestrator.report.gather import gather  # noqa: PLC0415 - as above
        from orchestrator.report.status_report import report_on  # noqa: PLC0415 - as above
        from orchestrator.report.text import keep_report  # noqa: PLC0415 - most commands need none of it
        from orchestrator.runs.state import unfinished_runs  # noqa: PLC0415 - as above

        waiting = tuple(unfinished_runs(desk.repository.root))
        report = report_on(gather(desk.repository, desk.at), "the user", desk.lead, waiting)
        written = keep_report(desk.repository, report, desk.at)
    lines = (*answer.lines, f"status report: {written}") if written else answer.lines
    return answer._replace(document={**answer.document, "report": written}, lines=lines)


def message(subject: str, bullets: Sequence[str], tests: str) -> str:
    """Return the message of a commit: subject, what was done, the result of the tests."""
    listed = "\n".join(f"- {bullet}" for bullet in bullets)
    # Which commit was tested is plain here: the parent.
    return f"{subject}\n\n{listed}\n\nTests: {tests.partition(', at ')[0] or 'not run'}\n"


def progress(phase: Phase) -> str:
    """Say how far a phase is."""
    done, total = phase.made
    return (
        f"{phase.title.partition(':')[0]} now {percent(done, total)}% complete, {done}/{total} deliverables"
    )


def pass_gate(desk: Desk, gate: str, about: str) -> None:
    """Go on where the gate is approved, or none is needed. Raises Refusal with exit code 4."""
    if not gate:
        return
    known = gates.answers(desk.log().data).get(gate)
    if known is not None and known.answer == "approved":
        return
    said = f"was rejected by {known.by} on {known.date}" if known else "needs the user's approval first"
    command = f"orchestrate approve {gate} --by NAME"
    problem = Problem(f"gate {gate}", f"{about} {said}", f"when the user agrees, run `{command}`")
    raise Refusal(problem, exit_code=APPROVAL, next_action=command)
