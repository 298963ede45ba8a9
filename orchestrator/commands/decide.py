"""`decide TITLE`: add a decision to DECISIONS.md."""

import re
from typing import Any

from orchestrator.commands._phase_files import decide_in_phase
from orchestrator.commands._phase_plan import whole_plan_of
from orchestrator.commands._proposals import listing, proposed, taken
from orchestrator.commands._record import Writer, chosen, read_back, record, shortened, writer_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.report.decision_history import all_edits, fresh_edits
from orchestrator.state.canonical.decisions.read import PATH, spans
from orchestrator.state.events import Decided, Decision, EditsAcknowledged
from tickets.markdown import one_line, plain
from tickets.problems import Problem
from tickets.value import Value

_SAID = re.compile(r"^\*\*Decision:\*\*[ \t]*(.*?)[ \t]*$", re.MULTILINE)


class Arguments(Value):
    """The arguments of `decide`."""

    title: str = ""
    """What was decided, in a few words."""
    context: str = ""
    """Why a decision was needed."""
    decision: str = ""
    alternative: tuple[str, ...] = ()
    consequence: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    """Headings of earlier entries, or unique parts of them."""
    acknowledge_edit: bool = False
    """Record that earlier entries were edited by hand, instead of a decision."""
    run: str | None = None
    """The run whose workers' proposals are listed or recorded."""
    take: tuple[str, ...] = ()
    """The numbers of the recorded proposals, or `all`."""
    phase: str | None = None
    """The phase whose own decision it is; None: it is the project's."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Record a decision, or perform the other action that the arguments ask for."""
    writer = writer_of(caller)
    log = writer.log()
    entries = [title for title, _ in spans(log.data)]
    # An old log without dates has its entries by name.
    if any(not any(word.casefold() in one.casefold() for one in entries) for word in arguments.supersedes):
        entries = [heading.title for heading in log.headings if heading.level > 1]
    if arguments.acknowledge_edit:
        return _acknowledge(writer)
    if arguments.run:
        return _proposed(writer, arguments.run, arguments.take)
    said = (arguments.alternative, arguments.consequence, arguments.supersedes)
    if arguments.phase is not None:
        return _decide_in_phase(caller, arguments)
    return _decide(writer, Decision(arguments.title, arguments.context, arguments.decision, *said), entries)


def _decide_in_phase(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Record a decision of a phase's own, which has no more than its reason. Raises Refusal."""
    options = ("alternative", "consequence", "supersedes")
    what = "is not kept with a phase's own decision"
    found = [Problem(f"--{name}", what, "leave it out, or leave out `--phase`")
             for name in options if getattr(arguments, name)]  # fmt: skip
    made = Decision(arguments.title, arguments.context, arguments.decision)
    if found or _lacking(made):
        raise Refusal(*found, *_lacking(made))
    return decide_in_phase(whole_plan_of(caller), arguments.phase or "", _readable(made))


def check(caller: Caller) -> None:
    """Check that a decision can be recorded, before a person writes one. Raises Refusal, StateError."""
    writer_of(caller).log()


def _decide(writer: Writer, made: Decision, entries: list[str]) -> Answer[None]:
    """Record a decision that is complete. Raises Refusal."""
    if lacking := _lacking(made):
        raise Refusal(*lacking)
    old = [chosen(PATH, word, entries, "entry") for word in made.supersedes]
    return _decided(writer, [made._replace(supersedes=tuple(entries[at] for at in old))])


def _lacking(made: Decision) -> list[Problem]:
    return [
        Problem("decide", f"{name} is missing", f"give {option}")
        for name, option, said in (
            ("the title", "TITLE", made.title),
            ("the context", "`--context TEXT`: why a decision was needed", made.context),
            ("the decision", "`--decision TEXT`: what was decided", made.decision),
        )
        if not one_line(said)
    ]


def _proposed(writer: Writer, run: str, numbers: tuple[str, ...]) -> Answer[None]:
    found = proposed(writer, run, "decisions")
    if not numbers:
        said = {
            plain(match[1]) for _, body in spans(writer.document(PATH).data) for match in _SAID.finditer(body)
        }
        return listing(found, "decide", said)
    made = [
        Decision(
            shortened(one.text, 80), f"Proposed by {one.worker} in run {found.run} ({one.verdict}).", one.text
        )
        for one in taken(found, numbers)
    ]
    return _decided(writer, made)


def _decided(writer: Writer, made: list[Decision]) -> Answer[None]:
    """Record decisions as one change."""
    made = [_readable(one) for one in made]
    warnings = [one.problem() for one in fresh_edits(writer.repository.root)]
    what = shortened(made[0].title) if len(made) == 1 else f"{len(made)} decisions"
    bullets = "\n".join(f"- {shortened(one.title, 90)}: {shortened(one.decision, 200)}" for one in made)
    shown: list[dict[str, Any]] = [
        {"title": one.title, "date": f"{writer.at:%Y-%m-%d}", "supersedes": list(one.supersedes)}
        for one in made
    ]
    event = Decided(tuple(made), writer.at, writer.lead)
    message = f"Decided: {what}\n\n{bullets}\n"
    return record(writer, event, message, warnings=warnings, decisions=shown)


def _readable(one: Decision) -> Decision:
    """Return a decision without characters that would act on a terminal, in its commit or in its answer."""
    title, context, decision = (read_back(text).strip() for text in one[:3])
    others, consequences = (
        tuple(said for text in texts if (said := read_back(text).strip()))
        for texts in (one.alternatives, one.consequences)
    )
    return Decision(title, context, decision, others, consequences, one.supersedes)


def _acknowledge(writer: Writer) -> Answer[None]:
    found = {(one.edit.title, one.edit.now) for one in all_edits(writer.repository.root)}
    edits = tuple(sorted(found))
    facts = [{"title": title, "now": now} for title, now in edits]
    if not edits:
        return answer((), "orchestrate status", acknowledged=facts, changed=[], commit=None)
    bullets = "\n".join(f"- {shortened(title, 90)} ({now})" for title, now in edits)
    event = EditsAcknowledged(edits, writer.at, writer.lead)
    message = f"Decided: acknowledge edits of earlier decisions\n\n{bullets}\n"
    return record(writer, event, message, acknowledged=facts)
