"""DECISIONS.md: what was decided and why, newest first; entries are added and never changed."""

import re
from collections.abc import Collection, Mapping
from datetime import date

from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.append_only import without_closing
from orchestrator.state.canonical.decisions.entries import LogEvent, entries_of, heading_of
from orchestrator.state.canonical.decisions.read import PATH, Entry, dated_headings, read, spans_of
from orchestrator.state.document import editable, opened, present, refuse_open_fence, state_errors
from orchestrator.state.errors import StateError
from orchestrator.state.events import Completion, Event, GateAnswered, RunIntegrated
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
    items,
    labelled,
    one_line,
    parse,
    plain,
    sections,
)
from tickets.problems import Problem

__all__ = ["OWNS", "PATH", "Entry", "added", "changes", "complete", "initial", "problems", "read"]

OWNS: tuple[str, ...] = (PATH,)

_TITLE = "# Architectural Decision Log"
_TRAILER = "**Decision Log End**"
_OF_RUN = re.compile(r"(?:Integrated|Settled) run (?P<run>\d{8}_\d{6}(?:_\d+)?)(?: \(|$)")
_VERDICT = re.compile(
    r"(?P<worker>\S+): (?P<verdict>accepted|partial|rejected|pending|no verdict) \((?P<outcome>\w+)\)"
)
_LISTED = 30
"""How many landed paths an entry names; the landing commit holds them all."""


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Give DECISIONS.md with an entry for verdicts that it does not hold yet; nothing for other events.

    Raises StateError where the file is missing or cannot be read.
    """
    if isinstance(event, LogEvent):
        return _logged(tree, event)
    if not isinstance(event, RunIntegrated):
        return {}
    document = opened(PATH, present(PATH, tree.get(PATH)))
    with state_errors():
        known = _verdicts(document, event.run)
        new = [one for one in event.workers if known.get(one.worker) != (_verdict(one), one.outcome)]
        if not new:
            return {}
        # One run may be settled more than once on a day.
        heading, _, content = _integration(event, new, settled=bool(known)).partition("\n")
        named = _named_apart(heading, {found.title for found, _ in dated_headings(document)})
        return {PATH: added(document, f"{named}\n{content}").data}


def added(document: Document, entry: str) -> Document:
    """Insert an entry (an H2 and its content) above the newest; at the level that the file's entries have."""
    newest = next(dated_headings(document), None)
    if newest is None:
        return add_entry(document, entry)
    heading = newest[0]
    divider = "---\n\n" if heading.level == 2 else ""
    return insert(document, heading.start, f"{'#' * heading.level}{entry.removeprefix('##')}\n\n{divider}")


def _logged(tree: Mapping[str, bytes | None], event: LogEvent) -> dict[str, bytes]:
    """Add the entries of a lead's event that are not there yet."""
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
    """Give a heading that is not there yet, numbered: who refers to an entry names it by its heading."""
    name, number = _title_of(heading), 1
    while (f"{name} ({number})" if number > 1 else name) in there:
        number += 1
    return f"{heading} ({number})" if number > 1 else heading


def _same(there: str, content: str) -> bool:
    """Tell whether an entry says this already, whatever the line ends."""
    return " ".join(there.split()).startswith(" ".join(content.split()))


def problems(text: bytes) -> list[Problem]:
    """Give what is wrong with the log: no date that exists, not newest first, the same heading twice."""
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
            found.append(Problem(place, f"{entry.date} is no date", "mend it", "warning"))
        elif last and entry.date > last:
            what = f"entry of {entry.date} stands below one of {last}"
            found.append(Problem(place, what, "the newest stands at the top", "warning"))
        last = entry.date if _is_date(entry.date) else last
        known, said = bodies.setdefault(heading.title, set()), without_closing(body).strip()
        # We did so once where a run was settled twice on a day; the same text twice is somebody's hand.
        is_ours = _OF_RUN.match(plain(entry.title)) is not None and said not in known
        known.add(said)
        if heading.title in seen and not is_ours:
            what = f"`{heading.title}` is there already, on line {seen[heading.title]}"
            found.append(Problem(place, what, "give it a title of its own", "warning"))
        seen.setdefault(heading.title, entry.line)
    return found


def initial(facts: Facts) -> str:
    """Give the text of a new log, with its first entry."""
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
    """Give the log with the header fields and the first entry that it lacked; what was there stays.

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


def _verdicts(document: Document, run: str) -> dict[str, tuple[str, str]]:
    """Give what the log says of each worker of a run: (verdict, outcome), the newest entry first."""
    known: dict[str, tuple[str, str]] = {}
    starts = {heading.start for heading, entry in dated_headings(document) if _names(entry.title, run)}
    parts = [part for top in sections(document) for part in (top, *sections(document, top))]
    for part in parts:
        below = labelled(document, part, "Decision") if part.start in starts else None
        for item in items(document, below) if below else ():
            match = _VERDICT.match(plain(item.text))
            if match:
                known.setdefault(match["worker"], (match["verdict"], match["outcome"]))
    return known


def _names(title: str, run: str) -> bool:
    match = _OF_RUN.match(plain(title))
    return match is not None and match["run"] == run


def _verdict(worker: Completion) -> str:
    return worker.verdict or "no verdict"


def _integration(event: RunIntegrated, workers: list[Completion], *, settled: bool) -> str:
    said = [_verdict(worker) for worker in workers]
    counts = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(said))
    verdicts = "\n".join(_verdict_line(worker) for worker in workers)
    what = "Settled" if settled else "Integrated"
    return f"""## {day(event.at)}: {what} run {event.run} ({one_line(event.phase)})

**Context:** {_context(event, workers, settled=settled)}

**Decision:** {counts}, recorded by {one_line(event.lead) or "the lead"}.
{verdicts}

**Alternatives Considered:**
1. Landing every output as it is - Rejected because a worker's claim is not evidence
2. Dropping the whole run - Rejected because each output is judged by itself

**Consequences:**
{_consequences(event, workers)}

**Status:** Accepted
**Supersedes:** none"""


def _verdict_line(worker: Completion) -> str:
    reason = one_line(worker.reason)
    said = f"- {one_line(worker.worker)}: {_verdict(worker)} ({worker.outcome})"
    return f"{said} \u2014 {reason}" if reason else said


def _context(event: RunIntegrated, workers: list[Completion], *, settled: bool) -> str:
    names = ", ".join(f"{one_line(one.worker)} ({one_line(one.title)})" for one in workers)
    if settled:
        return f"Verdicts of run {event.run} changed since it was integrated: {names}."
    return f"Run {event.run} of {one_line(event.phase)} ended; its workers were {names}."


def _consequences(event: RunIntegrated, workers: list[Completion]) -> str:
    files = list(dict.fromkeys(one_line(path) for worker in workers for path in worker.files))
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    commit = f" (commit {event.landing})" if event.landing else ""
    landed = f"landed {', '.join(files[:_LISTED])}{more}{commit}" if files else "no files landed"
    lacking = [one for one in workers if one.verdict not in {"accepted", "pending"}]
    out = [worker.worker for worker in lacking if not worker.is_whole]
    despite = [one.worker for one in workers if one.files and one.outcome != "complete"]
    held = [worker.worker for worker in workers if worker.verdict == "pending"]
    lost = [f"not landed in full: {', '.join(map(one_line, out))}"] if out else []
    lost += [f"landed without being complete: {', '.join(map(one_line, despite))}"] if despite else []
    lost += [one_line(event.harm)] if event.harm else []
    lines = [
        f"- Positive: {landed}",
        *(f"- Negative: {one}" for one in lost or ["none known"]),
        f"- Neutral: gate {one_line(event.gate) or 'none'}",
    ]
    if held:
        waits = ", ".join(map(one_line, held))
        lines.append(f"- Neutral: {waits} waits for the lead (`orchestrate integrate {event.run}`)")
    return "\n".join(lines)


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
