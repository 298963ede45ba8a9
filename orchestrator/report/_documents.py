"""The decision log and the rules, as a new lead needs them."""

from collections.abc import Collection
from pathlib import Path

from orchestrator.errors import StateError
from orchestrator.state import DocumentModule
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import read as entries_of
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status.read import value
from orchestrator.state.document import opened, section_like
from tickets.markdown import Document, MarkdownError, Part, header, items, labelled, plain, sections
from tickets.problems import Problem, ProblemError
from tickets.value import Value

_LONGEST = 600
"""The most characters of a decision."""


class LogEntry(Value):
    """One entry of the decision log, its reason in short."""

    date: str
    title: str
    decision: str
    status: str


class Log(Value):
    """The content of DECISIONS.md."""

    recent: tuple[LogEntry, ...] = ()
    """The newest first."""
    started: str = ""
    """When the project began."""
    problems: tuple[Problem, ...] = ()


class RulesSaid(Value):
    """The rules in AGENTS.md for the lead."""

    version: str
    last_updated: str
    pool: rules.Pool
    gates: tuple[str, ...]


class Rules(Value):
    """AGENTS.md; `said` is None where it cannot be read."""

    said: RulesSaid | None = None
    problems: tuple[Problem, ...] = ()


def log_of(text: bytes | None, since: str) -> Log:
    """Read the decision log; its entries since a day."""
    if text is None:
        return Log()
    try:
        document = opened(DECISIONS, text)
    except ProblemError as error:
        return Log(problems=error.problems)
    recent = {entry.line: entry for entry in entries_of(text) if entry.date >= since}
    parts = [part for top in sections(document) for part in (top, *sections(document, top))] if recent else []
    found = [
        LogEntry(
            recent[part.line].date,
            plain(recent[part.line].title),
            _paragraph(document, part),
            value(document, part, "Status"),
        )
        for part in parts
        if part.line in recent
    ]
    return Log(tuple(found), value(document, header(document), "Started"))


def rules_of(text: bytes | None, approved: int) -> Rules:
    """Read the rules; `approved` is the largest approved pool."""
    if text is None:
        return Rules()
    pool, problems = rules.read_pool(text, approved=approved)
    try:
        document = opened(rules.PATH, text)
    except StateError:
        return Rules(None, tuple(problems))
    top = header(document)
    said = RulesSaid(
        value(document, top, "Version"),
        value(document, top, "Last Updated"),
        pool,
        _gates(document),
    )
    return Rules(said, tuple(problems))


def approved_pool(log: bytes | None) -> int:
    """Return the largest pool that the user has approved."""
    try:
        return max(rules.LIMIT, gates.approved_pool(log)) if log else rules.LIMIT
    except ProblemError:
        return rules.LIMIT


def _paragraph(document: Document, part: Part) -> str:
    first = value(document, part, "Decision")
    try:
        below = labelled(document, part, "Decision")
    except MarkdownError:
        below = None
    more = document.text(below.body, below.content_end) if below else ""
    text = " ".join(f"{first} {plain(more)}".split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _gates(document: Document) -> tuple[str, ...]:
    asked = section_like(document, "Approval Gates")
    if asked is None:
        return ()
    try:
        needed = labelled(document, asked, "The user's approval is needed for") or asked
    except MarkdownError:
        needed = asked
    return tuple(plain(item.text) for item in items(document, needed))


def owners(root: Path, families: Collection[str]) -> dict[str, DocumentModule]:
    """Return each path that a document owns: fixed names, and existing files that match a pattern."""
    # For start-up time: a report edits none of them.
    from orchestrator.state import copies, documents, is_pattern  # noqa: PLC0415

    found = {}
    for document in (*documents(families), *copies(families)):
        for pattern in document.OWNS:
            if is_pattern(pattern):
                # A folder or a pipe of that name, too: whoever reads them all says what is wrong with it.
                found.update(
                    {path.relative_to(root).as_posix(): document for path in sorted(root.glob(pattern))}
                )
            else:
                found[pattern] = document
    return found


def file_problems(document: DocumentModule, path: str, text: bytes, approved: int) -> list[Problem]:
    """Return the problems of a document's text; `approved` is the largest approved pool."""
    if rules.PATH in document.OWNS:
        return rules.problems(text, approved=approved)
    # A document that owns many files knows the name of none.
    found = [(one, one.place.partition(":")) for one in document.problems(text)]
    return [one._replace(place=f"{path}{colon}{line}") for one, (_, colon, line) in found]
