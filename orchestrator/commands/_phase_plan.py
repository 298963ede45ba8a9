"""Shared by the commands about the plan: the plan as read, the project's tests, the commit's message."""

from collections.abc import Sequence

from orchestrator.commands._checks import failures
from orchestrator.commands._record import Writer, chosen, writer_of
from orchestrator.commands.answer import Answer, View
from orchestrator.commands.caller import Caller
from orchestrator.commands.invoke import waits_by
from orchestrator.errors import APPROVAL, Refusal
from orchestrator.settings.toml_text import FILE
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.status import status
from orchestrator.state.canonical.status.read import PATH, Phase, Status, slug
from orchestrator.state.document import needed
from orchestrator.state.events import LeadEvent
from orchestrator.state.facts import percent
from orchestrator.step import Waits
from orchestrator.store.read import read_file
from tickets.markdown import Document
from tickets.problems import Problem
from tickets.value import Value

Summary = tuple[str, ...]
"""The changes that the message of the commit lists."""


class Plan(Value):
    """STATUS.md as it is, and the writer that is to change it."""

    writer: Writer
    document: Document
    status: Status

    def phase(self, word: str | None) -> Phase:
        """Return the named phase: by number, slug or part of its title; the current one for None.

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
        """Return a phase that can still get additions. Raises Refusal."""
        found = self.phase(word)
        if found.complete:
            problem = Problem(f"{PATH}:{found.line}", f"{found.title} is complete", "add it to a later phase")
            raise Refusal(problem, next_action="orchestrate phase list")
        return found

    def shows(self, event: LeadEvent) -> bool:
        """Return whether STATUS.md shows the event already. Raises StateError."""
        return not status.changes({PATH: self.document.data}, event)

    def after(self, event: LeadEvent) -> Status:
        """Return the status after the event. Raises StateError."""
        text = self.document.data
        return status.read(status.changes({PATH: text}, event).get(PATH, text))


def plan_of(caller: Caller) -> Plan:
    """Read the plan. Raises Refusal, StateError."""
    writer = writer_of(caller)
    document = writer.document(PATH)
    return Plan(writer, document, status.read(document.data))


def whole_plan_of(caller: Caller) -> Plan:
    """Read the plan to show or change it: a hidden plan must not count as an empty one.

    Raises Refusal, StateError.
    """
    plan = plan_of(caller)
    needed(plan.document, "Phase Plan")
    return plan


class Tests(Value):
    """Whether the project's tests run before a step is recorded."""

    asked: bool | None
    """None: not stated by the call."""
    timeout: float
    """Seconds for each of them."""
    by_default: bool = False


TIMEOUT = 1800.0
"""Seconds for one test command, where no other limit is stated."""


def tested(writer: Writer, tests: Tests) -> str:
    """Run the project's tests if they are due, and return their total as text.

    Raises Refusal where one fails: nothing is recorded then.
    """
    asked, timeout, by_default = tests
    if asked is False or (asked is None and not by_default):
        return ""
    if not timeout > 0:
        raise Refusal(Problem("--timeout", f"{timeout:g} is not a valid timeout", "write more than 0"))
    if asked is None and read_file(writer.repository.root, FILE) is None:
        return ""
    from orchestrator.checks.figures import tests_among, total_of  # noqa: PLC0415 - only where tests run
    from orchestrator.checks.run import verify  # noqa: PLC0415 - as above
    from orchestrator.settings.settings import read_settings  # noqa: PLC0415 - as above
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - as above
    from workers.errors import WorkerError  # noqa: PLC0415 - as above

    checks = read_settings(writer.repository.root).checks
    commands = tests_among(checks._asdict())
    if not commands and asked:
        raise Refusal(Problem(FILE, "no test command is set", "set `test` below `[checks]`"))
    if not commands:
        return ""
    repo = UserRepo(writer.repository)
    try:
        figures = verify(
            writer.repository.root, commands, commit=repo.head().sha or "",
            changed=bool(repo.uncommitted()), at=writer.at, environ=writer.environ, timeout=timeout,
            checks=checks, say=writer.say,
        )  # fmt: skip
    except WorkerError as error:
        problem = Problem("[checks]", str(error), "`orchestrate doctor` shows details")
        raise Refusal(problem, exit_code=1) from error
    also = "" if asked else ", or `--no-verify`"
    failed = failures(writer.repository, figures, ", so nothing was recorded", also)
    if failed:
        raise Refusal(*failed, exit_code=1, next_action=waits_by(failed, "lead"))
    return total_of(figures)


def with_report(writer: Writer, answer: Answer[View]) -> Answer[View]:
    """Keep a status report with the newest run if the command has changed anything."""
    written = None
    if answer.document["changed"]:
        from orchestrator.report.situation import Situation  # noqa: PLC0415 - as above
        from orchestrator.report.status_report import report_on  # noqa: PLC0415 - as above
        from orchestrator.report.text import keep_report  # noqa: PLC0415 - most commands need none of it

        report = report_on(Situation(writer.repository, writer.at), "the user", writer.lead)
        written = keep_report(writer.repository, report, writer.at)
    return answer._replace(document={**answer.document, "report": written})


def message(subject: str, bullets: Sequence[str], tests: str) -> str:
    """Return the message of a commit: subject, what was done, the result of the tests."""
    listed = "\n".join(f"- {bullet}" for bullet in bullets)
    # Which commit was tested is plain here: the parent.
    return f"{subject}\n\n{listed}\n\nTests: {tests.partition(', at ')[0] or 'not run'}\n"


def left_open(phase: Phase) -> list[Problem]:
    """Return the open work of a phase, as problems."""
    made = [one.name for one in phase.deliverables if not one.done]
    unmet = [text for met, text in phase.criteria if not met]
    return [
        *(Problem(PATH, f"deliverable not complete: {name} ({phase.title})", "`orchestrate deliverable done`")
          for name in made),
        *(Problem(PATH, f"criterion not met: {text} ({phase.title})", "`orchestrate criterion done`")
          for text in unmet),
    ]  # fmt: skip


def listing(left: Sequence[Problem]) -> str:
    """Return the command that lists the first kind of open work."""
    return f"orchestrate {left[0].what.partition(' ')[0]} list"


def progress(phase: Phase) -> str:
    """Describe how far a phase is."""
    done, total = phase.made
    return (
        f"{phase.title.partition(':')[0]} now {percent(done, total)}% complete, {done}/{total} deliverables"
    )


def pass_gate(writer: Writer, gate: str, about: str) -> None:
    """Check that the gate is approved, or none is needed. Raises Refusal with exit code 4."""
    if not gate:
        return
    known = gates.answers(writer.log().data).get(gate)
    if known is not None and known.answer == "approved":
        return
    said = f"was rejected by {known.by} on {known.date}" if known else "needs the user's approval first"
    command = f"orchestrate approve {gate} --by NAME"
    problem = Problem(f"gate {gate}", f"{about} {said}", f"when the user agrees, run `{command}`")
    what = f"{about} {said} (gate {gate})"
    raise Refusal(problem, exit_code=APPROVAL, next_action=Waits("user", what, command))
