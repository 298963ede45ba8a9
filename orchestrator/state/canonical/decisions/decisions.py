"""DECISIONS.md: decisions with their reasons, newest first; entries are added and never changed."""

import re
from collections.abc import Collection, Mapping
from datetime import date

from orchestrator.errors import StateError
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions._entries import (
    LogEvent,
    decided,
    entries_of,
    heading_of,
    integration,
)
from orchestrator.state.canonical.decisions.append_only import without_closing
from orchestrator.state.canonical.decisions.read import PATH, Entry, dated_headings, read, spans_of
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import active_workers, completed
from orchestrator.state.document import editable, opened, present, refuse_open_fence, state_errors
from orchestrator.state.events import Event, GateAnswered, RunIntegrated
from orchestrator.state.facts import Facts, day
from tickets.markdown import (
    Document,
    MarkdownError,
    add_entry,
    append_section,
    field,
    front_problems,
    header,
    insert,
    one_line,
    parse,
    plain,
)
from tickets.problems import Problem

__all__ = ["OWNS", "PATH", "Entry", "added", "changes", "complete", "initial", "problems", "read"]

OWNS: tuple[str, ...] = (PATH,)

_TITLE = "# Architectural Decision Log"
_TRAILER = "**Decision Log End**"
_OF_RUN = re.compile(r"(?:Integrated|Settled) run (?P<run>\d{8}_\d{6}(?:_\d+)?)(?: \(|$)")


def needs(_: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the log where the event is a decision; for verdicts that somebody decided, STATUS.md as well."""
    if isinstance(event, LogEvent):
        return (PATH,)
    return (PATH, STATUS) if isinstance(event, RunIntegrated) and _was_decided(event) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return DECISIONS.md with the entries that the event adds; nothing where it holds them, or needs none.

    `tree` holds STATUS.md as it was before the event. Raises StateError where a file that is needed is
    missing or cannot be read.
    """
    if isinstance(event, LogEvent):
        return _logged(tree, event)
    if isinstance(event, RunIntegrated):
        return _integrated(tree, event)
    return {}


def _integrated(tree: Mapping[str, bytes | None], event: RunIntegrated) -> dict[str, bytes]:
    """Add an entry about the verdicts that somebody decided and that STATUS.md does not show yet."""
    if not _was_decided(event):
        return {}
    text = tree.get(STATUS)
    shown = opened(STATUS, text) if text else None
    workers = decided(event, active_workers(shown) if shown else (), completed(shown) if shown else ())
    if not workers:
        return {}
    document = opened(PATH, present(PATH, tree.get(PATH)))
    title, content = integration(event, workers)
    # A runtime that was killed before it noted this records it again, and the list in STATUS.md is short.
    last = next((body for title, body in spans_of(document) if _is_of(title, event.run)), "")
    if _same(last, content):
        return {}
    heading = f"## {heading_of(event.at, title)}"
    with state_errors():
        # One run may be settled more than once on a day.
        named = _named_apart(heading, {found.title for found, _ in dated_headings(document)})
        return {PATH: added(document, f"{named}\n\n{content}").data}


def _was_decided(event: RunIntegrated) -> bool:
    return any(one.decider != "rule" for one in event.workers)


def _is_of(heading: str, run: str) -> bool:
    found = _OF_RUN.search(plain(heading))
    return found is not None and found["run"] == run


def added(document: Document, entry: str) -> Document:
    """Insert an entry (an H2 and its content) above the newest; at the level that the file's entries have."""
    newest = next(dated_headings(document), None)
    if newest is None:
        return add_entry(document, entry)
    heading = newest[0]
    divider = "---\n\n" if heading.level == 2 else ""
    return insert(document, heading.start, f"{'#' * heading.level}{entry.removeprefix('##')}\n\n{divider}")


def _logged(tree: Mapping[str, bytes | None], event: LogEvent) -> dict[str, bytes]:
    """Add the entries of a lead's event that the log lacks."""
    before = document = editable(PATH, tree)
    refuse_open_fence(document)
    if isinstance(event, GateAnswered) and gates.stands(document.data, event):
        return {}
    with state_errors():
        for title, content in entries_of(event):
            there = dict(spans_of(document))
            heading = f"## {heading_of(event.at, title)}"
            wanted = _title_of(heading)
            if not isinstance(event, GateAnswered) and _same(there.get(wanted, ""), content):
                continue
            document = added(document, f"{_named_apart(heading, there)}\n\n{content}")
    return {} if document is before else {PATH: document.data}


def _title_of(heading: str) -> str:
    return parse(f"{heading}\n".encode(), PATH).headings[0].title


def _named_apart(heading: str, there: Collection[str]) -> str:
    """Return a heading that the log lacks, numbered if need be: other entries refer to it by its heading."""
    name, number = _title_of(heading), 1
    while (f"{name} ({number})" if number > 1 else name) in there:
        number += 1
    return f"{heading} ({number})" if number > 1 else heading


def _same(there: str, content: str) -> bool:
    """Return whether an entry has this content already, with any line ends."""
    return " ".join(there.split()).startswith(" ".join(content.split()))


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the log: impossible dates, wrong order, repeated headings."""
    try:
        document = opened(PATH, text)
    except StateError as error:
        return list(error.problems)
    found = list(front_problems(document))
    for key in ("Project", "Started"):
        try:
            if field(document, header(document), key) is None:
                do = "`orchestrate init` appends what is missing"
                found.append(Problem(PATH, f"field `{key}` is missing", do, "warning"))
        except MarkdownError as error:
            found += error.problems
    seen: dict[str, int] = {}
    last = ""
    bodies: dict[str, set[str]] = {}
    texts = [body for _, body in spans_of(document)]
    for (heading, entry), body in zip(dated_headings(document), texts, strict=True):
        place = f"{PATH}:{entry.line}"
        if not _is_date(entry.date):
            found.append(Problem(place, f"{entry.date} is not a date", "correct it", "warning"))
        elif last and entry.date > last:
            what = f"the entry of {entry.date} is below one of {last}"
            found.append(Problem(place, what, "move it: the newest entry is at the top", "warning"))
        last = entry.date if _is_date(entry.date) else last
        known, said = bodies.setdefault(heading.title, set()), without_closing(body).strip()
        # Old versions wrote it when a run was settled twice a day; the same text twice is a manual edit.
        is_ours = _OF_RUN.match(plain(entry.title)) is not None and said not in known
        known.add(said)
        if heading.title in seen and not is_ours:
            what = f"`{heading.title}` is there already, on line {seen[heading.title]}"
            found.append(Problem(place, what, "give it a title of its own", "warning"))
        seen.setdefault(heading.title, entry.line)
    return found


def initial(facts: Facts) -> str:
    """Return the text of a new log, with its first entry."""
    project = one_line(facts.project) or "this project"
    return f"""{_TITLE}

**Project:** {project}
**Started:** {day(facts.at)}

---

{_first_entry(facts)}

---

{_TRAILER}
"""


def complete(text: bytes, facts: Facts) -> bytes:
    """Return the log completed with its header fields and its first entry; existing content stays.

    Raises StateError where the file cannot be read, or would read differently afterwards.
    """
    if not text.strip():
        return initial(facts).encode()
    document = opened(PATH, text)
    wanted = {"Project": one_line(facts.project) or "this project", "Started": day(facts.at)}
    with state_errors():
        top = header(document)
        lines = [f"**{key}:** {said}" for key, said in wanted.items() if field(document, top, key) is None]
        if lines and top.title:
            gap = "" if document.data[top.body :][:1] in {b"", b"\n", b"\r"} else "\n"
            document = insert(document, top.body, "\n" + "\n".join(lines) + f"\n{gap}")
        elif lines:
            document = insert(document, document.body, "\n".join([_TITLE, "", *lines, "", ""]))
        if next(dated_headings(document), None) is None:
            document = append_section(document, _first_entry(facts))
    return document.data


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _first_entry(facts: Facts) -> str:
    return f"""## {day(facts.at)}: Lead this project with orchestrate

**Context:** Work by several agents needs one place for the truth, and a record that outlives any of them.

**Decision:** State lives in STATUS.md, DECISIONS.md and AGENTS.md; workers get scoped tickets that
`orchestrate` runs, judges and records.

**Alternatives Considered:**
1. Agents that share one checkout - Rejected because two of them can write the same file
2. State in a database or in a conversation - Rejected because it is lost or out of sight

**Consequences:**
- Positive: any lead can resume from the files in minutes
- Negative: what is not written down does not count
- Neutral: `.taskers/` is disposable and stays out of git

**Status:** Accepted
**Supersedes:** none"""
